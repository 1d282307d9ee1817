"""Export and import of all records."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import apsw

from ...core.job import Batch, Job, JobStatus, utc_now
from ...core.json_codec import encode_json_text
from ..outbox import NO_EVENT, OutboxState, ProgressSchedule
from ..transfer import (
    GROUP,
    GROUP_BYTES,
    BatchRecord,
    JobRecord,
    KeyRecord,
    Kind,
    Record,
    RecordId,
)
from . import outbox, schema
from .jobs import QueuePositions, settle_batch


def read_group(db: apsw.Connection, kind: Kind, after: Any) -> tuple[list[Record], Any]:
    """Read the records after another one (None: the first ones), and what identifies the last."""
    where, start = "seq > ? ORDER BY seq LIMIT ?", after or (0,)
    if kind == "keys":
        where, start = "(scope, key) > (?, ?) ORDER BY scope, key LIMIT ?", after or ("", "")
    records: list[Record] = []
    size = 0
    with db:  # one snapshot of all tables
        for record, position, length in _read(db, kind, where, (*start, GROUP)):
            records.append(record)
            after = position
            size += length
            if size > GROUP_BYTES:
                break
    return records, after


def read_by_id(db: apsw.Connection, kind: Kind, ids: Collection[RecordId]) -> list[Record]:
    where = {"jobs": "job_id = ?", "batches": "batch_id = ?", "keys": "(scope, key) = (?, ?)"}[kind]
    values = [record_id if isinstance(record_id, tuple) else (record_id,) for record_id in ids]
    with db:
        records = [record for one in values for record, _, _ in _read(db, kind, where, one)]
    return records


def _read(
    db: apsw.Connection, kind: Kind, where: str, values: tuple[Any, ...]
) -> Iterator[tuple[Record, Any, int]]:
    """Yield records, each with what identifies it and, if it can be large, its size."""
    match kind:
        case "jobs":
            seqs: list[Any] = db.execute(f"SELECT seq FROM jobs WHERE {where}", values).fetchall()
            for (seq,) in seqs:
                record, size = _job_record(db, seq)
                yield record, (seq,), size
        case "batches":
            batches: list[Any] = db.execute(f"{_BATCHES} WHERE {where}", values).fetchall()
            for row in batches:
                batch = schema.batch_from(row[:-1], schema.deliveries_of(db, row[0]))
                state = _outbox_state(db, batch.batch_id)
                yield BatchRecord(batch=batch, outbox=state), row[-1:], 0
        case "keys":
            now = schema.microseconds(utc_now())
            for row in db.execute(f"{_KEYS} AND {where}", (now, *values)).fetchall():
                key = _key_record(row)
                yield key, key.record_id, 0


def _job_record(db: apsw.Connection, seq: int) -> tuple[JobRecord, int]:
    row: Any = db.execute(
        f"SELECT {schema.JOB_COLUMNS}, results, turn, held,"
        f" length(parameters) + coalesce(length(results), 0) FROM {schema.JOBS} WHERE jobs.seq = ?",
        (seq,),
    ).fetchone()
    *columns, results, position, paused, length = row
    numbered = schema.numbered_log(db, seq)
    logs = [entry for _, entry in numbered]
    deliveries = schema.deliveries_of(db, columns[1])
    job = schema.job_from(columns, results=results, logs=logs, deliveries=deliveries)
    record = JobRecord(
        job=job,
        dropped_logs=numbered[0][0] - 1 if numbered else 0,
        position=position,
        paused=bool(paused),
        outbox=_outbox_state(db, job.job_id),
    )
    return record, length + sum(len(entry.message) for entry in logs)


_BATCHES = f"SELECT {schema.BATCH_COLUMNS}, seq FROM batches"
KEY_COLUMNS = ("scope", "key", "fingerprint", "job_ids", "batch_id", "expires_at")
_KEYS = f"SELECT {', '.join(KEY_COLUMNS)} FROM idempotency_keys WHERE expires_at > ?"


def _key_record(row: Sequence[Any]) -> KeyRecord:
    stored = dict(zip(KEY_COLUMNS, row, strict=True))
    times = {"expires_at": schema.moment(stored["expires_at"])}
    return KeyRecord(**stored | times | {"job_ids": tuple(json.loads(stored["job_ids"]))})


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
            early_at=schema.moment(early_at),
            due_at=schema.moment(paced_at),
        )
    due = schema.moment_or_none(due_at)
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


#: What changes once a worker has claimed a job.
STATE_FIELDS = (
    "attempt", "failures", "crashes", "losses", "strikes", "group_size", "worker_id",
    "cancel_requested",
)  # fmt: skip
STATE_TIMES = ("updated_at", "processing_started_at", "completed_at")


def _import_job(db: apsw.Connection, record: JobRecord, positions: QueuePositions) -> bool:
    job = record.job
    if db.execute("SELECT 1 FROM jobs WHERE job_id = ?", (job.job_id,)).get:
        return False
    position = record.position
    if record.needs_position:
        position = positions.next_position(job.job_type, job.priority, job.user_id)
    seq = schema.insert_job(db, job, position=position, paused=record.paused)
    state = schema.row_of(job, STATE_FIELDS, STATE_TIMES)
    state["error_code"] = job.error.code if job.error else None
    schema.update_row(db, "jobs", state, seq=seq)
    past = [attempt.model_dump(mode="json") for attempt in job.past_attempts]
    contents = {
        "attempts": encode_json_text(past) if past else None,
        "error": job.error.model_dump_json() if job.error else None,
        "resources": encode_json_text(job.resources) if job.resources else None,
        "results": encode_json_text(job.results) if job.results is not None else None,
    }
    schema.update_row(db, "contents", contents, seq=seq)
    for n, entry in enumerate(job.logs, record.dropped_logs + 1):
        row = (seq, n, schema.microseconds(entry.timestamp), entry.level, entry.message)
        db.execute("INSERT INTO logs VALUES (?, ?, ?, ?, ?)", row)
    _import_deliveries(db, job.job_id, job, record.outbox)
    return True


def _import_batch(db: apsw.Connection, record: BatchRecord) -> bool:
    batch = record.batch
    if db.execute("SELECT 1 FROM batches WHERE batch_id = ?", (batch.batch_id,)).get:
        return False
    schema.insert_batch(db, batch)
    for status in JobStatus:  # its jobs were imported before it
        db.execute(
            f"UPDATE batches SET {status.value} = (SELECT count(*) FROM jobs"
            " WHERE batch_id = ?1 AND status = ?2) WHERE batch_id = ?1",
            (batch.batch_id, status.value),
        )
    _import_deliveries(db, batch.batch_id, batch, record.outbox)
    settle_batch(db, batch.batch_id)
    schema.record_change(db, job_id=None, batch_id=batch.batch_id)
    return True


def _import_deliveries(
    db: apsw.Connection, owner_id: str, owner: Job | Batch, state: OutboxState
) -> None:
    for one in owner.deliveries:
        tries = [attempt.model_dump(mode="json") for attempt in one.tries]
        row = schema.row_of(one, schema.DELIVERY_FIELDS, schema.DELIVERY_TIMES) | {
            "owner_id": owner_id
        }
        row["tries"] = encode_json_text(tries) if tries else None
        schema.insert_row(db, "deliveries", row)
    if owner.webhook is not None:
        outbox.insert(db, owner, owner.webhook, state)


def _import_key(db: apsw.Connection, record: KeyRecord) -> bool:
    db.execute(
        "DELETE FROM idempotency_keys WHERE scope = ? AND key = ? AND expires_at < ?",
        (record.scope, record.key, schema.microseconds(utc_now())),
    )
    ids, expires_at = json.dumps(record.job_ids), schema.microseconds(record.expires_at)
    db.execute(
        "INSERT OR IGNORE INTO idempotency_keys VALUES (?, ?, ?, ?, ?, ?)",
        (record.scope, record.key, record.fingerprint, ids, record.batch_id, expires_at),
    )
    return db.changes() > 0
