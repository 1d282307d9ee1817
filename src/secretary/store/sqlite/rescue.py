"""Takes jobs away from workers that died or lost touch."""

import time
from collections.abc import Sequence
from typing import Any

import apsw

from ...job import Cancelled
from .. import Rescued
from ..notes import crash_error, obituary
from .report import add_logs
from .states import back_to_line, cancel_job, ended, fail


def anything_lost(db: apsw.Connection, boot: str) -> bool:
    lapsed = db.execute(
        "SELECT 1 FROM workers WHERE boot <> ? OR lease_until < ? LIMIT 1",
        (boot, time.monotonic()),
    ).get
    return bool(lapsed or db.execute(ABANDONED).fetchone())


def rescue(db: apsw.Connection, boot: str, dead: Sequence[str], max_crashes: int) -> list[Rescued]:
    lapsed = (boot, time.monotonic())
    db.execute("DELETE FROM workers WHERE boot <> ? OR lease_until < ?", lapsed)
    for worker_id in dead:
        db.execute("DELETE FROM workers WHERE worker_id = ?", (worker_id,))
    abandoned: list[Any] = db.execute(ABANDONED).fetchall()
    return [_rescue_one(db, *row, max_crashes=max_crashes) for row in abandoned]


#: Claims without a worker behind them.
ABANDONED = (
    "SELECT seq, job_id, attempt, worker_id, batch_id, crashes, cancel_requested"
    " FROM jobs INDEXED BY jobs_running WHERE status = 'processing'"
    " AND worker_id NOT IN (SELECT worker_id FROM workers)"
)


def _rescue_one(
    db: apsw.Connection,
    seq: int,
    job_id: str,
    attempt: int,
    worker_id: str,
    batch_id: str | None,
    crashes: int,
    cancel_requested: int,
    *,
    max_crashes: int,
) -> Rescued:
    deaths = crashes + 1
    error = crash_error(worker_id, deaths)
    over = deaths >= max_crashes
    if cancel_requested:
        cancel_job(db, seq, Cancelled().reason)
    elif over:
        fail(db, seq, error, crashed=True)
    else:
        back_to_line(db, seq, error=error, counted="crashes", broke_off=True)
    if cancel_requested or over:
        ended(db, seq, batch_id)
    add_logs(db, seq, [obituary(worker_id, attempt)])
    is_cancelled = bool(cancel_requested)
    return Rescued(job_id, attempt, worker_id, over and not is_cancelled, is_cancelled)
