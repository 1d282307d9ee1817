"""What clients wish of jobs and batches that are stored."""

from collections.abc import Callable
from typing import Any

import apsw

from ...errors import Conflict
from ...job import Batch, Cancelled, Webhook, utc_now
from .. import JobQuery
from . import outbox
from .changes import NEXT_REVISION, leave_trace
from .reading import Term, find_seqs, get_batch
from .rows import microseconds
from .states import back_to_line, cancel_job, ended

CANCELLABLE: Term = ("status IN ('pending', 'processing') AND cancel_requested = 0", ())
ENDED: Term = ("status IN ('completed', 'failed', 'cancelled')", ())


def cancel(db: apsw.Connection, query: JobQuery) -> list[str]:
    return _change_found(db, query, _cancel_one, only=CANCELLABLE)


def _cancel_one(db: apsw.Connection, seq: int) -> None:
    row = db.execute("SELECT status, batch_id FROM jobs WHERE seq = ?", (seq,)).fetchone()
    assert row is not None
    if row[0] == "pending":
        cancel_job(db, seq, Cancelled().reason)
        ended(db, seq, row[1])
    else:
        db.execute(
            f"UPDATE jobs SET cancel_requested = 1, revision = {NEXT_REVISION} WHERE seq = ?",
            (seq,),
        )


def restart(db: apsw.Connection, query: JobQuery) -> list[str]:
    return _change_found(db, query, _restart_one, only=ENDED)


def _restart_one(db: apsw.Connection, seq: int) -> None:
    back_to_line(db, seq)
    db.execute(
        "UPDATE jobs SET failures = 0, crashes = 0, cancel_requested = 0, archived = 0,"
        " step = 'queued', percent = 0, message = '' WHERE seq = ?",
        (seq,),
    )
    db.execute("UPDATE contents SET results = NULL, resources = NULL WHERE seq = ?", (seq,))
    _reopen(db, seq)


def _reopen(db: apsw.Connection, seq: int) -> None:
    """The end of a restarted job, and of its batch, is not to be told any more."""
    row: Any = db.execute(
        "SELECT job_id, batch_id, webhook FROM jobs JOIN contents USING (seq) WHERE seq = ?", (seq,)
    ).fetchone()
    job_id, batch_id, webhook = row
    if webhook is not None:
        outbox.begin_again(db, job_id, Webhook.from_stored_json(webhook))
    if batch_id is not None:
        db.execute("UPDATE batches SET completed_at = NULL WHERE batch_id = ?", (batch_id,))
        outbox.withdraw(db, batch_id)


def archive(db: apsw.Connection, query: JobQuery, *, archived: bool) -> list[str]:
    def archive_one(db: apsw.Connection, seq: int) -> None:
        db.execute(
            f"UPDATE jobs SET archived = ?, revision = {NEXT_REVISION} WHERE seq = ?",
            (archived, seq),
        )

    return _change_found(db, query, archive_one, only=("archived = ?", (not archived,)))


def delete(db: apsw.Connection, query: JobQuery) -> list[str]:
    return _change_found(db, query, _delete_one, only=ENDED)


def _delete_one(db: apsw.Connection, seq: int) -> None:
    row: Any = db.execute(
        "DELETE FROM jobs WHERE seq = ? RETURNING job_id, batch_id, revision", (seq,)
    ).fetchone()
    outbox.forget(db, row[0])
    leave_trace(db, job_id=row[0], batch_id=row[1], above=row[2])


def _change_found(
    db: apsw.Connection,
    query: JobQuery,
    change_one: Callable[[apsw.Connection, int], None],
    *,
    only: Term,
) -> list[str]:
    """Change each job that a query finds and that also fulfils `only`; say which."""
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
        # Set free, they join the line with the next claim, as jobs whose time has come.
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
    leave_trace(db, job_id=None, batch_id=batch_id)
    return get_batch(db, batch_id)


def delete_batch(db: apsw.Connection, batch_id: str) -> None:
    if get_batch(db, batch_id).total_jobs:
        raise Conflict(f"The batch {batch_id} still has jobs")
    outbox.forget(db, batch_id)
    db.execute("DELETE FROM batches WHERE batch_id = ?", (batch_id,))
    leave_trace(db, job_id=None, batch_id=batch_id)
