"""What a worker tells of a job it holds: how far it is, and its log."""

from collections.abc import Sequence

import apsw

from ...errors import LeaseLost
from ...job import MAX_LOG_ENTRIES, MAX_LOG_MESSAGE, Job, LogEntry, Progress, utc_now
from . import outbox
from .changes import NEXT_REVISION
from .rows import microseconds

HELD_BY = " WHERE job_id = ? AND attempt = ? AND worker_id = ? AND status = 'processing'"


def fence(job: Job) -> tuple[str, int, str | None]:
    return job.job_id, job.attempt, job.worker_id


def report(
    db: apsw.Connection, job: Job, progress: Progress | None, logs: Sequence[LogEntry]
) -> None:
    now = microseconds(utc_now())
    if progress is not None:
        seq = db.execute(
            "UPDATE jobs SET step = ?, percent = max(percent, ?), message = ?, updated_at = ?,"
            f" revision = {NEXT_REVISION}" + HELD_BY + " RETURNING seq",
            (progress.step, progress.percent, progress.message, now, *fence(job)),
        ).get
    else:
        seq = db.execute("SELECT seq FROM jobs" + HELD_BY, fence(job)).get
    if seq is None:
        raise LeaseLost(job.job_id)
    if progress is not None and job.webhook is not None:
        outbox.note_progress(db, job)
    add_logs(db, seq, logs)


def add_logs(db: apsw.Connection, seq: int, logs: Sequence[LogEntry]) -> None:
    if not logs:
        return
    last = db.execute("SELECT max(n) FROM logs WHERE seq = ?", (seq,)).get or 0
    for n, entry in enumerate(logs, last + 1):
        message = entry.message[:MAX_LOG_MESSAGE]
        row = (seq, n, microseconds(entry.timestamp), entry.level, message)
        db.execute("INSERT INTO logs VALUES (?, ?, ?, ?, ?)", row)
    oldest = last + len(logs) - MAX_LOG_ENTRIES
    if oldest > 0:
        db.execute("DELETE FROM logs WHERE seq = ? AND n <= ?", (seq, oldest))
