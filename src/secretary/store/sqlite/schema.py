"""The tables of the SQLite store, and jobs and batches as rows."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from operator import attrgetter
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

#: Columns that are not in the first schema. Versions that do not know them are not affected.
LATER_COLUMNS = (
    ("contents", "process_id", "TEXT"),
    ("jobs", "losses", "INTEGER NOT NULL DEFAULT 0"),
    ("jobs", "strikes", "INTEGER NOT NULL DEFAULT 0"),
    ("jobs", "group_size", "INTEGER"),
    ("jobs", "retention_days", "REAL"),
    ("jobs", "stored_bytes", "INTEGER"),
    ("batches", "retention_days", "REAL"),
)


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
        for table, column, definition in LATER_COLUMNS:
            if column not in {row[1] for row in db.execute(f"PRAGMA table_info({table})")}:
                db.execute(f"ALTER TABLE {table} ADD COLUMN {column} {definition}")
        db.execute((files(__package__) / "later.sql").read_text())
        db.execute("COMMIT")
    finally:
        db.close()


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

#: Columns that hold fields of the same name: as they are, and as times in microseconds.
JOB_FIELDS = (
    "job_id", "job_type", "job_name", "status", "user_id", "batch_id", "priority", "timeout_s",
    "max_attempts", "attempt", "failures", "crashes", "worker_id", "cancel_requested", "archived",
    "traceparent", "process_id", "retention_days", "stored_bytes", "losses", "strikes",
    "group_size",
)  # fmt: skip
JOB_TIMES = ("run_at", "created_at", "updated_at", "processing_started_at", "completed_at")
JOB_COLUMNS = (
    f"jobs.seq, {', '.join(JOB_FIELDS + JOB_TIMES)}, step, percent, message, parameters, webhook,"
    " access_control, attempts, error, resources"
)
JOBS = "jobs JOIN contents ON contents.seq = jobs.seq"

BATCH_FIELDS = ("batch_id", "batch_name", "user_id", "is_active", "archived", "retention_days")
BATCH_TIMES = ("created_at", "updated_at", "started_at", "completed_at")
BATCH_COLUMNS = (
    f"{', '.join(BATCH_FIELDS + BATCH_TIMES)}, access_control, webhook,"
    " pending, processing, completed, failed, cancelled"
)

DELIVERY_FIELDS = ("delivery_id", "n", "event", "tried")
DELIVERY_TIMES = ("created_at", "replayed_at", "delivered_at", "next_try_at")
DELIVERY_COLUMNS = f"{', '.join(DELIVERY_FIELDS + DELIVERY_TIMES)}, tries"

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


def _split_row(
    row: Sequence[Any], fields: Sequence[str], times: Sequence[str]
) -> tuple[dict[str, Any], Sequence[Any]]:
    """Return the fields and times that a row begins with, and its other columns."""
    first_time, end = len(fields), len(fields) + len(times)
    values = (*row[:first_time], *map(moment_or_none, row[first_time:end]))
    return dict(zip((*fields, *times), values, strict=True)), row[end:]


def job_from(
    row: Sequence[Any],
    *,
    results: str | None = None,
    logs: Iterable[LogEntry] = (),
    deliveries: Iterable[Delivery] = (),
) -> Job:
    fields, rest = _split_row(row[1:], JOB_FIELDS, JOB_TIMES)
    step, percent, message, parameters, webhook, access_control, attempts, error, resources = rest
    job_error = JobError.from_stored_json(error) if error else None
    past = [Attempt.from_stored(item) for item in json.loads(attempts)] if attempts else []
    if fields["worker_id"] is not None and fields["processing_started_at"] is not None:
        past.append(
            Attempt(
                attempt=fields["attempt"],
                worker_id=fields["worker_id"],
                started_at=fields["processing_started_at"],
                ended_at=fields["completed_at"],
                error=job_error,
            )
        )
    return Job(
        **fields,
        progress=Progress(step=step, percent=percent, message=message),
        parameters=json.loads(parameters),
        webhook=Webhook.from_stored_json(webhook) if webhook else None,
        access_control=access_from(access_control),
        attempts=tuple(past),
        error=job_error,
        resources=json.loads(resources) if resources else {},
        results=json.loads(results) if results else None,
        logs=tuple(logs),
        deliveries=tuple(deliveries),
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


def deliveries_of(db: apsw.Connection, owner_id: str) -> list[Delivery]:
    rows = db.execute(
        f"SELECT {DELIVERY_COLUMNS} FROM deliveries WHERE owner_id = ? ORDER BY n", (owner_id,)
    )
    return [delivery_from(row) for row in rows]


def delivery_from(row: Sequence[Any]) -> Delivery:
    fields, (tries,) = _split_row(row, DELIVERY_FIELDS, DELIVERY_TIMES)
    return Delivery(**fields, tries=json.loads(tries) if tries else ())


def batch_from(row: Sequence[Any], deliveries: Iterable[Delivery] = ()) -> Batch:
    fields, (access_control, webhook, *counts) = _split_row(row, BATCH_FIELDS, BATCH_TIMES)
    return Batch(
        **fields,
        access_control=access_from(access_control),
        webhook=Webhook.from_stored_json(webhook) if webhook else None,
        deliveries=tuple(deliveries),
        counts=dict(zip(JobStatus, counts, strict=True)),
    )


_inserted_fields = attrgetter(
    "job_id", "job_type", "job_name", "user_id", "batch_id", "priority", "timeout_s",
    "max_attempts", "archived", "retention_days", "stored_bytes", "progress.step",
    "progress.percent", "progress.message",
)  # fmt: skip


def insert_job(db: apsw.Connection, job: Job, *, position: int | None, paused: bool) -> int:
    """Return the `seq` of the new row."""
    created_at = microseconds(job.created_at)
    run_at = microseconds_or_none(job.run_at)
    readers = job.readers()
    public = readers is None
    db.execute(
        "INSERT INTO jobs (job_id, job_type, job_name, user_id, batch_id, priority, timeout_s,"
        " max_attempts, archived, retention_days, stored_bytes, step, percent, message, status,"
        " public, run_at, turn, held, created_at, updated_at, revision)"
        f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {NEXT_REVISION})",
        (
            *_inserted_fields(job),
            *(job.status.value, public, run_at, position, paused, created_at, created_at),
        ),
    )
    seq = db.last_insert_rowid()
    webhook = job.webhook.model_dump_json(by_alias=True) if job.webhook else None
    parameters, access = encode_json_text(job.parameters), access_to(job.access_control)
    db.execute(
        "INSERT INTO contents (seq, parameters, webhook, access_control, traceparent, process_id)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (seq, parameters, webhook, access, job.traceparent, job.process_id),
    )
    for reader in (readers or frozenset()) - {job.user_id}:
        db.execute("INSERT INTO readers VALUES (?, ?, ?)", (reader, created_at, seq))
    return seq


def insert_batch(db: apsw.Connection, batch: Batch) -> None:
    readers = batch.readers()
    row = row_of(batch, BATCH_FIELDS, BATCH_TIMES) | {
        "access_control": access_to(batch.access_control),
        "readers": None if readers is None else encode_json_text(sorted(readers)),
        "webhook": batch.webhook.model_dump_json(by_alias=True) if batch.webhook else None,
    }
    insert_row(db, "batches", row)


def row_of(value: object, fields: Sequence[str], times: Sequence[str]) -> dict[str, Any]:
    """The counterpart of `_split_row`."""
    row = {name: getattr(value, name) for name in fields}
    return row | {name: microseconds_or_none(getattr(value, name)) for name in times}


def insert_row(db: apsw.Connection, table: str, row: Mapping[str, Any]) -> None:
    columns, marks = ", ".join(row), ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(row.values()))


def update_row(db: apsw.Connection, table: str, row: Mapping[str, Any], **key: Any) -> None:
    """Set these columns of the row whose column named like `key` has this value."""
    [(name, value)] = key.items()
    changes = ", ".join(f"{column} = ?" for column in row)
    db.execute(f"UPDATE {table} SET {changes} WHERE {name} = ?", (*row.values(), value))


def distinct_values(
    db: apsw.Connection, following: str, bindings: Sequence[Any] = (), *, after: str = ""
) -> Iterator[str]:
    """Yield the values of an indexed column in order, with one index lookup each. `following`
    selects the value that follows the last of its bindings, or NULL."""
    value: str | None = after
    while (value := db.execute(following, (*bindings, value)).get) is not None:
        yield value


def record_change(
    db: apsw.Connection, *, job_id: str | None, batch_id: str | None, above: int = 0
) -> None:
    """Record a change that no row of `jobs` shows. `above` is the revision of a deleted job: if it
    was the highest, it must not be assigned again."""
    db.execute(
        f"INSERT INTO traces VALUES (max({NEXT_REVISION}, ? + 1), ?, ?)", (above, job_id, batch_id)
    )
