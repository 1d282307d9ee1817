"""What clients do with jobs and batches: add, cancel, restart, archive, delete."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import apsw

from ...core.errors import Conflict, KeyReused
from ...core.job import Batch, Cancelled, Job, Webhook, utc_now
from ..jobs import Added, IdempotencyKey, JobQuery
from . import outbox
from .change_feed import NEXT_REVISION, record_change
from .queries import Term, find_seqs, get_batch
from .queue import cancel_job, enqueue, note_finished, requeue, settle_batch
from .schema import insert_batch, microseconds


def add(
    db: apsw.Connection,
    *,
    jobs: Sequence[Job],
    batch: Batch | None,
    idempotency: IdempotencyKey | None,
) -> Added:
    if idempotency is not None and (added := _known_key(db, idempotency)) is not None:
        return added
    try:
        if batch is not None:
            insert_batch(db, batch)
            if batch.webhook is not None:
                outbox.register(db, "batch", batch.batch_id, batch.webhook)
        enqueue(db, jobs, paused=batch is not None and not batch.is_active)
    except apsw.ConstraintError as error:
        raise Conflict("A job or batch with this id is already stored") from error
    if batch is not None and not jobs:
        settle_batch(db, batch.batch_id)
    added = Added([job.job_id for job in jobs], batch.batch_id if batch else None)
    if idempotency is not None:
        _store_key(db, idempotency, added)
    return added


def _known_key(db: apsw.Connection, key: IdempotencyKey) -> Added | None:
    row = db.execute(
        "SELECT fingerprint, job_ids, batch_id FROM idempotency_keys"
        " WHERE scope = ? AND key = ? AND expires_at > ?",
        (key.scope, key.key, microseconds(utc_now())),
    ).fetchone()
    if row is None:
        return None
    if row[0] != key.fingerprint:
        raise KeyReused("This idempotency key was used for another request")
    return Added(json.loads(row[1]), row[2], replayed=True)


def _store_key(db: apsw.Connection, key: IdempotencyKey, added: Added) -> None:
    db.execute(
        "INSERT OR REPLACE INTO idempotency_keys VALUES (?, ?, ?, ?, ?, ?)",
        (
            key.scope,
            key.key,
            key.fingerprint,
            json.dumps(added.job_ids),
            added.batch_id,
            microseconds(key.expires_at),
        ),
    )


CANCELLABLE: Term = ("status IN ('pending', 'processing') AND cancel_requested = 0", ())
FINISHED: Term = ("status IN ('completed', 'failed', 'cancelled')", ())


def cancel(db: apsw.Connection, query: JobQuery) -> list[str]:
    return _change_matching(db, query, _cancel_one, only=CANCELLABLE)


def _cancel_one(db: apsw.Connection, seq: int) -> None:
    row = db.execute("SELECT status, batch_id FROM jobs WHERE seq = ?", (seq,)).fetchone()
    assert row is not None
    if row[0] == "pending":
        cancel_job(db, seq, Cancelled().reason)
        note_finished(db, seq, row[1])
    else:
        db.execute(
            f"UPDATE jobs SET cancel_requested = 1, revision = {NEXT_REVISION} WHERE seq = ?",
            (seq,),
        )


def restart(db: apsw.Connection, query: JobQuery) -> list[str]:
    return _change_matching(db, query, _restart_one, only=FINISHED)


def _restart_one(db: apsw.Connection, seq: int) -> None:
    requeue(db, seq)
    db.execute(
        "UPDATE jobs SET failures = 0, crashes = 0, cancel_requested = 0, archived = 0,"
        " step = 'queued', percent = 0, message = '' WHERE seq = ?",
        (seq,),
    )
    db.execute("UPDATE contents SET results = NULL, resources = NULL WHERE seq = ?", (seq,))
    _reopen(db, seq)


def _reopen(db: apsw.Connection, seq: int) -> None:
    """Withdraw undelivered final events of a restarted job and its batch."""
    row: Any = db.execute(
        "SELECT job_id, batch_id, webhook FROM jobs JOIN contents USING (seq) WHERE seq = ?", (seq,)
    ).fetchone()
    job_id, batch_id, webhook = row
    if webhook is not None:
        outbox.restart(db, job_id, Webhook.from_stored_json(webhook))
    if batch_id is not None:
        db.execute("UPDATE batches SET completed_at = NULL WHERE batch_id = ?", (batch_id,))
        outbox.withdraw(db, batch_id)


def archive(db: apsw.Connection, query: JobQuery, *, archived: bool) -> list[str]:
    def archive_one(db: apsw.Connection, seq: int) -> None:
        db.execute(
            f"UPDATE jobs SET archived = ?, revision = {NEXT_REVISION} WHERE seq = ?",
            (archived, seq),
        )

    return _change_matching(db, query, archive_one, only=("archived = ?", (not archived,)))


def delete(db: apsw.Connection, query: JobQuery) -> list[str]:
    return _change_matching(db, query, _delete_one, only=FINISHED)


def _delete_one(db: apsw.Connection, seq: int) -> None:
    row: Any = db.execute(
        "DELETE FROM jobs WHERE seq = ? RETURNING job_id, batch_id, revision", (seq,)
    ).fetchone()
    outbox.delete(db, row[0])
    record_change(db, job_id=row[0], batch_id=row[1], above=row[2])


def _change_matching(
    db: apsw.Connection,
    query: JobQuery,
    change_one: Callable[[apsw.Connection, int], None],
    *,
    only: Term,
) -> list[str]:
    """Change each job that matches the query and `only`; return their ids."""
    seqs = [seq for seq, _ in find_seqs(db, query, only=[only])]
    ids = [db.execute("SELECT job_id FROM jobs WHERE seq = ?", (s,)).get for s in seqs]
    for seq in seqs:
        change_one(db, seq)
    return ids


def change_batch(
    db: apsw.Connection, batch_id: str, *, is_active: bool | None, archived: bool | None
) -> Batch:
    batch = get_batch(db, batch_id)
    now = microseconds(utc_now())
    if is_active is not None and is_active != batch.is_active:
        db.execute("UPDATE batches SET is_active = ? WHERE batch_id = ?", (is_active, batch_id))
        # Resumed jobs enter the queue with the next claim, like scheduled jobs that are due.
        db.execute(
            "UPDATE jobs SET held = ?, turn = NULL, run_at = coalesce(run_at, ?),"
            f" revision = {NEXT_REVISION} WHERE batch_id = ? AND status = 'pending'",
            (not is_active, now, batch_id),
        )
    if archived is not None and archived != batch.archived:
        db.execute("UPDATE batches SET archived = ? WHERE batch_id = ?", (archived, batch_id))
        db.execute(
            f"UPDATE jobs SET archived = ?, revision = {NEXT_REVISION} WHERE batch_id = ?",
            (archived, batch_id),
        )
    db.execute("UPDATE batches SET updated_at = ? WHERE batch_id = ?", (now, batch_id))
    record_change(db, job_id=None, batch_id=batch_id)
    return get_batch(db, batch_id)


def delete_batch(db: apsw.Connection, batch_id: str) -> None:
    if get_batch(db, batch_id).total_jobs:
        raise Conflict(f"The batch {batch_id} still has jobs")
    outbox.delete(db, batch_id)
    db.execute("DELETE FROM batches WHERE batch_id = ?", (batch_id,))
    record_change(db, job_id=None, batch_id=batch_id)
