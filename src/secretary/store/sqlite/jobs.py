"""What clients do with jobs and batches, the queues of pending jobs, and the changes of state that
move jobs into and out of them."""

import json
from collections.abc import Iterator, Sequence
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
from ..jobs import Added, CallbackKey, IdempotencyKey, JobQuery
from ..stats import FinishedJob, JobCharge, count_finished, wait_of
from . import outbox, schema
from .queries import (
    Term,
    charge,
    drop_expired_counters,
    drop_old_usage,
    find_seqs,
    get_batch,
    write_counters,
)

#: Scheduled jobs that are due enter their queue in batches of this size.
MAX_PROMOTED = 1000
#: Readers that fall further behind than this miss deletions and batch changes.
MAX_RECORDED_CHANGES = 10_000

CANCELLABLE: Term = ("status IN ('pending', 'processing') AND cancel_requested = 0", ())
FINISHED: Term = ("status IN ('completed', 'failed', 'cancelled')", ())


def add(
    db: apsw.Connection,
    jobs: Sequence[Job],
    *,
    batch: Batch | None = None,
    idempotency: IdempotencyKey | None = None,
    callback: CallbackKey | None = None,
    charges: Sequence[JobCharge] = (),
) -> Added:
    if len(jobs) != 1 and batch is None:
        raise ValueError("Several jobs need a batch")
    if idempotency is not None and (known := _known_key(db, idempotency)) is not None:
        return known
    if callback is not None and idempotency is None:
        (job,) = jobs
        if (repeated := outbox.find_repeated(db, job, callback)) is not None:
            return Added([repeated], replayed=True)
    charge(db, charges)
    if callback is not None and idempotency is None:
        (job,) = jobs
        job, replaced = outbox.take_over(db, job, callback)
        if replaced is not None:
            cancel(db, JobQuery(job_id=replaced))
        jobs = [job]
    try:
        if batch is not None:
            schema.insert_batch(db, batch)
            if batch.webhook is not None:
                outbox.register(db, batch, batch.webhook)
        enqueue(db, jobs, paused=batch is not None and not batch.is_active)
    except apsw.ConstraintError as error:
        raise Conflict("A job or batch with this id is already stored") from error
    if batch is not None and not jobs:
        settle_batch(db, batch.batch_id)
    added = Added([job.job_id for job in jobs], batch.batch_id if batch else None)
    if (key := idempotency) is not None:
        expires_at = schema.microseconds(key.expires_at)
        ids = json.dumps(added.job_ids)
        db.execute(
            "INSERT OR REPLACE INTO idempotency_keys VALUES (?, ?, ?, ?, ?, ?)",
            (key.scope, key.key, key.fingerprint, ids, added.batch_id, expires_at),
        )
    return added


def _known_key(db: apsw.Connection, key: IdempotencyKey) -> Added | None:
    row = db.execute(
        "SELECT fingerprint, job_ids, batch_id FROM idempotency_keys"
        " WHERE scope = ? AND key = ? AND expires_at > ?",
        (key.scope, key.key, schema.microseconds(utc_now())),
    ).fetchone()
    if row is None:
        return None
    if row[0] != key.fingerprint:
        raise KeyReused("This idempotency key was used for another request")
    return Added(json.loads(row[1]), row[2], replayed=True)


def cancel(db: apsw.Connection, query: JobQuery) -> list[str]:
    matching = _matching(db, query, CANCELLABLE)
    for seq in matching:
        if db.execute("SELECT status FROM jobs WHERE seq = ?", (seq,)).get == "pending":
            cancel_job(db, seq, Cancelled().reason)
        else:
            changes = f"cancel_requested = 1, revision = {schema.NEXT_REVISION}"
            db.execute(f"UPDATE jobs SET {changes} WHERE seq = ?", (seq,))
    return list(matching.values())


def restart(db: apsw.Connection, query: JobQuery) -> list[str]:
    matching = _matching(db, query, FINISHED)
    for seq, job_id in matching.items():
        batch_id = db.execute(
            "UPDATE jobs SET failures = 0, crashes = 0, losses = 0, strikes = 0, group_size = NULL,"
            " cancel_requested = 0, archived = 0, step = 'queued', percent = 0, message = ''"
            " WHERE seq = ? RETURNING batch_id",
            (seq,),
        ).get
        requeue(db, seq)
        webhook = db.execute(
            "UPDATE contents SET results = NULL, resources = NULL WHERE seq = ? RETURNING webhook",
            (seq,),
        ).get
        if webhook is not None:
            outbox.restart(db, job_id, Webhook.from_stored_json(webhook))
        if batch_id is not None:
            db.execute("UPDATE batches SET completed_at = NULL WHERE batch_id = ?", (batch_id,))
            outbox.withdraw(db, batch_id)
    return list(matching.values())


def archive(db: apsw.Connection, query: JobQuery, *, archived: bool = True) -> list[str]:
    matching = _matching(db, query, ("archived = ?", (not archived,)))
    for seq in matching:
        db.execute(
            f"UPDATE jobs SET archived = ?, revision = {schema.NEXT_REVISION} WHERE seq = ?",
            (archived, seq),
        )
    return list(matching.values())


