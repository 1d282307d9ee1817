"""Writes records into the tables of SQLite, as they are."""

import json
from collections.abc import Sequence
from typing import Literal

import apsw

from ...job import Batch, Delivery, Job, JobStatus, utc_now
from ..json_text import dumps
from ..transfer import BatchRecord, JobRecord, KeyRecord, Record, RecordId, Telling
from . import outbox
from .changes import leave_trace
from .line import Line
from .rows import insert_batch, insert_job
from .rows import microseconds_or_none as micros
from .states import settle_batch


def take_in(db: apsw.Connection, records: Sequence[Record]) -> set[RecordId]:
    line = Line(db)
    new: set[RecordId] = set()
    for record in records:
        match record:
            case JobRecord():
                is_new = _take_job(db, record, line)
            case BatchRecord():
                is_new = _take_batch(db, record)
            case KeyRecord():
                is_new = _take_key(db, record)
        if is_new:
            new.add(record.record_id)
    return new


def _take_job(db: apsw.Connection, record: JobRecord, line: Line) -> bool:
    job = record.job
    if db.execute("SELECT 1 FROM jobs WHERE job_id = ?", (job.job_id,)).get:
        return False
    seq = insert_job(db, job, turn=_turn(record, line), held=record.held)
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
            dumps(past) if past else None,
            job.error.model_dump_json() if job.error else None,
            dumps(job.resources) if job.resources else None,
            dumps(job.results) if job.results is not None else None,
            seq,
        ),
    )
    for n, entry in enumerate(job.logs, record.dropped_logs + 1):
        row = (seq, n, micros(entry.timestamp), entry.level, entry.message)
        db.execute("INSERT INTO logs VALUES (?, ?, ?, ?, ?)", row)
    _take_deliveries(db, job.job_id, job, record.telling)
    return True


def _turn(record: JobRecord, line: Line) -> int | None:
    job = record.job
    if job.status is not JobStatus.PENDING or record.held or record.turn is not None:
        return record.turn
    return None if job.run_at else line.next_turn(job.job_type, job.priority, job.user_id)


def _take_batch(db: apsw.Connection, record: BatchRecord) -> bool:
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
    for status in JobStatus:  # its jobs came before it, when there was no batch to count them
        db.execute(
            f"UPDATE batches SET {status.value} = (SELECT count(*) FROM jobs"
            " WHERE batch_id = ?1 AND status = ?2) WHERE batch_id = ?1",
            (batch.batch_id, status.value),
        )
    _take_deliveries(db, batch.batch_id, batch, record.telling)
    settle_batch(db, batch.batch_id)
    leave_trace(db, job_id=None, batch_id=batch.batch_id)
    return True


def _take_deliveries(
    db: apsw.Connection, owner_id: str, owner: Job | Batch, telling: Telling
) -> None:
    for delivery in owner.deliveries:
        _insert_delivery(db, owner_id, delivery)
    if owner.webhook is not None:
        kind: Literal["job", "batch"] = "job" if isinstance(owner, Job) else "batch"
        outbox.insert(db, kind, owner_id, owner.webhook, telling)


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
            dumps(tries) if tries else None,
        ),
    )


def _take_key(db: apsw.Connection, record: KeyRecord) -> bool:
    known = (record.scope, record.key, micros(utc_now()))
    db.execute("DELETE FROM idempotency_keys WHERE scope = ? AND key = ? AND expires_at < ?", known)
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
