"""What commands print: text, JSON, progress and exit codes. Tables are in `tables`."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ..core.errors import (
    AccessDenied,
    InvalidParameters,
    InvalidSettings,
    NotFound,
    RateLimited,
    SecretaryError,
    StoreUnavailable,
)
from .backend import JobProgress, OnProgress

if TYPE_CHECKING:
    from rich.progress import Progress

#: Control characters and bidirectional overrides, except for tab and newline.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

#: Without a terminal, print a line of progress every so many percent.
LINE_STEP_PERCENT = 10
BAR_WIDTH = 24


def printable(text: str) -> str:
    """Replace control characters: names and messages come from users and documents."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def echo(text: str) -> None:
    """Print to standard output; a pipe gets the text unchanged."""
    print(printable(text) if sys.stdout.isatty() else text, flush=True)


def echo_err(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


def print_json(document: Any) -> None:
    echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_json_line(document: Any) -> None:
    echo(json.dumps(document, ensure_ascii=False))


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    REFUSED = 5
    INTERRUPTED = 130


#: The first match counts; every other error is FAILED.
EXIT_CODES: dict[type[SecretaryError], ExitCode] = {
    InvalidSettings: ExitCode.USAGE,
    InvalidParameters: ExitCode.USAGE,
    StoreUnavailable: ExitCode.UNREACHABLE,
    NotFound: ExitCode.NOT_FOUND,
    AccessDenied: ExitCode.REFUSED,
    RateLimited: ExitCode.REFUSED,
}


def exit_code(error: SecretaryError) -> ExitCode:
    codes = (code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
    return next(codes, ExitCode.FAILED)


class ProgressDisplay:
    """Shows the progress of several jobs: as bars, as lines, or not at all."""

    def __init__(self, bars: "Progress | None", *, lines: bool = False) -> None:
        self._bars = bars
        self._lines = lines

    @contextmanager
    def job(self, name: str, job_id: str = "") -> Iterator[OnProgress]:
        """Bars show the name; lines, which programs may read, the id if there is one."""
        if self._bars is None:
            yield _line_printer(job_id or name) if self._lines else lambda progress: None
            return
        bars, task = self._bars, self._bars.add_task(name, total=100, step="")
        try:
            yield lambda progress: bars.update(task, completed=progress.percent, step=progress.text)
        finally:
            bars.remove_task(task)


@contextmanager
def progress_display(*, printing: bool = False, lines: bool = False) -> Iterator[ProgressDisplay]:
    """Bars on a terminal, else lines if wanted. No bars while `printing` text to a terminal."""
    on_terminal = sys.stdout.isatty()
    if not sys.stderr.isatty() or (printing and on_terminal):
        yield ProgressDisplay(None, lines=lines)
        return
    # Imported here: not needed without a terminal.
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
    # Redirected output must reach its file instead of being drawn above the bars.
    with Progress(*columns, console=console, transient=True, redirect_stdout=on_terminal) as bars:
        yield ProgressDisplay(bars)


def line_key(progress: JobProgress) -> tuple[str, int]:
    """Print a new line when this changes: counters within the text do not matter."""
    text = "".join(character for character in progress.text if not character.isdigit())
    return text, progress.percent // LINE_STEP_PERCENT


def _line_printer(name: str) -> OnProgress:
    last_key: tuple[str, int] | None = None

    def print_line(progress: JobProgress) -> None:
        nonlocal last_key
        if (key := line_key(progress)) != last_key:
            last_key = key
            echo_err(f"{name}: {progress.percent} % {progress.text}")

    return print_line
