"""The progress of files on a terminal; elsewhere nothing is shown."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

Tell = Callable[[str, int], None]


class Meter:
    """A bar for each file that is being worked on."""

    def __init__(self, bar: "Progress | None") -> None:
        self._bar = bar

    @contextmanager
    def file(self, name: str) -> Iterator[Tell]:
        if self._bar is None:
            yield lambda step, percent: None
            return
        bar, task = self._bar, self._bar.add_task(name, total=100, step="")
        try:
            yield lambda step, percent: bar.update(task, completed=percent, step=step)
        finally:
            bar.remove_task(task)


@contextmanager
def meter(*, printing: bool) -> Iterator[Meter]:
    """With `printing`, text that comes to the terminal shows by itself how far things are."""
    on_terminal = sys.stdout.isatty()
    if not sys.stderr.isatty() or (printing and on_terminal):
        yield Meter(None)
        return
    # Loaded here: without a terminal it is not needed.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[step]}", markup=False),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    # What goes to a file must not be drawn above the bar instead.
    with Progress(*columns, console=console, transient=True, redirect_stdout=on_terminal) as bar:
        yield Meter(bar)
