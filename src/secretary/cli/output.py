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

from ..core import errors
from ..core.errors import SecretaryError
from .backend import FINAL, Document, JobProgress, OnProgress, Page, Status

if TYPE_CHECKING:
    from rich.console import Console
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


def print_warnings(submitted: Document) -> None:
    """What was not understood of a request for a job or batch."""
    for warning in submitted.get("warnings") or ():
        echo_err(f"Warning: {warning['message']}")


def print_json(document: Any) -> None:
    echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_json_line(document: Any) -> None:
    echo(json.dumps(document, ensure_ascii=False))


def print_page(
    name: str, page: Page, print_table: Callable[[Sequence[Document]], None], *, as_json: bool
) -> None:
    if as_json:
        print_json({name: page.items, "next_cursor": page.next_cursor})
        return
    print_table(page.items)
    if page.next_cursor:
        echo_err(f"For the next page: --cursor {page.next_cursor}")


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
    errors.InvalidSettings: ExitCode.USAGE,
    errors.InvalidParameters: ExitCode.USAGE,
    errors.StoreUnavailable: ExitCode.UNREACHABLE,
    errors.NotFound: ExitCode.NOT_FOUND,
    errors.AccessDenied: ExitCode.REFUSED,
    errors.RateLimited: ExitCode.REFUSED,
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
    from rich import progress
    from rich.console import Console

    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(BAR_WIDTH),
        progress.TextColumn("{task.percentage:>3.0f} %"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left:"),
        progress.TimeRemainingColumn(compact=True),
        progress.TextColumn("{task.fields[step]}", markup=False),
    )
    # Redirected output must reach its file instead of being drawn above the bars.
    with progress.Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=on_terminal
    ) as bars:
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


#: Of job states, and of the doctor's verdicts.
COLORS = {
    "pending": "yellow", "processing": "cyan", "completed": "green", "failed": "red",
    "cancelled": "magenta", "ok": "green", "info": "dim", "warning": "yellow", "problem": "red",
}  # fmt: skip

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
        percent, name = f"{job['progress']['percent']} %", job["job_name"] or ""
        name = job["error"]["code"] if job["error"] else name
        status, since = status_cell(job["status"]), age(job["created_at"])
        add_row(table, job["job_id"], job["job_type"], status, percent, since, name)
    console().print(table)


def print_batches(batches: Sequence[Document]) -> None:
    table = table_of("BATCH", "STATUS", "JOBS", "DONE", "FAILED", "AGE", "NAME")
    for batch in batches:
        status = status_cell(batch["status"]) if batch["isActive"] else cell("paused", "yellow")
        numbers = (batch[f"{kind}_jobs"] for kind in ("total", "completed", "failed"))
        name = batch["batch_name"] if batch["batch_name"] != batch["batch_id"] else ""
        add_row(table, batch["batch_id"], status, *numbers, age(batch["created_at"]), name)
    console().print(table)


def print_talks(talks: Sequence[Mapping[str, Any]]) -> None:
    """Print the parameters of session jobs, and whether they have a video and slides."""
    table = table_of("DAY", "START", "TRACK", "VIDEO", "SLIDES", "TITLE")
    for talk in talks:
        schedule = (talk.get(key) or "" for key in ("day", "starttime", "track"))
        media = ("yes" if talk.get(key) else "" for key in ("video_url", "attachments_url"))
        add_row(table, *schedule, *media, talk["session"])
    console().print(table)


def print_job(job: Document) -> None:
    error, logs, created = job["error"], job["logs"], job["created_at"]
    took = ""
    if job["processing_started_at"] and job["completed_at"]:
        took = duration(parse_time(job["completed_at"]) - parse_time(job["processing_started_at"]))
    # Results have a field for everything that any job type can produce.
    results = {
        key: value for key, value in (job["results"] or {}).items() if value not in (None, [], {})
    }
    _print_pairs(
        {
            "job": job["job_id"],
            "type": job["job_type"],
            "status": status_cell(job["status"]),
            "progress": f"{job['progress']['percent']} % {job['progress']['step']}",
            "created": f"{parse_time(created):%Y-%m-%d %H:%M:%S} UTC ({age(created)} ago)",
            "took": took,
            "name": job["job_name"],
            "batch": job["batch_id"],
            "user": job["user_id"],
            "run at": job["run_at"] and f"{parse_time(job['run_at']):%Y-%m-%d %H:%M:%S} UTC",
            "attempt": job["attempt"],
            "expires": (expires_at := job.get("expires_at"))
            and f"{parse_time(expires_at):%Y-%m-%d %H:%M:%S} UTC",
            "error": error and f"{error['code']}: {error['message']}",
            "parameters": job["parameters"] and _short_json(job["parameters"]),
            "results": job["results"] and _short_json(results),
            "log": logs and f"{len(logs)} entries: secretary jobs logs {job['job_id']}",
        }
    )


def print_batch(batch: Document) -> None:
    names = ("batch_id", "batch_name", "status", "isActive", "archived", "user_id")
    counts = {f"{status} jobs": str(batch[f"{status}_jobs"]) for status in Status}
    _print_pairs({name: str(batch[name]) for name in names} | counts)


def _print_pairs(pairs: Mapping[str, Any]) -> None:
    """Print names and values, except for empty ones."""
    table = _table_of_pairs()
    for name, value in pairs.items():
        if value:
            add_row(table, name, value)
    console().print(table)


