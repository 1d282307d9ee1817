"""What has had its time: ended jobs, keys, traces, and the space they leave in the file."""

from collections.abc import Mapping
from datetime import datetime

import apsw

from ...job import JobStatus, utc_now
from .activity import Sweep
from .changes import drop_old_traces
from .rows import microseconds


def find_expired(
    db: apsw.Connection, older_than: Mapping[JobStatus, datetime], limit: int
) -> list[str]:
    found: list[str] = []
    for status, before in older_than.items():
        rows = db.execute(
            "SELECT job_id FROM jobs INDEXED BY jobs_ended WHERE status = ?"
            " AND completed_at IS NOT NULL AND completed_at < ?"
            " ORDER BY completed_at LIMIT ?",
            (status.value, microseconds(before), limit - len(found)),
        )
        found += [job_id for (job_id,) in rows]
    return found


def tidy(db: apsw.Connection, sweep: Sweep) -> None:
    now = microseconds(utc_now())
    db.execute("DELETE FROM idempotency_keys WHERE expires_at < ?", (now,))
    drop_old_traces(db)
    sweep(db)
    db.execute("PRAGMA incremental_vacuum(1000)").fetchall()


def checkpoint(db: apsw.Connection) -> None:
    """Not in a transaction."""
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
