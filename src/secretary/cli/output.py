"""How the command line shows things: tables for people, JSON for programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..doctor import Finding, Verdict
from ..job import Batch, Job, JobStatus, LogEntry, utc_now
from ..templates import Listed

COLOURS = {
    JobStatus.PENDING: "yellow",
    JobStatus.PROCESSING: "cyan",
    JobStatus.COMPLETED: "green",
    JobStatus.FAILED: "red",
    JobStatus.CANCELLED: "magenta",
    Verdict.OK: "green",
    Verdict.INFO: "dim",
    Verdict.WARNING: "yellow",
    Verdict.PROBLEM: "red",
}

#: Wide enough for every column, where no terminal says how wide it is.
PIPE_WIDTH = 200


def say(text: str) -> None:
    print(text, flush=True)


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def print_json(document: Any) -> None:
    say(json.dumps(document, indent=2, ensure_ascii=False))


def print_jobs(jobs: Sequence[Job]) -> None:
    table = _table("JOB", "TYPE", "STATUS", "DONE", "AGE", "NAME")
    for job in jobs:
        table.add_row(
            job.job_id,
            job.job_type,
            _coloured(job.status),
            f"{job.progress.percent} %",
            age(job.created_at),
            job.error.code if job.error else job.job_name or "",
        )
    _console().print(table)


def print_batches(batches: Sequence[Batch]) -> None:
    table = _table("BATCH", "STATUS", "JOBS", "DONE", "FAILED", "AGE", "NAME")
    for batch in batches:
        document = batch.document()
        status = Text("paused", "yellow") if not batch.is_active else _coloured(batch.status)
        table.add_row(
            batch.batch_id,
            status,
            str(batch.total_jobs),
            str(document["completed_jobs"]),
            str(document["failed_jobs"]),
            age(batch.created_at),
            batch.batch_name or "",
        )
    _console().print(table)


def print_talks(talks: Sequence[Mapping[str, Any]]) -> None:
    """The parameters of session jobs, with a tick where there is a video or slides."""
    table = _table("DAY", "START", "TRACK", "VIDEO", "SLIDES", "TITLE")
    for talk in talks:
        ticks = ["yes" if talk.get(key) else "" for key in ("video_url", "attachments_url")]
        told = [str(talk.get(key) or "") for key in ("day", "starttime", "track")]
        table.add_row(*map(Text, (*told, *ticks, talk["session"])))
    _console().print(table)


def print_job(job: Job) -> None:
    table = _pairs()
    table.add_row("job", job.job_id)
    table.add_row("type", job.job_type)
    table.add_row("status", _coloured(job.status))
    table.add_row("progress", f"{job.progress.percent} % {job.progress.step}")
    table.add_row("created", f"{job.created_at:%Y-%m-%d %H:%M:%S} UTC ({age(job.created_at)} ago)")
    if job.processing_started_at and job.completed_at:
        table.add_row("took", _duration(job.completed_at - job.processing_started_at))
    for name, value in (
        ("name", job.job_name),
        ("batch", job.batch_id),
        ("user", job.user_id),
        ("run at", job.run_at and f"{job.run_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("attempt", job.attempt or None),
        ("error", job.error and f"{job.error.code}: {job.error.message}"),
        ("parameters", job.parameters and _short_json(job.parameters)),
        ("results", job.results and _short_json(job.results)),
        ("log", len(job.logs) and f"{len(job.logs)} entries: secretary jobs logs {job.job_id}"),
    ):
        if value:
            table.add_row(name, Text(str(value)))
    _console().print(table)


def print_batch(batch: Batch) -> None:
    document = batch.document()
    table = _pairs()
    for name in ("batch_id", "batch_name", "status", "isActive", "archived", "user_id"):
        table.add_row(name, Text(str(document[name])))
    for status in JobStatus:
        table.add_row(f"{status} jobs", str(document[f"{status}_jobs"]))
    _console().print(table)


def print_logs(entries: Sequence[LogEntry]) -> None:
    for entry in entries:
        say(f"{entry.timestamp:%Y-%m-%d %H:%M:%S} {entry.level:<8} {entry.message}")


def print_findings(findings: Sequence[Finding]) -> None:
    table = _pairs()
    for finding in findings:
        verdict = Text(finding.verdict.value, COLOURS[finding.verdict])
        text = Text(finding.fact)
        if finding.remedy and finding.verdict is not Verdict.OK:
            text.append(f"\n→ {finding.remedy}", "bold")
        table.add_row(finding.subject, verdict, text)
    _console().print(table)


def print_templates(templates: Sequence[Listed]) -> None:
    table = _table("TEMPLATE", "SOURCE", "LANGUAGE", "FIELDS", "TITLE")
    for one in templates:
        template = one.template
        title = template.title if template else f"cannot be used: {one.faults[0]}"
        language = (template.language or "") if template else ""
        fields = str(len(template.fields)) if template else ""
        table.add_row(one.name, one.origin, language, fields, Text(title))
    _console().print(table)


def print_tallies(rows: Mapping[str, tuple[int, int, int]], *, done: str) -> None:
    """What was found, done and skipped of each kind."""
    table = _table("KIND", "FOUND", done.upper(), "SKIPPED")
    for name, numbers in rows.items():
        table.add_row(name, *map(str, numbers))
    _console().print(table)


def age(moment: datetime) -> str:
    return _duration(utc_now() - moment)


def _duration(time: timedelta) -> str:
    seconds = max(time.total_seconds(), 0)
    for unit, length, until in (
        ("s", 1, 120),
        ("min", 60, 7200),
        ("h", 3600, 172800),
    ):
        if seconds < until:
            return f"{seconds / length:.{1 if seconds < 10 else 0}f} {unit}"
    return f"{seconds / 86400:.0f} d"


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 2000 else text[:2000] + " … (all of it: --json)"


def _coloured(status: JobStatus) -> Text:
    return Text(status.value, COLOURS[status])


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def _table(*names: str) -> Table:
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