def print_findings(findings: "Sequence[Finding]") -> None:
    table = _table_of_pairs()
    for finding in findings:
        text = cell(finding.fact)
        if finding.remedy and finding.verdict != "ok":
            text.append(f"\n→ {finding.remedy}", "bold")
        add_row(table, finding.subject, status_cell(finding.verdict.value), text)
    console().print(table)


def print_workers(workers: Sequence[Document]) -> None:
    table = table_of("WORKER", "STATE", "SLOTS", "VERSION", "SEEN", "TAKES")
    for worker in workers:
        state = cell("stopping", "yellow") if worker["draining"] else cell("alive", "green")
        if not worker["alive"]:
            state = cell("gone", "red")
        seen, types = f"{age(worker['seen_at'])} ago", ", ".join(worker["job_types"])
        name, slots, version = worker["worker_id"], str(worker["slots"]), worker["version"]
        if worker.get("io_slots"):
            slots += f" + {worker['io_slots']} I/O"
        add_row(table, name, state, slots, version, seen, types or "everything")
    console().print(table)


def print_transfer_counts(rows: Mapping[str, tuple[int, int, int]], *, done: str) -> None:
    """Print how many records of each kind were found, transferred and skipped."""
    table = table_of("KIND", "FOUND", done.upper(), "SKIPPED")
    for name, numbers in rows.items():
        add_row(table, name, *numbers)
    console().print(table)


def print_templates(templates: Sequence[Document]) -> None:
    table = table_of("TEMPLATE", "SOURCE", "LANGUAGE", "FIELDS", "TITLE")
    for template in templates:
        fields, title = str(len(template["fields"])), template["title"]
        if faults := template["faults"]:
            fields, title = "", f"cannot be used: line {faults[0]['line']}: {faults[0]['message']}"
        names = (template["name"], template["source"], template["language"] or "")
        add_row(table, *names, fields, title)
    console().print(table)


def print_log_entry(entry: Document) -> None:
    time = parse_time(entry["timestamp"])
    echo(f"{time:%Y-%m-%d %H:%M:%S} {entry['level']:<8} {entry['message']}")


def activity(job: Document) -> str:
    """Describe what an unfinished job is doing, or why it failed."""
    if job["status"] not in FINAL:
        return JobProgress.of(job).text
    return f"{job['error']['code']}: {job['error']['message']}" if job["error"] else ""


@contextmanager
def job_display(*, as_json: bool) -> Iterator[ShowJobs]:
    """Show jobs as they change: as JSON, as lines, or as a table on a terminal."""
    if as_json:
        yield _on_change(lambda job: (job["status"], job["progress"]), print_json_line)
    elif not sys.stdout.isatty():
        yield _on_change(lambda job: (job["status"], line_key(JobProgress.of(job))), _print_line)
    else:
        from rich.live import Live

        with Live(console=console(), auto_refresh=False) as live:
            yield lambda jobs: live.update(job_table(jobs, live.console.width), refresh=True)


def _on_change(
    key: Callable[[Document], object], print_one: Callable[[Document], None]
) -> ShowJobs:
    """Print a job whenever its key changes."""
    printed: dict[str, object] = {}

    def show(jobs: Sequence[Document]) -> None:
        for job in jobs:
            if printed.get(job["job_id"]) != (current := key(job)):
                printed[job["job_id"]] = current
                print_one(job)

    return show


def _print_line(job: Document) -> None:
    percent = f"{JobProgress.of(job).percent} %"
    parts = (job["job_id"], job["job_type"], job["status"], percent, activity(job))
    echo(f"{datetime.now():%H:%M:%S} {' '.join(parts)}".rstrip())


def job_table(jobs: Sequence[Document], width: int) -> "Table | Text":
    """The table of `watch`; columns that need a wide terminal are left out on narrow ones."""
    from rich.progress_bar import ProgressBar

    if not jobs:
        return cell("No pending or running jobs.", "dim")
    widths = {"TYPE": MIN_WIDTH_FOR_TYPE, "": MIN_WIDTH_FOR_BAR, "AGE": MIN_WIDTH_FOR_TYPE}
    names = ("JOB", "TYPE", "STATUS", "", "DONE", "LEFT", "AGE", "WHAT")
    visible = [name for name in names if width >= widths.get(name, 0)]
    table = table_of(*visible)
    table.expand, table.columns[-1].ratio = True, 1  # so the other columns keep their width
    for job in jobs:
        percent, doing = JobProgress.of(job).percent, activity(job)
        name = job["job_name"] or job["job_type"]
        cells = {
            "JOB": job["job_id"],
            "TYPE": job["job_type"],
            "STATUS": status_cell(job["status"]),
            "": ProgressBar(total=100, completed=percent, width=JOB_BAR_WIDTH),
            "DONE": f"{percent} %",
            "LEFT": remaining_time(job),
            "AGE": age(job["created_at"]),
            "WHAT": f"{name}: {doing}" if doing else name,
        }
        add_row(table, *(cells[column] for column in visible))
    return table


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
    for unit, length, until in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172800)):
        if seconds < until:
            return f"{seconds / length:.{1 if seconds < 10 else 0}f} {unit}"
    return f"{seconds / 86400:.0f} d"


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


def _table_of_pairs() -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    return table


def add_row(table: "Table", *values: Any) -> None:
    """Add a row; other values than renderables of Rich are shown as plain text."""
    table.add_row(*(one if hasattr(one, "__rich_console__") else cell(str(one)) for one in values))