def delete(db: apsw.Connection, query: JobQuery) -> list[str]:
    matching = _matching(db, query, FINISHED)
    for seq, job_id in matching.items():
        row: Any = db.execute(
            "DELETE FROM jobs WHERE seq = ? RETURNING batch_id, revision", (seq,)
        ).fetchone()
        outbox.delete(db, job_id)
        schema.record_change(db, job_id=job_id, batch_id=row[0], above=row[1])
    return list(matching.values())


def _matching(db: apsw.Connection, query: JobQuery, only: Term) -> dict[int, str]:
    """Return `seq` and id of the jobs that match the query and `only`."""
    seqs = [seq for _, seq in find_seqs(db, query, only=[only])]
    return {seq: db.execute("SELECT job_id FROM jobs WHERE seq = ?", (seq,)).get for seq in seqs}


def change_batch(
    db: apsw.Connection,
    batch_id: str,
    *,
    is_active: bool | None = None,
    archived: bool | None = None,
) -> Batch:
    batch = get_batch(db, batch_id)
    now = schema.microseconds(utc_now())
    if is_active is not None and is_active != batch.is_active:
        db.execute("UPDATE batches SET is_active = ? WHERE batch_id = ?", (is_active, batch_id))
        # Resumed jobs enter the queue with the next claim, like scheduled jobs that are due.
        db.execute(
            "UPDATE jobs SET held = ?, turn = NULL, run_at = coalesce(run_at, ?),"
            f" revision = {schema.NEXT_REVISION} WHERE batch_id = ? AND status = 'pending'",
            (not is_active, now, batch_id),
        )
    if archived is not None and archived != batch.archived:
        db.execute("UPDATE batches SET archived = ? WHERE batch_id = ?", (archived, batch_id))
        db.execute(
            f"UPDATE jobs SET archived = ?, revision = {schema.NEXT_REVISION} WHERE batch_id = ?",
            (archived, batch_id),
        )
    db.execute("UPDATE batches SET updated_at = ? WHERE batch_id = ?", (now, batch_id))
    schema.record_change(db, job_id=None, batch_id=batch_id)
    return get_batch(db, batch_id)


def delete_batch(db: apsw.Connection, batch_id: str) -> None:
    if get_batch(db, batch_id).total_jobs:
        raise Conflict(f"The batch {batch_id} still has jobs")
    outbox.delete(db, batch_id)
    db.execute("DELETE FROM batches WHERE batch_id = ?", (batch_id,))
    schema.record_change(db, job_id=None, batch_id=batch_id)


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
            last = self._db.execute(
                "SELECT max(turn) FROM jobs INDEXED BY jobs_of_user_ready"
                " WHERE job_type = ? AND priority = ? AND user_id IS ? AND turn IS NOT NULL",
                user_queue,
            ).get
        position = self.head_position(job_type, priority) if last is None else last + 1
        self._last[user_queue] = position
        return position

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
        position = None
        if not paused and (job.run_at is None or job.run_at <= now):
            position = positions.next_position(job.job_type, job.priority, job.user_id)
        schema.insert_job(db, job, position=position, paused=paused)
        if job.webhook is not None:
            outbox.register(db, job, job.webhook)


def promote(db: apsw.Connection, now: int) -> None:
    """Move scheduled jobs that are due into their queues, and suspects to those that wait for an
    idle worker."""
    due: list[Any] = db.execute(
        "SELECT seq, group_size, job_type, priority, user_id FROM jobs INDEXED BY jobs_waiting"
        " WHERE status = 'pending' AND turn IS NULL AND held = 0"
        " AND run_at <= ? ORDER BY run_at LIMIT ?",
        (now, MAX_PROMOTED),
    ).fetchall()
    positions = QueuePositions(db)
    for seq, group_size, *user_queue in due:
        if group_size is not None:
            db.execute("UPDATE jobs SET run_at = NULL WHERE seq = ?", (seq,))
        else:
            position = positions.next_position(*user_queue)
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
        # A pending job was last updated when it became pending, but may be scheduled for later.
        head = db.execute(
            "SELECT max(updated_at, coalesce(run_at, 0)) FROM jobs INDEXED BY jobs_ready"
            " WHERE job_type = ? AND priority = ? AND turn IS NOT NULL ORDER BY turn, seq LIMIT 1",
            queue,
        ).get
        if head is not None:
            since[queue[0]] = min(schema.moment(head), since.get(queue[0], schema.moment(head)))
    for _, job_type, _, _, updated_at in db.execute(WAITING_SUSPECTS, (MAX_SUSPECTS_CHECKED,)):
        at = schema.moment(updated_at)
        since[job_type] = min(at, since.get(job_type, at))
    return since


#: How many waiting suspects a claim checks at most.
MAX_SUSPECTS_CHECKED = 1000
#: Suspects that wait for an idle worker, in the order in which they became pending.
WAITING_SUSPECTS = (
    "SELECT seq, job_type, user_id, group_size, updated_at FROM jobs INDEXED BY jobs_suspect"
    " WHERE status = 'pending' AND group_size IS NOT NULL AND held = 0 AND run_at IS NULL"
    " AND updated_at > 0 ORDER BY updated_at LIMIT ?"
)


