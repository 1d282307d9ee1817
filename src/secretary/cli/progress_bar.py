"""How far jobs are: bars on a terminal, lines elsewhere if they are wanted, else nothing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .backend import Advance, Tell
from .output import complain

if TYPE_CHECKING:
    from rich.progress import Progress

#: A line is worth it when so many percent have passed, or the words are others.
LINE_EVERY = 10
BAR_WIDTH = 24


class ProgressBar:
    """A bar, or lines, for each job that is being worked on."""

    def __init__(self, bar: "Progress | None", *, lines: bool = False) -> None:
        self._bar = bar
        self._lines = lines

    @contextmanager
    def job(self, name: str, job_id: str = "") -> Iterator[Tell]:
        """Lines have the id, if there is one: they are read by programs, too."""
        if self._bar is None:
            yield _Lines(job_id or name).tell if self._lines else lambda advance: None
            return
        bar, task = self._bar, self._bar.add_task(name, total=100, step="")
        try:
            yield lambda advance: bar.update(task, completed=advance.percent, step=advance.text)
        finally:
            bar.remove_task(task)


def gist(advance: Advance) -> tuple[str, int]:
    """Whether a line is worth it: pages and seconds, counted in the words, do not matter."""
    words = "".join(letter for letter in advance.text if not letter.isdigit())
    return words, advance.percent // LINE_EVERY


class _Lines:
    def __init__(self, name: str) -> None:
        self._name = name
        self._told: tuple[str, int] | None = None

    def tell(self, advance: Advance) -> None:
        if (now := gist(advance)) != self._told:
            self._told = now
            complain(f"{self._name}: {advance.percent} % {advance.text}")


@contextmanager
def meter(*, printing: bool = False, lines: bool = False) -> Iterator[ProgressBar]:
    """With `printing`, text that comes to the terminal shows by itself how far things are."""
    on_terminal = sys.stdout.isatty()
    if not sys.stderr.isatty() or (printing and on_terminal):
        yield ProgressBar(None, lines=lines)
        return
    # Loaded here: without a terminal it is not needed.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(BAR_WIDTH),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[step]}", markup=False),
    )
    console = Console(stderr=True)
    # What goes to a file must not be drawn above the bar instead.
    with Progress(*columns, console=console, transient=True, redirect_stdout=on_terminal) as bar:
        yield ProgressBar(bar)
