"""What commands print: text, JSON, tables, progress and exit codes. Rich is imported when it is
needed: it is slow to load."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
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
from .backend import FINAL, Document, JobProgress, OnProgress, Status

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

    from ..observability.doctor import Finding


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


COLORS = {
    "pending": "yellow",
    "processing": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
    "ok": "green",
    "info": "dim",
    "warning": "yellow",
    "problem": "red",
}

#: Width of tables without a terminal: enough for every column.
PIPE_WIDTH = 200

#: Displays the current state of jobs.
ShowJobs = Callable[[Sequence[Document]], None]

JOB_BAR_WIDTH = 12
#: The live table shows ids in full, because they are copied; these columns need a wide terminal.
MIN_WIDTH_FOR_TYPE, MIN_WIDTH_FOR_BAR = 100, 130


def print_jobs(jobs: Sequence[Document]) -> None:
    table = table_of("JOB", "TYPE", "STATUS", "DONE", "AGE", "NAME")
    for job in jobs:
        table.add_row(
            job["job_id"],
            cell(job["job_type"]),
            status_cell(job["status"]),
            f"{job['progress']['percent']} %",
            age(job["created_at"]),
            cell(job["error"]["code"] if job["error"] else job["job_name"] or ""),
        )
    console().print(table)


def print_batches(batches: Sequence[Document]) -> None:
    table = table_of("BATCH", "STATUS", "JOBS", "DONE", "FAILED", "AGE", "NAME")
    for batch in batches:
        status = status_cell(batch["status"]) if batch["isActive"] else cell("paused", "yellow")
        numbers = (str(batch[f"{kind}_jobs"]) for kind in ("total", "completed", "failed"))
        name = batch["batch_name"] if batch["batch_name"] != batch["batch_id"] else ""
        table.add_row(batch["batch_id"], status, *numbers, age(batch["created_at"]), cell(name))
    console().print(table)


def print_talks(talks: Sequence[Mapping[str, Any]]) -> None:
    """Print the parameters of session jobs, and whether they have a video and slides."""
    table = table_of("DAY", "START", "TRACK", "VIDEO", "SLIDES", "TITLE")
    for talk in talks:
        schedule = [str(talk.get(key) or "") for key in ("day", "starttime", "track")]
        media = ["yes" if talk.get(key) else "" for key in ("video_url", "attachments_url")]
        table.add_row(*map(cell, (*schedule, *media, talk["session"])))
    console().print(table)


def print_job(job: Document) -> None:
    table = _pairs()
    table.add_row("job", job["job_id"])
    table.add_row("type", cell(job["job_type"]))
    table.add_row("status", status_cell(job["status"]))
    table.add_row("progress", cell(f"{job['progress']['percent']} % {job['progress']['step']}"))
    created = (
        f"{parse_time(job['created_at']):%Y-%m-%d %H:%M:%S} UTC ({age(job['created_at'])} ago)"
    )
    table.add_row("created", created)
    if job["processing_started_at"] and job["completed_at"]:
        took = parse_time(job["completed_at"]) - parse_time(job["processing_started_at"])
        table.add_row("took", duration(took))
    error, logs = job["error"], job["logs"]
    for name, value in (
        ("name", job["job_name"]),
        ("batch", job["batch_id"]),
        ("user", job["user_id"]),
        ("run at", job["run_at"] and f"{parse_time(job['run_at']):%Y-%m-%d %H:%M:%S} UTC"),
        ("attempt", job["attempt"]),
        ("error", error and f"{error['code']}: {error['message']}"),
        ("parameters", job["parameters"] and _short_json(job["parameters"])),
        ("results", job["results"] and _short_json(_without_empty(job["results"]))),
        ("log", logs and f"{len(logs)} entries: secretary jobs logs {job['job_id']}"),
    ):
        if value:
            table.add_row(name, cell(str(value)))
    console().print(table)


def print_batch(batch: Document) -> None:
    table = _pairs()
    for name in ("batch_id", "batch_name", "status", "isActive", "archived", "user_id"):
        table.add_row(name, cell(str(batch[name])))
    for status in Status:
        table.add_row(f"{status} jobs", str(batch[f"{status}_jobs"]))
    console().print(table)


def print_findings(findings: "Sequence[Finding]") -> None:
    table = _pairs()
    for finding in findings:
        verdict = status_cell(finding.verdict.value)
        text = cell(finding.fact)
        if finding.remedy and finding.verdict != "ok":
            text.append(f"\n→ {finding.remedy}", "bold")
        table.add_row(finding.subject, verdict, text)
    console().print(table)


def print_workers(workers: Sequence[Document]) -> None:
    table = table_of("WORKER", "STATE", "SLOTS", "VERSION", "SEEN", "TAKES")
    for worker in workers:
        state = "stopping" if worker["draining"] else "alive"
        state = state if worker["alive"] else "gone"
        color = {"alive": "green", "stopping": "yellow", "gone": "red"}[state]
        table.add_row(
            cell(worker["worker_id"]),
            cell(state, color),
            str(worker["slots"]),
            cell(worker["version"]),
            f"{age(worker['seen_at'])} ago",
            cell(", ".join(worker["job_types"]) or "everything"),
        )
    console().print(table)


def print_transfer_counts(rows: Mapping[str, tuple[int, int, int]], *, done: str) -> None:
    """Print how many records of each kind were found, transferred and skipped."""
    table = table_of("KIND", "FOUND", done.upper(), "SKIPPED")
    for name, numbers in rows.items():
        table.add_row(name, *map(str, numbers))
    console().print(table)


def print_templates(templates: Sequence[Document]) -> None:
    table = table_of("TEMPLATE", "SOURCE", "LANGUAGE", "FIELDS", "TITLE")
    for template in templates:
        fields, title = str(len(template["fields"])), template["title"]
        if faults := template["faults"]:
            fields, title = "", f"cannot be used: line {faults[0]['line']}: {faults[0]['message']}"
        row = (template["name"], template["source"], template["language"] or "", fields, title)
        table.add_row(*map(cell, row))
    console().print(table)


def print_logs(entries: Sequence[Document]) -> None:
    for entry in entries:
        time = parse_time(entry["timestamp"])
        echo(f"{time:%Y-%m-%d %H:%M:%S} {entry['level']:<8} {entry['message']}")


def activity(job: Document) -> str:
    """Describe what an unfinished job is doing, or why it failed."""
    if job["status"] not in FINAL:
        return JobProgress.of(job).text
    return f"{job['error']['code']}: {job['error']['message']}" if job["error"] else ""


@contextmanager
def live_job_table() -> Iterator[ShowJobs]:
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        yield lambda jobs: live.update(job_table(jobs, live.console.width), refresh=True)


def job_table(jobs: Sequence[Document], width: int) -> "Table | Text":
    if not jobs:
        return cell("No pending or running jobs.", "dim")
    visible = {
        "JOB": True,
        "TYPE": width >= MIN_WIDTH_FOR_TYPE,
        "STATUS": True,
        "": width >= MIN_WIDTH_FOR_BAR,
        "DONE": True,
        "LEFT": True,
        "AGE": width >= MIN_WIDTH_FOR_TYPE,
        "WHAT": True,
    }
    table = table_of(*(name for name, is_visible in visible.items() if is_visible))
    table.expand, table.columns[-1].ratio = True, 1  # so the other columns keep their width
    for job in jobs:
        cells = zip(_job_cells(job), visible.values(), strict=True)
        table.add_row(*(cell for cell, is_visible in cells if is_visible))
    return table


def _job_cells(job: Document) -> "tuple[RenderableType, ...]":
    from rich.progress_bar import ProgressBar

    percent, doing = JobProgress.of(job).percent, activity(job)
    name = job["job_name"] or job["job_type"]
    return (
        job["job_id"],
        cell(job["job_type"]),
        status_cell(job["status"]),
        ProgressBar(total=100, completed=percent, width=JOB_BAR_WIDTH),
        f"{percent} %",
        remaining_time(job),
        age(job["created_at"]),
        cell(f"{name}: {doing}" if doing else name),
    )


def remaining_time(job: Document) -> str:
    """Estimate the remaining time from the progress so far."""
    percent = JobProgress.of(job).percent
    if job["status"] != Status.PROCESSING or not 0 < percent < 100:
        return ""
    elapsed = datetime.now(UTC) - parse_time(job["processing_started_at"])
    return duration(elapsed * (100 - percent) / percent)


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def age(since: str) -> str:
    return duration(datetime.now(UTC) - parse_time(since))


def duration(time: timedelta) -> str:
    seconds = max(time.total_seconds(), 0)
    for unit, length, until in (
        ("s", 1, 120),
        ("min", 60, 7200),
        ("h", 3600, 172800),
    ):
        if seconds < until:
            return f"{seconds / length:.{1 if seconds < 10 else 0}f} {unit}"
    return f"{seconds / 86400:.0f} d"


def _without_empty(results: Document) -> Document:
    """Drop empty values: results have a field for everything that any job type can produce."""
    return {name: value for name, value in results.items() if value not in (None, [], {})}


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 2000 else text[:2000] + " … (use --json for the rest)"


def cell(text: str, style: str = "") -> "Text":
    """Text without markup or control characters."""
    from rich.text import Text

    return Text(printable(text), style)


def status_cell(status: str) -> "Text":
    return cell(status, COLORS.get(status, ""))


def console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def table_of(*names: str) -> "Table":
    """A table whose last column is shortened when the terminal is too narrow."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in names[:-1]:
        table.add_column(name, no_wrap=True)
    table.add_column(names[-1], overflow="ellipsis", no_wrap=True)
    return table


def _pairs() -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    return table
