"""How far a job is, shown to whoever waits for it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .documents import Progress

#: What it gives back does not matter.
Tell = Callable[[Progress], object]


@contextmanager
def meter(progress: bool | Tell, name: str) -> Iterator[Tell]:
    """True: a bar, if there is a terminal to draw it on. A function: it is called."""
    if not isinstance(progress, bool):
        yield progress
        return
    if not (progress and sys.stderr.isatty()):
        yield lambda update: None
        return
    # Loaded here: most programs that use the client have no terminal.
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[message]}", markup=False),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=100, message="")
        yield lambda update: bar.update(task, completed=update.percent, message=update.message)
