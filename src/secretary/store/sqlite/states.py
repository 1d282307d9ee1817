"""One job goes from one state to another; whether it may is for the caller to know."""

import json
from datetime import datetime
from typing import Any

import apsw

from ...job import MAX_ATTEMPTS_KEPT, Attempt, JobError, JobStatus, Webhook, utc_now
from ..json_text import dumps
from . import activity, outbox
from .changes import NEXT_REVISION
from .line import Line
from .rows import JOBS, microseconds, moment


def fail(db: apsw.Connection, seq: int, error: JobError, *, crashed: bool) -> None:
    now = microseconds(utc_now())
    db.execute(
        "UPDATE jobs SET status = 'failed', error_code = ?, failures = failures + ?,"
        f" crashes = crashes + ?, updated_at = ?, completed_at = ?, revision = {NEXT_REVISION}"
        " WHERE seq = ?",
        (error.code, not crashed, crashed, now, now, seq),
    )
    db.execute("UPDATE contents SET error = ? WHERE seq = ?", (error.model_dump_json(), seq))
    activity.note_one(db, seq, JobStatus.FAILED, error.code, now)


def cancel_job(db: apsw.Connection, seq: int, reason: str) -> None:
    now = microseconds(utc_now())
    db.execute(
        "UPDATE jobs SET status = 'cancelled', turn = NULL, run_at = NULL, held = 0,"
        " cancel_requested = 1, error_code = 'CANCELLED', updated_at = ?, completed_at = ?,"
        f" revision = {NEXT_REVISION} WHERE seq = ?",
        (now, now, seq),
    )
    error = JobError(code="CANCELLED", message=reason)
    db.execute("UPDATE contents SET error = ? WHERE seq = ?", (error.model_dump_json(), seq))
    activity.note_one(db, seq, JobStatus.CANCELLED, error.code, now)


def back_to_line(
    db: apsw.Connection,
    seq: int,
    *,
    error: JobError | None = None,
    run_at: datetime | None = None,
    counted: str | None = None,
    broke_off: bool = False,
) -> None:
    """Make a running or ended job pending again; the attempt that ends here becomes history. If
    that broke off by no fault of its own, the job has waited enough: it is the next."""
    _keep_attempt(db, seq, error)
    now = utc_now()
    row: Any = db.execute(
        "SELECT job_type, priority, jobs.user_id, coalesce(NOT is_active, 0) FROM jobs"
        " LEFT JOIN batches USING (batch_id) WHERE jobs.seq = ?",
        (seq,),
    ).fetchone()
    job_type, priority, user_id, held = row
    waits = held or (run_at is not None and run_at > now)
    turn = None
    if not waits:
        line = Line(db)
        turn = (
            line.first_turn(job_type, priority)
            if broke_off
            else line.next_turn(job_type, priority, user_id)
        )
    counting = f", {counted} = {counted} + 1" if counted else ""
    db.execute(
        "UPDATE jobs SET status = 'pending', turn = ?, held = ?, run_at = ?, worker_id = NULL,"
        " processing_started_at = NULL, completed_at = NULL, error_code = ?, updated_at = ?,"
        f" revision = {NEXT_REVISION}{counting} WHERE seq = ?",
        (
            turn,
            held,
            microseconds(run_at) if run_at else None,
            error.code if error else None,
            microseconds(now),
            seq,
        ),
    )
    text = error.model_dump_json() if error else None
    db.execute("UPDATE contents SET error = ? WHERE seq = ?", (text, seq))


def _keep_attempt(db: apsw.Connection, seq: int, error: JobError | None) -> None:
    row = db.execute(
        "SELECT attempt, worker_id, processing_started_at, completed_at, attempts, error"
        f" FROM {JOBS} WHERE jobs.seq = ?",
        (seq,),
    ).fetchone()
    if row is None or row[1] is None:  # it never ran
        return
    attempt, worker_id, started_at, completed_at, attempts, ended_with = row
    if error is None and completed_at is not None and ended_with:
        error = JobError.from_stored_json(ended_with)
    past = Attempt(
        attempt=attempt,
        worker_id=worker_id,
        started_at=moment(started_at),
        ended_at=moment(completed_at) if completed_at else utc_now(),
        error=error,
    )
    kept = [past.model_dump(mode="json")]
    if attempts:
        kept = [*json.loads(attempts), *kept][-MAX_ATTEMPTS_KEPT:]
    db.execute("UPDATE contents SET attempts = ? WHERE seq = ?", (dumps(kept), seq))


def ended(db: apsw.Connection, seq: int, batch_id: str | None) -> None:
    """The duties that come with an end other than success: the job's webhook, and its batch."""
    row: Any = db.execute(
        "SELECT job_id, webhook, completed_at FROM jobs JOIN contents USING (seq)"
        " WHERE seq = ? AND webhook IS NOT NULL",
        (seq,),
    ).fetchone()
    if row is not None:
        job_id, webhook, ended_at = row
        outbox.note_end(db, job_id, Webhook.from_stored_json(webhook), "error", ended_at)
    if batch_id is not None:
        settle_batch(db, batch_id)


def settle_batch(db: apsw.Connection, batch_id: str) -> None:
    """Note the end of a batch once, in the transaction that ended the last of its jobs."""
    row: Any = db.execute(
        "UPDATE batches SET completed_at = updated_at WHERE batch_id = ? AND completed_at IS NULL"
        " AND pending = 0 AND processing = 0"
        " RETURNING webhook, completed OR NOT (failed OR cancelled), updated_at",
        (batch_id,),
    ).fetchone()
    if row is None or row[0] is None:
        return
    webhook = Webhook.from_stored_json(row[0])
    outbox.note_end(db, batch_id, webhook, "completed" if row[1] else "error", row[2])
