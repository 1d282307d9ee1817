"""Tables for people. Loaded by those commands that print one: rich takes its time to load."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .backend import Document, Status
from .output import printable, say

if TYPE_CHECKING:
    from ..observability.doctor import Finding

COLOURS = {
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

#: Wide enough for every column, where no terminal says how wide it is.
PIPE_WIDTH = 200


def print_jobs(jobs: Sequence[Document]) -> None:
    table = table_of("JOB", "TYPE", "STATUS", "DONE", "AGE", "NAME")
    for job in jobs:
        table.add_row(
            job["job_id"],
            cell(job["job_type"]),
            coloured(job["status"]),
            f"{job['progress']['percent']} %",
            age(job["created_at"]),
            cell(job["error"]["code"] if job["error"] else job["job_name"] or ""),
        )
    console().print(table)


def print_batches(batches: Sequence[Document]) -> None:
    table = table_of("BATCH", "STATUS", "JOBS", "DONE", "FAILED", "AGE", "NAME")
    for batch in batches:
        status = coloured(batch["status"]) if batch["isActive"] else cell("paused", "yellow")
        numbers = (str(batch[f"{kind}_jobs"]) for kind in ("total", "completed", "failed"))
        name = batch["batch_name"] if batch["batch_name"] != batch["batch_id"] else ""
        table.add_row(batch["batch_id"], status, *numbers, age(batch["created_at"]), cell(name))
    console().print(table)


def print_talks(talks: Sequence[Mapping[str, Any]]) -> None:
    """The parameters of session jobs, with a tick where there is a video or slides."""
    table = table_of("DAY", "START", "TRACK", "VIDEO", "SLIDES", "TITLE")
    for talk in talks:
        ticks = ["yes" if talk.get(key) else "" for key in ("video_url", "attachments_url")]
        told = [str(talk.get(key) or "") for key in ("day", "starttime", "track")]
        table.add_row(*map(cell, (*told, *ticks, talk["session"])))
    console().print(table)


def print_job(job: Document) -> None:
    table = _pairs()
    table.add_row("job", job["job_id"])
    table.add_row("type", cell(job["job_type"]))
    table.add_row("status", coloured(job["status"]))
    table.add_row("progress", cell(f"{job['progress']['percent']} % {job['progress']['step']}"))
    created = f"{moment(job['created_at']):%Y-%m-%d %H:%M:%S} UTC ({age(job['created_at'])} ago)"
    table.add_row("created", created)
    if job["processing_started_at"] and job["completed_at"]:
        took = moment(job["completed_at"]) - moment(job["processing_started_at"])
        table.add_row("took", duration(took))
    error, logs = job["error"], job["logs"]
    for name, value in (
        ("name", job["job_name"]),
        ("batch", job["batch_id"]),
        ("user", job["user_id"]),
        ("run at", job["run_at"] and f"{moment(job['run_at']):%Y-%m-%d %H:%M:%S} UTC"),
        ("attempt", job["attempt"]),
        ("error", error and f"{error['code']}: {error['message']}"),
        ("parameters", job["parameters"] and _short_json(job["parameters"])),
        ("results", job["results"] and _short_json(_said(job["results"]))),
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
        verdict = coloured(finding.verdict.value)
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
        colour = {"alive": "green", "stopping": "yellow", "gone": "red"}[state]
        table.add_row(
            cell(worker["worker_id"]),
            cell(state, colour),
            str(worker["slots"]),
            cell(worker["version"]),
            f"{age(worker['seen_at'])} ago",
            cell(", ".join(worker["job_types"]) or "everything"),
        )
    console().print(table)


def print_tallies(rows: Mapping[str, tuple[int, int, int]], *, done: str) -> None:
    """What was found, done and skipped of each kind."""
    table = table_of("KIND", "FOUND", done.upper(), "SKIPPED")
    for name, numbers in rows.items():
        table.add_row(name, *map(str, numbers))
    console().print(table)


def print_templates(templates: Sequence[Document]) -> None:
    table = table_of("TEMPLATE", "SOURCE", "LANGUAGE", "FIELDS", "TITLE")
    for one in templates:
        faults = one["faults"]
        title = f"cannot be used: {_fault(faults[0])}" if faults else one["title"]
        fields = "" if faults else str(len(one["fields"]))
        told = (one["name"], one["source"], one["language"] or "", fields, title)
        table.add_row(*map(cell, told))
    console().print(table)


def _fault(fault: Mapping[str, Any]) -> str:
    return f"line {fault['line']}: {fault['message']}"


def print_logs(entries: Sequence[Document]) -> None:
    for entry in entries:
        at = moment(entry["timestamp"])
        say(f"{at:%Y-%m-%d %H:%M:%S} {entry['level']:<8} {entry['message']}")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def age(since: str) -> str:
    return duration(datetime.now(UTC) - moment(since))


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


def _said(results: Document) -> Document:
    """Without what is empty: there are names for all that any job type could make."""
    return {name: value for name, value in results.items() if value not in (None, [], {})}


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 2000 else text[:2000] + " … (all of it: --json)"


def cell(text: str, style: str = "") -> Text:
    """No markup and no orders to the terminal, whatever the text says."""
    return Text(printable(text), style)


def coloured(word: str) -> Text:
    return cell(word, COLOURS.get(word, ""))


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def table_of(*names: str) -> Table:
    """Only the last column gives way when there is little room."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in names[:-1]:
        table.add_column(name, no_wrap=True)
    table.add_column(names[-1], overflow="ellipsis", no_wrap=True)
    return table


def _pairs() -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    return table
