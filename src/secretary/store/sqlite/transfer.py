"""Export and import of all records."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import apsw

from ...core.job import Batch, Delivery, Job, JobStatus, utc_now
from ...core.json_codec import encode_json_text
from ..outbox import ProgressSchedule
from ..transfer import (
    GROUP,
    GROUP_BYTES,
    NO_EVENT,
    BatchRecord,
    JobRecord,
    KeyRecord,
    Kind,
    OutboxState,
    Record,
    RecordId,
)
from . import outbox
from .jobs import QueuePositions, settle_batch
from .schema import (
    BATCH_COLUMNS,
    JOB_COLUMNS,
    JOBS,
    batch_from,
    deliveries_of,
    insert_batch,
    insert_job,
    job_from,
    microseconds,
    moment,
    moment_or_none,
    numbered_log,
    record_change,
)
from .schema import microseconds_or_none as micros


@dataclass(frozen=True, slots=True)
class Group:
    records: list[Record]
    #: Identifies the last of them; None if there are no more.
    last: Any = None


def read_group(db: apsw.Connection, kind: Kind, after: Any) -> Group:
    """Read the records after another one (None: the first ones)."""
    read = {"jobs": _job_group, "batches": _batch_group, "keys": _key_group}[kind]
    with db:  # one snapshot of all tables
        group = read(db, after)
    return group


def read_by_id(db: apsw.Connection, kind: Kind, ids: Collection[RecordId]) -> list[Record]:
    read = {"jobs": _one_job, "batches": _one_batch, "keys": _one_key}[kind]
    with db:
        records = [read(db, record_id) for record_id in ids]
    return [record for record in records if record is not None]


def _one_job(db: apsw.Connection, job_id: RecordId) -> Record | None:
    seq = db.execute("SELECT seq FROM jobs WHERE job_id = ?", (job_id,)).get
    return None if seq is None else _job_record(db, seq)[0]


def _one_batch(db: apsw.Connection, batch_id: RecordId) -> Record | None:
    row = db.execute(f"{_BATCHES} WHERE batch_id = ?", (batch_id,)).fetchone()
    return _batch_record(db, row) if row else None


def _one_key(db: apsw.Connection, key: RecordId) -> Record | None:
    row = db.execute(f"{_KEYS} AND (scope, key) = (?, ?)", (_now(), *key)).fetchone()
    return _key_record(row) if row else None


def _job_group(db: apsw.Connection, after: Any) -> Group:
    seqs: list[Any] = db.execute(
        "SELECT seq FROM jobs WHERE seq > ? ORDER BY seq LIMIT ?", (after or 0, GROUP)
    ).fetchall()
    records: list[Record] = []
    size = 0
    for (seq,) in seqs:
        record, length = _job_record(db, seq)
        records.append(record)
        after = seq
        size += length
        if size > GROUP_BYTES:
            break
    return Group(records, after if records else None)


def _job_record(db: apsw.Connection, seq: int) -> tuple[JobRecord, int]:
    row: Any = db.execute(
        f"SELECT {JOB_COLUMNS}, results, turn, held,"
        f" length(parameters) + coalesce(length(results), 0) FROM {JOBS} WHERE jobs.seq = ?",
        (seq,),
    ).fetchone()
    *columns, results, position, paused, length = row
    numbered = numbered_log(db, seq)
    logs = [entry for _, entry in numbered]
    job = job_from(
        columns, results=results, logs=logs, deliveries=deliveries_of(db, columns[1])
    )  # fmt: skip
    record = JobRecord(
        job=job,
        dropped_logs=numbered[0][0] - 1 if numbered else 0,
        position=position,
        paused=bool(paused),
        outbox=_outbox_state(db, job.job_id),
    )
    return record, length + sum(len(entry.message) for entry in logs)


_BATCHES = f"SELECT {BATCH_COLUMNS}, seq FROM batches"


def _batch_group(db: apsw.Connection, after: Any) -> Group:
    rows = db.execute(
        f"{_BATCHES} WHERE seq > ? ORDER BY seq LIMIT ?", (after or 0, GROUP)
    ).fetchall()
    return Group([_batch_record(db, row) for row in rows], rows[-1][-1] if rows else None)


def _batch_record(db: apsw.Connection, row: Sequence[Any]) -> BatchRecord:
    batch = batch_from(row[:-1], deliveries_of(db, row[0]))
    return BatchRecord(batch=batch, outbox=_outbox_state(db, batch.batch_id))


_KEYS = (
    "SELECT scope, key, fingerprint, job_ids, batch_id, expires_at FROM idempotency_keys"
    " WHERE expires_at > ?"
)


def _now() -> int:
    return microseconds(utc_now())


def _key_group(db: apsw.Connection, after: Any) -> Group:
    rows = db.execute(
        f"{_KEYS} AND (scope, key) > (?, ?) ORDER BY scope, key LIMIT ?",
        (_now(), *(after or ("", "")), GROUP),
    ).fetchall()
    return Group([_key_record(row) for row in rows], rows[-1][:2] if rows else None)


def _key_record(row: Sequence[Any]) -> KeyRecord:
    scope, key, fingerprint, job_ids, batch_id, expires_at = row
    return KeyRecord(
        scope=scope,
        key=key,
        fingerprint=fingerprint,
        job_ids=tuple(json.loads(job_ids)),
        batch_id=batch_id,
        expires_at=moment(expires_at),
    )


def _outbox_state(db: apsw.Connection, owner_id: str) -> OutboxState:
    row: Any = db.execute(
        "SELECT due_at, final, told_percent, ripe_percent, ripe_at, paced_at FROM outbox"
        " WHERE owner_id = ?",
        (owner_id,),
    ).fetchone()
    if row is None:
        return NO_EVENT
    due_at, final, sent_percent, early_percent, early_at, paced_at = row
    pace = None
    if paced_at is not None:
        pace = ProgressSchedule(
            sent_percent=sent_percent,
            early_percent=early_percent,
            early_at=moment(early_at),
            due_at=moment(paced_at),
        )
    due = moment_or_none(due_at)
    return OutboxState(due_at=due, final=due is not None and bool(final), schedule=pace)


def import_records(db: apsw.Connection, records: Sequence[Record]) -> set[RecordId]:
    positions = QueuePositions(db)
    new: set[RecordId] = set()
    for record in records:
        match record:
            case JobRecord():
                is_new = _import_job(db, record, positions)
            case BatchRecord():
                is_new = _import_batch(db, record)
            case KeyRecord():
                is_new = _import_key(db, record)
        if is_new:
            new.add(record.record_id)
    return new


def _import_job(db: apsw.Connection, record: JobRecord, positions: QueuePositions) -> bool:
    job = record.job
    if db.execute("SELECT 1 FROM jobs WHERE job_id = ?", (job.job_id,)).get:
        return False
    seq = insert_job(db, job, position=_position(record, positions), paused=record.paused)
    db.execute(
        "UPDATE jobs SET attempt = ?, failures = ?, crashes = ?, worker_id = ?,"
        " cancel_requested = ?, error_code = ?, updated_at = ?, processing_started_at = ?,"
        " completed_at = ? WHERE seq = ?",
        (
            job.attempt,
            job.failures,
            job.crashes,
            job.worker_id,
            job.cancel_requested,
            job.error.code if job.error else None,
            micros(job.updated_at),
            micros(job.processing_started_at),
            micros(job.completed_at),
            seq,
        ),
    )
    past = [attempt.model_dump(mode="json") for attempt in job.past_attempts]
    db.execute(
        "UPDATE contents SET attempts = ?, error = ?, resources = ?, results = ? WHERE seq = ?",
        (
            encode_json_text(past) if past else None,
            job.error.model_dump_json() if job.error else None,
            encode_json_text(job.resources) if job.resources else None,
            encode_json_text(job.results) if job.results is not None else None,
            seq,
        ),
    )
    for n, entry in enumerate(job.logs, record.dropped_logs + 1):
        row = (seq, n, micros(entry.timestamp), entry.level, entry.message)
        db.execute("INSERT INTO logs VALUES (?, ?, ?, ?, ?)", row)
    _import_deliveries(db, job.job_id, job, record.outbox)
    return True


def _position(record: JobRecord, positions: QueuePositions) -> int | None:
    job = record.job
    if job.status is not JobStatus.PENDING or record.paused or record.position is not None:
        return record.position
    return None if job.run_at else positions.next_position(job.job_type, job.priority, job.user_id)


def _import_batch(db: apsw.Connection, record: BatchRecord) -> bool:
    batch = record.batch
    if db.execute("SELECT 1 FROM batches WHERE batch_id = ?", (batch.batch_id,)).get:
        return False
    insert_batch(db, batch)
    db.execute(
        "UPDATE batches SET started_at = ?, completed_at = ? WHERE batch_id = ?",
        (
            micros(batch.started_at),
            micros(batch.completed_at),
            batch.batch_id,
        ),
    )
    for status in JobStatus:  # its jobs were imported before it
        db.execute(
            f"UPDATE batches SET {status.value} = (SELECT count(*) FROM jobs"
            " WHERE batch_id = ?1 AND status = ?2) WHERE batch_id = ?1",
            (batch.batch_id, status.value),
        )
    _import_deliveries(db, batch.batch_id, batch, record.outbox)
    settle_batch(db, batch.batch_id)
    record_change(db, job_id=None, batch_id=batch.batch_id)
    return True


def _import_deliveries(
    db: apsw.Connection, owner_id: str, owner: Job | Batch, state: OutboxState
) -> None:
    for delivery in owner.deliveries:
        _insert_delivery(db, owner_id, delivery)
    if owner.webhook is not None:
        kind: Literal["job", "batch"] = "job" if isinstance(owner, Job) else "batch"
        outbox.insert(db, kind, owner_id, owner.webhook, state)


def _insert_delivery(db: apsw.Connection, owner_id: str, delivery: Delivery) -> None:
    tries = [one.model_dump(mode="json") for one in delivery.tries]
    db.execute(
        "INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            delivery.delivery_id,
            owner_id,
            delivery.n,
            delivery.event,
            micros(delivery.created_at),
            micros(delivery.replayed_at),
            micros(delivery.delivered_at),
            micros(delivery.next_try_at),
            delivery.tried,
            encode_json_text(tries) if tries else None,
        ),
    )


def _import_key(db: apsw.Connection, record: KeyRecord) -> bool:
    expired = (record.scope, record.key, micros(utc_now()))
    db.execute(
        "DELETE FROM idempotency_keys WHERE scope = ? AND key = ? AND expires_at < ?", expired
    )
    db.execute(
        "INSERT OR IGNORE INTO idempotency_keys VALUES (?, ?, ?, ?, ?, ?)",
        (
            record.scope,
            record.key,
            record.fingerprint,
            json.dumps(record.job_ids),
            record.batch_id,
            micros(record.expires_at),
        ),
    )
    return db.changes() > 0
