"""The tables of the SQLite store, and jobs and batches as rows."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from ...core.errors import StoreUnavailable
from ...core.job import (
    OWNER_ONLY,
    AccessControl,
    Attempt,
    Batch,
    Delivery,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    Progress,
    Webhook,
)
from ...core.json_codec import encode_json_text
from ..jobs import NumberedLog
from .connection import connect

SCHEMA_VERSION = 1
APPLICATION_ID = 0x5EC2E7A2  # marks the file as a Secretary database


def prepare(path: Path) -> None:
    """Create the tables of a new database; refuse one of another program or a newer version."""
    db = connect(path)
    try:
        db.execute("BEGIN IMMEDIATE")
        version = db.pragma("user_version")
        application_id = db.pragma("application_id")
        if version > SCHEMA_VERSION:
            raise StoreUnavailable(
                f"The database {path.name} in {path.parent} was written by a newer version of "
                f"Secretary (schema {version}; this version knows {SCHEMA_VERSION}). "
                "Install that version, or use another data directory."
            )
        if version == 0:
            if (
                application_id not in (0, APPLICATION_ID)
                or db.execute("SELECT 1 FROM sqlite_schema").get
            ):
                raise StoreUnavailable(
                    f"The file {path.name} in {path.parent} is a database of another program"
                )
            db.execute((files(__package__) / "schema.sql").read_text())
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute((files(__package__) / "later.sql").read_text())
        db.execute("COMMIT")
    finally:
        db.close()


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

JOB_COLUMNS = (
    "jobs.seq, job_id, job_type, job_name, status, user_id, batch_id, priority, run_at, timeout_s, "
    "max_attempts, attempt, failures, crashes, worker_id, cancel_requested, archived, step, "
    "percent, message, created_at, updated_at, processing_started_at, completed_at, "
    "parameters, webhook, access_control, traceparent, attempts, error, resources"
)
JOBS = "jobs JOIN contents ON contents.seq = jobs.seq"

BATCH_COLUMNS = (
    "batch_id, batch_name, user_id, access_control, is_active, archived, webhook, pending, "
    "processing, completed, failed, cancelled, created_at, updated_at, started_at, completed_at"
)


#: An SQL expression. Writes are serialized, so no other one gets the same revision; all rows that
#: one statement changes share it. It costs two index lookups and no write.
NEXT_REVISION = (
    "(SELECT 1 + max(coalesce((SELECT max(revision) FROM jobs), 0),"
    " coalesce((SELECT max(revision) FROM traces), 0)))"
)


def microseconds(at: datetime) -> int:
    return (at - EPOCH) // MICROSECOND


def microseconds_or_none(at: datetime | None) -> int | None:
    return None if at is None else microseconds(at)


def moment(value: int) -> datetime:
    return EPOCH + value * MICROSECOND


def moment_or_none(value: int | None) -> datetime | None:
    return None if value is None else EPOCH + value * MICROSECOND


def job_from(
    row: Sequence[Any],
    *,
    results: str | None = None,
    logs: Iterable[LogEntry] = (),
    deliveries: Iterable[Delivery] = (),
) -> Job:
    (_, job_id, job_type, job_name, status, user_id, batch_id, priority, run_at, timeout_s,
     max_attempts, attempt, failures, crashes, worker_id, cancel_requested, archived, step,
     percent, message, created_at, updated_at, processing_started_at, completed_at, parameters,
     webhook, access_control, traceparent, attempts, error, resources) = row  # fmt: skip
    started_at, ended_at = moment_or_none(processing_started_at), moment_or_none(completed_at)
    job_error = JobError.from_stored_json(error) if error else None
    past = [Attempt.from_stored(item) for item in json.loads(attempts)] if attempts else []
    if worker_id is not None and started_at is not None:
        past.append(
            Attempt(
                attempt=attempt,
                worker_id=worker_id,
                started_at=started_at,
                ended_at=ended_at,
                error=job_error,
            )
        )
    return Job(
        job_id=job_id,
        job_type=job_type,
        job_name=job_name,
        status=status,
        parameters=json.loads(parameters),
        progress=Progress(step=step, percent=percent, message=message),
        results=json.loads(results) if results else None,
        error=job_error,
        created_at=moment(created_at),
        updated_at=moment(updated_at),
        processing_started_at=started_at,
        completed_at=ended_at,
        batch_id=batch_id,
        user_id=user_id,
        access_control=access_from(access_control),
        logs=tuple(logs),
        archived=bool(archived),
        priority=priority,
        run_at=moment_or_none(run_at),
        timeout_s=timeout_s,
        max_attempts=max_attempts,
        webhook=Webhook.from_stored_json(webhook) if webhook else None,
        deliveries=tuple(deliveries),
        resources=json.loads(resources) if resources else {},
        traceparent=traceparent,
        attempt=attempt,
        worker_id=worker_id,
        attempts=tuple(past),
        failures=failures,
        crashes=crashes,
        cancel_requested=bool(cancel_requested),
    )


def access_from(text: str | None) -> AccessControl:
    return AccessControl.from_stored_json(text) if text else OWNER_ONLY


def access_to(access: AccessControl) -> str | None:
    return None if access == OWNER_ONLY else access.model_dump_json()


def numbered_log(db: apsw.Connection, seq: int) -> NumberedLog:
    rows: Iterable[Any] = db.execute(
        "SELECT n, logged_at, level, message FROM logs WHERE seq = ? ORDER BY n", (seq,)
    )
    return [
        (n, LogEntry(timestamp=moment(logged_at), level=level, message=message))
        for n, logged_at, level, message in rows
    ]


DELIVERY_COLUMNS = (
    "delivery_id, n, event, created_at, replayed_at, delivered_at, next_try_at, tried, tries"
)


def deliveries_of(db: apsw.Connection, owner_id: str) -> list[Delivery]:
    rows = db.execute(
        f"SELECT {DELIVERY_COLUMNS} FROM deliveries WHERE owner_id = ? ORDER BY n", (owner_id,)
    )
    return [delivery_from(row) for row in rows]


def delivery_from(row: Sequence[Any]) -> Delivery:
    (delivery_id, n, event, created_at, replayed_at, delivered_at, next_try_at, tried,
     tries) = row  # fmt: skip
    return Delivery(
        n=n,
        delivery_id=delivery_id,
        event=event,
        created_at=moment(created_at),
        replayed_at=moment_or_none(replayed_at),
        delivered_at=moment_or_none(delivered_at),
        next_try_at=moment_or_none(next_try_at),
        tried=tried,
        tries=json.loads(tries) if tries else (),
    )


def batch_from(row: Sequence[Any], deliveries: Iterable[Delivery] = ()) -> Batch:
    (batch_id, batch_name, user_id, access_control, is_active, archived, webhook, pending,
     processing, completed, failed, cancelled, created_at, updated_at, started_at,
     completed_at) = row  # fmt: skip
    return Batch(
        batch_id=batch_id,
        batch_name=batch_name,
        user_id=user_id,
        access_control=access_from(access_control),
        is_active=bool(is_active),
        archived=bool(archived),
        webhook=Webhook.from_stored_json(webhook) if webhook else None,
        deliveries=tuple(deliveries),
        created_at=moment(created_at),
        updated_at=moment(updated_at),
        started_at=moment_or_none(started_at),
        completed_at=moment_or_none(completed_at),
        counts={
            JobStatus.PENDING: pending,
            JobStatus.PROCESSING: processing,
            JobStatus.COMPLETED: completed,
            JobStatus.FAILED: failed,
            JobStatus.CANCELLED: cancelled,
        },
    )


def insert_job(db: apsw.Connection, job: Job, *, position: int | None, paused: bool) -> int:
    """Return the `seq` of the new row."""
    created_at = microseconds(job.created_at)
    progress = job.progress
    readers = job.readers()
    db.execute(
        "INSERT INTO jobs (job_id, job_type, job_name, status, user_id, public, batch_id, priority,"
        " run_at, turn, held, timeout_s, max_attempts, archived, step, percent, message,"
        " created_at, updated_at, revision)"
        f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {NEXT_REVISION})",
        (
            job.job_id,
            job.job_type,
            job.job_name,
            job.status.value,
            job.user_id,
            readers is None,
            job.batch_id,
            job.priority,
            microseconds(job.run_at) if job.run_at else None,
            position,
            paused,
            job.timeout_s,
            job.max_attempts,
            job.archived,
            progress.step,
            progress.percent,
            progress.message,
            created_at,
            created_at,
        ),
    )
    seq = db.last_insert_rowid()
    db.execute(
        "INSERT INTO contents (seq, parameters, webhook, access_control, traceparent)"
        " VALUES (?, ?, ?, ?, ?)",
        (
            seq,
            encode_json_text(job.parameters),
            job.webhook.model_dump_json(by_alias=True) if job.webhook else None,
            access_to(job.access_control),
            job.traceparent,
        ),
    )
    for reader in (readers or frozenset()) - {job.user_id}:
        db.execute("INSERT INTO readers VALUES (?, ?, ?)", (reader, created_at, seq))
    return seq


def insert_batch(db: apsw.Connection, batch: Batch) -> None:
    readers = batch.readers()
    db.execute(
        "INSERT INTO batches (batch_id, batch_name, user_id, access_control, readers, is_active,"
        " archived, webhook, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            batch.batch_id,
            batch.batch_name,
            batch.user_id,
            access_to(batch.access_control),
            None if readers is None else encode_json_text(sorted(readers)),
            batch.is_active,
            batch.archived,
            batch.webhook.model_dump_json(by_alias=True) if batch.webhook else None,
            microseconds(batch.created_at),
            microseconds(batch.updated_at),
        ),
    )


def record_change(
    db: apsw.Connection, *, job_id: str | None, batch_id: str | None, above: int = 0
) -> None:
    """Record a change that no row of `jobs` shows. `above` is the revision of a deleted job: if it
    was the highest, it must not be assigned again."""
    db.execute(
        f"INSERT INTO traces VALUES (max({NEXT_REVISION}, ? + 1), ?, ?)",
        (above, job_id, batch_id),
    )
