"""What clients do with jobs and batches: add, cancel, restart, archive, delete."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import apsw

from ...core.errors import Conflict, KeyReused
from ...core.job import (
    MAX_ATTEMPTS_KEPT,
    Attempt,
    Batch,
    Cancelled,
    Job,
    JobError,
    JobStatus,
    Webhook,
    utc_now,
)
from ...core.json_codec import encode_json_text
from ..claims import JobClass
from ..jobs import Added, IdempotencyKey, JobQuery
from . import outbox, queries
from .queries import ExpiredStats, Term, find_seqs, get_batch
from .schema import (
    JOBS,
    NEXT_REVISION,
    insert_batch,
    insert_job,
    microseconds,
    moment,
    record_change,
)

#: Scheduled jobs that are due enter their queue in batches of this size.
MAX_PROMOTED = 1000


class QueuePositions:
    """Assigns queue positions within one transaction.

    A new job goes behind the last one of the same user, or to the head of the queue if the user
    has none: this serves users in turn (start-time fair queueing, with the head of the queue as
    its clock).
    """

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._last: dict[tuple[str, int, str | None], int] = {}

    def next_position(self, job_type: str, priority: int, user_id: str | None) -> int:
        user_queue = (job_type, priority, user_id)
        last = self._last.get(user_queue)
        if last is None:
            last = self._last_of(*user_queue)
        position = self.head_position(job_type, priority) if last is None else last + 1
        self._last[user_queue] = position
        return position

    def _last_of(self, job_type: str, priority: int, user_id: str | None) -> int | None:
        last: int | None = self._db.execute(
            "SELECT max(turn) FROM jobs INDEXED BY jobs_of_user_ready"
            " WHERE job_type = ? AND priority = ? AND user_id IS ? AND turn IS NOT NULL",
            (job_type, priority, user_id),
        ).get
        return last

    def head_position(self, job_type: str, priority: int) -> int:
        """The position of the head; jobs with the same position are ordered by arrival."""
        head: int | None = self._db.execute(
            "SELECT min(turn) FROM jobs INDEXED BY jobs_ready"
            " WHERE job_type = ? AND priority = ? AND turn IS NOT NULL",
            (job_type, priority),
        ).get
        return 0 if head is None else head


def enqueue(db: apsw.Connection, jobs: Sequence[Job], *, paused: bool) -> None:
    """Store new jobs."""
    positions = QueuePositions(db)
    now = utc_now()
    for job in jobs:
        delayed = paused or (job.run_at is not None and job.run_at > now)
        position = (
            None if delayed else positions.next_position(job.job_type, job.priority, job.user_id)
        )
        insert_job(db, job, position=position, paused=paused)
        if job.webhook is not None:
            outbox.register(db, "job", job.job_id, job.webhook)


def promote(db: apsw.Connection, now: int) -> None:
    """Move scheduled jobs that are due into their queues."""
    due: list[Any] = db.execute(
        "SELECT seq, job_type, priority, user_id FROM jobs INDEXED BY jobs_waiting"
        " WHERE status = 'pending' AND turn IS NULL AND held = 0"
        " AND run_at <= ? ORDER BY run_at LIMIT ?",
        (now, MAX_PROMOTED),
    ).fetchall()
    positions = QueuePositions(db)
    for seq, job_type, priority, user_id in due:
        position = positions.next_position(job_type, priority, user_id)
        db.execute("UPDATE jobs SET turn = ? WHERE seq = ?", (position, seq))


def queues_with_jobs(db: apsw.Connection) -> Iterator[JobClass]:
    """Yield the type and priority of each queue, with one or two index lookups per queue."""
    ends: Any = db.execute(FIRST_AND_LAST).fetchone()
    if ends is None:
        return
    queue, last = ends[:2], ends[2:]
    while queue != last:
        yield queue
        queue = db.execute(NEXT_PRIORITY, queue).fetchone() or (
            db.execute(NEXT_TYPE, (queue[0],)).fetchone()
        )
    yield last


_QUEUES = "SELECT job_type, priority FROM jobs INDEXED BY jobs_ready WHERE turn IS NOT NULL"
FIRST_AND_LAST = (
    f"SELECT * FROM ({_QUEUES} AND job_type > '' ORDER BY job_type, priority LIMIT 1),"
    f" ({_QUEUES} AND job_type > '' ORDER BY job_type DESC, priority DESC LIMIT 1)"
)
# Not a row-value comparison: SQLite would only seek by the first column and scan the rest.
NEXT_TYPE = f"{_QUEUES} AND job_type > ? ORDER BY job_type, priority LIMIT 1"
NEXT_PRIORITY = f"{_QUEUES} AND job_type = ? AND priority > ? ORDER BY priority LIMIT 1"


def waiting_since(db: apsw.Connection) -> dict[str, datetime]:
    """Since when the heads of the queues have been ready, by type."""
    since: dict[str, datetime] = {}
    for queue in queues_with_jobs(db):
        head = db.execute(HEAD_WAITS_SINCE, queue).get
        if head is not None:
            since[queue[0]] = min(moment(head), since.get(queue[0], moment(head)))
    return since


#: A pending job was last updated when it became pending, but may have been scheduled for later.
HEAD_WAITS_SINCE = (
    "SELECT max(updated_at, coalesce(run_at, 0)) FROM jobs INDEXED BY jobs_ready"
    " WHERE job_type = ? AND priority = ? AND turn IS NOT NULL ORDER BY turn, seq LIMIT 1"
)


def fail(db: apsw.Connection, seq: int, error: JobError, *, crashed: bool) -> None:
    now = microseconds(utc_now())
    db.execute(
        "UPDATE jobs SET status = 'failed', error_code = ?, failures = failures + ?,"
        f" crashes = crashes + ?, updated_at = ?, completed_at = ?, revision = {NEXT_REVISION}"
        " WHERE seq = ?",
        (error.code, not crashed, crashed, now, now, seq),
    )
    db.execute("UPDATE contents SET error = ? WHERE seq = ?", (error.model_dump_json(), seq))
    queries.count_one(db, seq, JobStatus.FAILED, error.code, now)


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
    queries.count_one(db, seq, JobStatus.CANCELLED, error.code, now)


def requeue(
    db: apsw.Connection,
    seq: int,
    *,
    error: JobError | None = None,
    run_at: datetime | None = None,
    counter: str | None = None,
    interrupted: bool = False,
) -> None:
    """Make a running or finished job pending again and archive its attempt.

    An interrupted job goes to the head of its queue: it has waited before.
    """
    _record_attempt(db, seq, error)
    now = utc_now()
    row: Any = db.execute(
        "SELECT job_type, priority, jobs.user_id, coalesce(NOT is_active, 0) FROM jobs"
        " LEFT JOIN batches USING (batch_id) WHERE jobs.seq = ?",
        (seq,),
    ).fetchone()
    job_type, priority, user_id, paused = row
    delayed = paused or (run_at is not None and run_at > now)
    position = None
    if not delayed:
        positions = QueuePositions(db)
        position = (
            positions.head_position(job_type, priority)
            if interrupted
            else positions.next_position(job_type, priority, user_id)
        )
    counting = f", {counter} = {counter} + 1" if counter else ""
    db.execute(
        "UPDATE jobs SET status = 'pending', turn = ?, held = ?, run_at = ?, worker_id = NULL,"
        " processing_started_at = NULL, completed_at = NULL, error_code = ?, updated_at = ?,"
        f" revision = {NEXT_REVISION}{counting} WHERE seq = ?",
        (
            position,
            paused,
            microseconds(run_at) if run_at else None,
            error.code if error else None,
            microseconds(now),
            seq,
        ),
    )
    text = error.model_dump_json() if error else None
    db.execute("UPDATE contents SET error = ? WHERE seq = ?", (text, seq))


def _record_attempt(db: apsw.Connection, seq: int, error: JobError | None) -> None:
    row = db.execute(
        "SELECT attempt, worker_id, processing_started_at, completed_at, attempts, error"
        f" FROM {JOBS} WHERE jobs.seq = ?",
        (seq,),
    ).fetchone()
    if row is None or row[1] is None:  # never started
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
    history = [*(json.loads(attempts) if attempts else []), past.model_dump(mode="json")]
    text = encode_json_text(history[-MAX_ATTEMPTS_KEPT:])
    db.execute("UPDATE contents SET attempts = ? WHERE seq = ?", (text, seq))


def note_finished(db: apsw.Connection, seq: int, batch_id: str | None) -> None:
    """Queue the webhook event of a failed or cancelled job and update its batch."""
    row: Any = db.execute(
        "SELECT job_id, webhook, completed_at FROM jobs JOIN contents USING (seq)"
        " WHERE seq = ? AND webhook IS NOT NULL",
        (seq,),
    ).fetchone()
    if row is not None:
        job_id, webhook, ended_at = row
        outbox.add_final_event(db, job_id, Webhook.from_stored_json(webhook), "error", ended_at)
    if batch_id is not None:
        settle_batch(db, batch_id)


def settle_batch(db: apsw.Connection, batch_id: str) -> None:
    """Complete a batch once, in the transaction that finished the last of its jobs."""
    row: Any = db.execute(
        "UPDATE batches SET completed_at = updated_at WHERE batch_id = ? AND completed_at IS NULL"
        " AND pending = 0 AND processing = 0"
        " RETURNING webhook, completed OR NOT (failed OR cancelled), updated_at",
        (batch_id,),
    ).fetchone()
    if row is None or row[0] is None:
        return
    webhook = Webhook.from_stored_json(row[0])
    outbox.add_final_event(db, batch_id, webhook, "completed" if row[1] else "error", row[2])


def find_expired(
    db: apsw.Connection, older_than: Mapping[JobStatus, datetime], limit: int
) -> list[str]:
    job_ids: list[str] = []
    for status, before in older_than.items():
        rows = db.execute(
            "SELECT job_id FROM jobs INDEXED BY jobs_ended WHERE status = ?"
            " AND completed_at IS NOT NULL AND completed_at < ?"
            " ORDER BY completed_at LIMIT ?",
            (status.value, microseconds(before), limit - len(job_ids)),
        )
        job_ids += [job_id for (job_id,) in rows]
    return job_ids


#: Readers that fall further behind than this miss deletions and batch changes.
MAX_RECORDED_CHANGES = 10_000


def prune_recorded_changes(db: apsw.Connection) -> None:
    """Keep the newest one in any case: it may have the highest revision."""
    db.execute(
        "DELETE FROM traces WHERE revision <="
        " (SELECT revision FROM traces ORDER BY revision DESC LIMIT 1 OFFSET ?)",
        (MAX_RECORDED_CHANGES,),
    )


def tidy(db: apsw.Connection, expired_stats: ExpiredStats) -> None:
    now = microseconds(utc_now())
    db.execute("DELETE FROM idempotency_keys WHERE expires_at < ?", (now,))
    prune_recorded_changes(db)
    expired_stats.drop(db)
    db.execute("PRAGMA incremental_vacuum(1000)").fetchall()


def checkpoint(db: apsw.Connection) -> None:
    """Run this outside of a transaction."""
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


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