def fail(db: apsw.Connection, seq: int, error: JobError, *, counter: str | None = None) -> None:
    _end(db, seq, JobStatus.FAILED, error, f", {counter} = {counter} + 1" if counter else "")


def cancel_job(db: apsw.Connection, seq: int, reason: str) -> None:
    error = JobError(code="CANCELLED", message=reason)
    changes = ", turn = NULL, run_at = NULL, held = 0, cancel_requested = 1"
    _end(db, seq, JobStatus.CANCELLED, error, changes)


def _end(db: apsw.Connection, seq: int, status: JobStatus, error: JobError, changes: str) -> None:
    """Fail or cancel a job, count it, make its webhook event due and settle its batch."""
    now = schema.microseconds(utc_now())
    row: Any = db.execute(
        f"UPDATE jobs SET status = ?{changes}, error_code = ?, updated_at = ?, completed_at = ?,"
        f" revision = {schema.NEXT_REVISION} WHERE seq = ? RETURNING"
        " job_id, batch_id, job_type, user_id, attempt, created_at, processing_started_at",
        (status.value, error.code, now, now, seq),
    ).fetchone()
    job_id, batch_id, job_type, user_id, attempt, created_at, started_at = row
    webhook = db.execute(
        "UPDATE contents SET error = ? WHERE seq = ? RETURNING webhook",
        (error.model_dump_json(), seq),
    ).get
    waited = wait_of(attempt, schema.moment(created_at), schema.moment_or_none(started_at))
    ending = FinishedJob(job_type, user_id, status.value, schema.moment(now), error.code, waited)
    write_counters(db, count_finished([ending]))
    if webhook is not None:
        outbox.add_final_event(db, job_id, Webhook.from_stored_json(webhook), "error", now)
    if batch_id is not None:
        settle_batch(db, batch_id)


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

    An interrupted job goes to the head of its queue: it has waited before. A suspect is in no
    queue: it waits for an idle worker.
    """
    now = utc_now()
    row: Any = db.execute(
        "SELECT job_type, priority, jobs.user_id, coalesce(NOT is_active, 0), attempt, worker_id,"
        " processing_started_at, jobs.completed_at, group_size, attempts, error"
        f" FROM {schema.JOBS}"
        " LEFT JOIN batches USING (batch_id) WHERE jobs.seq = ?",
        (seq,),
    ).fetchone()
    (job_type, priority, user_id, paused, attempt, worker_id, started_at, ended_at,
     group_size, attempts, stored_error) = row  # fmt: skip
    if worker_id is not None:
        attempt_error = error
        if error is None and ended_at is not None and stored_error:
            attempt_error = JobError.from_stored_json(stored_error)
        past = Attempt(
            attempt=attempt,
            worker_id=worker_id,
            started_at=schema.moment(started_at),
            ended_at=schema.moment(ended_at) if ended_at else now,
            error=attempt_error,
        )
        history = [*(json.loads(attempts) if attempts else []), past.model_dump(mode="json")]
        attempts = encode_json_text(history[-MAX_ATTEMPTS_KEPT:])
    position = None
    if run_at is not None and run_at <= now and group_size is not None:
        run_at = None
    if group_size is None and not paused and (run_at is None or run_at <= now):
        positions = QueuePositions(db)
        position = (
            positions.head_position(job_type, priority)
            if interrupted
            else positions.next_position(job_type, priority, user_id)
        )
    counting = f", {counter} = {counter} + 1" if counter else ""
    code = error.code if error else None
    db.execute(
        "UPDATE jobs SET status = 'pending', turn = ?, held = ?, run_at = ?, worker_id = NULL,"
        " processing_started_at = NULL, completed_at = NULL, error_code = ?, updated_at = ?,"
        f" revision = {schema.NEXT_REVISION}{counting} WHERE seq = ?",
        (
            position,
            paused,
            schema.microseconds_or_none(run_at),
            code,
            schema.microseconds(now),
            seq,
        ),
    )
    text = error.model_dump_json() if error else None
    db.execute("UPDATE contents SET error = ?, attempts = ? WHERE seq = ?", (text, attempts, seq))


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


def tidy(db: apsw.Connection, last_scope: str) -> str:
    """Drop what has expired; throughput counters in steps, of which the next begins after the
    returned scope."""
    now = schema.microseconds(utc_now())
    db.execute("DELETE FROM idempotency_keys WHERE expires_at < ?", (now,))
    outbox.drop_expired_callbacks(db)
    # The newest trace stays in any case: it may have the highest revision.
    db.execute(
        "DELETE FROM traces WHERE revision <="
        " (SELECT revision FROM traces ORDER BY revision DESC LIMIT 1 OFFSET ?)",
        (MAX_RECORDED_CHANGES,),
    )
    last_scope = drop_expired_counters(db, last_scope)
    drop_old_usage(db)
    db.execute("PRAGMA incremental_vacuum(1000)").fetchall()
    return last_scope
