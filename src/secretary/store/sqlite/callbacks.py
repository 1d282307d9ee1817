"""Repeated submissions: at most one job at a time reports to a client's callback.

`callbacks` has a row for each callback, with the last job submitted for it; see later.sql.
"""

from typing import Any

import apsw

from ...core.job import Job, Webhook, utc_now
from ..jobs import CallbackKey
from . import outbox, schema


def find_repeated(db: apsw.Connection, job: Job, callback: CallbackKey) -> str | None:
    """Return the unfinished job of the same request, after giving it the new token."""
    row: Any = db.execute(
        "SELECT jobs.job_id, jobs.seq, webhook FROM callbacks JOIN jobs USING (job_id)"
        " JOIN contents ON contents.seq = jobs.seq WHERE key = ? AND fingerprint = ?"
        " AND expires_at > ? AND status IN ('pending', 'processing') AND cancel_requested = 0",
        (callback.key, callback.fingerprint, schema.microseconds(utc_now())),
    ).fetchone()
    if row is None or row[2] is None:
        return None
    job_id, seq, stored = row
    webhook = Webhook.from_stored_json(stored)
    assert job.webhook is not None
    if webhook.token == job.webhook.token:
        return None
    _write_webhook(db, seq, webhook.model_copy(update={"token": job.webhook.token}))
    return str(job_id)


def take_over(db: apsw.Connection, job: Job, callback: CallbackKey) -> tuple[Job, str | None]:
    """Return the job with the id that its events report, and the job that it replaces, whose
    events are withdrawn."""
    assert job.webhook is not None
    now = schema.microseconds(utc_now())
    before: Any = db.execute(
        "SELECT job_id, process_id FROM callbacks WHERE key = ? AND expires_at > ?",
        (callback.key, now),
    ).fetchone()
    process_id, replaced = job.job_id, None
    if before is not None:
        replaced, process_id = before
        stored: Any = db.execute(
            f"SELECT jobs.seq, webhook FROM {schema.JOBS} WHERE job_id = ?", (replaced,)
        ).fetchone()
        webhook = Webhook.from_stored_json(stored[1]) if stored and stored[1] else None
        if webhook is not None and webhook.token == job.webhook.token:
            return job, None
        if webhook is not None:
            _write_webhook(db, stored[0], webhook.silenced())
            outbox.withdraw(db, replaced)
        job = job.model_copy(update={"process_id": process_id})
    db.execute(
        "INSERT OR REPLACE INTO callbacks VALUES (?, ?, ?, ?, ?)",
        (
            callback.key,
            job.job_id,
            process_id,
            callback.fingerprint,
            schema.microseconds(callback.expires_at),
        ),
    )
    return job, replaced


def _write_webhook(db: apsw.Connection, seq: int, webhook: Webhook) -> None:
    text = webhook.model_dump_json(by_alias=True)
    db.execute("UPDATE contents SET webhook = ? WHERE seq = ?", (text, seq))


def reporting_job(db: apsw.Connection, process_id: str) -> str | None:
    job_id: str | None = db.execute(
        "SELECT job_id FROM callbacks WHERE process_id = ?", (process_id,)
    ).get
    return job_id


def drop_expired(db: apsw.Connection) -> None:
    now = schema.microseconds(utc_now())
    db.execute("DELETE FROM callbacks WHERE expires_at < ?", (now,))
