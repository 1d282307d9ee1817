"""The collections, indexes and size limits of the MongoDB store, and jobs, batches and logs as
documents."""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal
from uuid import uuid4

import bson
import pymongo
from bson import Timestamp
from pymongo import ASCENDING as UP
from pymongo import DESCENDING as DOWN
from pymongo import IndexModel, ReadPreference, ReturnDocument, WriteConcern
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.read_concern import ReadConcern

from ...core import json_codec
from ...core.errors import StoreUnavailable
from ...core.files import SECRET_BYTES
from ...core.job import (
    FINAL_STATUSES,
    MAX_LOG_ENTRIES,
    MAX_LOG_MESSAGE,
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
    new_delivery_id,
    utc_now,
)
from ..jobs import NumberedLog, log_for_clients
from ..stats import FinishedJob

Document = dict[str, Any]
Documents = AsyncCollection[Document]

SCHEMA_VERSION = 1

#: Survives the loss of a minority of servers and a power failure.
DURABLE = WriteConcern("majority", j=True, wtimeout=10_000)
#: May be lost with a server: claims, leases and progress, covered by fencing and rescue.
QUICK = WriteConcern(1)

#: Building an index over millions of existing jobs takes time.
INDEX_SECONDS = 3600


class Collections:
    def __init__(
        self, database: AsyncDatabase[Document], write_concern: WriteConcern, level: str = "local"
    ) -> None:
        # Local reads see writes at once: majority reads would lag behind claims and reports.
        configured = database.with_options(
            write_concern=write_concern,
            read_concern=ReadConcern(level),
            read_preference=ReadPreference.PRIMARY,
        )
        self.jobs: Documents = configured["jobs"]
        self.batches: Documents = configured["batches"]
        self.workers: Documents = configured["workers"]
        #: Workers that were lost recently.
        self.lost_workers: Documents = configured["lost_workers"]
        self.keys: Documents = configured["idempotency_keys"]
        self.callbacks: Documents = configured["callbacks"]
        self.contents: Documents = configured["contents"]
        self.logs: Documents = configured["logs"]
        #: Deletions, for the change feed.
        self.traces: Documents = configured["traces"]
        self.meta: Documents = configured["meta"]
        #: Throughput counters (see stats.py).
        self.activity: Documents = configured["activity"]
        #: What users used on each day (see stats.py).
        self.usage: Documents = configured["usage"]


#: A batch, when it completed, and how often jobs of it were deleted.
SettledKey = tuple[str, str, int]


class Database(Collections):
    """The collections with fast writes; `durable` has the same ones with majority writes."""

    def __init__(self, database: AsyncDatabase[Document]) -> None:
        super().__init__(database, QUICK)
        self.name = database.name
        self.durable = Collections(database, DURABLE)
        #: Reads only what survives the loss of a server.
        self.majority_reads = Collections(database, DURABLE, "majority")
        self._last_arrival = 0
        #: A cache of the counts of completed batches.
        self.settled_counts: dict[SettledKey, Mapping[JobStatus, int]] = {}
        #: Where the search for orphaned entries continues, by collection.
        self.swept_to: dict[str, str] = {}
        #: Part of every update and every new document that clients can see, on a server without
        #: change streams (see change_feed.PollingFeed); otherwise empty.
        self.change_time: Document = {}
        self.new_change_time: Document = {}
        #: Called with finished jobs, for statistics.
        self.on_finished: Callable[[Sequence[FinishedJob]], None] = lambda endings: None

    def next_arrival(self) -> int:
        """Increasing numbers: strictly within a process, by the clock between processes."""
        self._last_arrival = max(self._last_arrival + 1, time.time_ns())
        return self._last_arrival

    def record_change_times(self) -> None:
        self.change_time = {"$currentDate": {"changed_at": {"$type": "timestamp"}}}
        self.new_change_time = {"changed_at": Timestamp(0, 0)}  # replaced by the server's time

    async def command(self, name: str) -> Document:
        admin = self.jobs.database.client.admin
        return await admin.command(name, codec_options=self.jobs.codec_options)


def without_none(**fields: Any) -> Document:
    return {name: value for name, value in fields.items() if value is not None}


def _index(name: str, *keys: tuple[str, int], where: str | Document | None = None) -> IndexModel:
    """`where` is the field that indexed documents have, or a filter for them."""
    only = {where: {"$exists": True}} if isinstance(where, str) else where
    return IndexModel(list(keys), name=name, **without_none(partialFilterExpression=only))


_RUNNING = (("worker_id", UP), ("status", UP), ("job_type", UP), ("user_id", UP))
_DUE = (("outbox.endpoint", UP), ("outbox.final", DOWN), ("outbox.due_at", UP))
OUTBOX_INDEXES = [
    _index("outbox", *_DUE, where="outbox.endpoint"),
    _index("outbox_due", ("outbox.due_at", UP), where="outbox.due_at"),
]

# Fields without a value are omitted, and partial indexes rely on that: a million finished jobs
# cost a claim nothing. Hidden documents have statuses of their own (`HIDDEN`), so every list
# index includes the status: a list over several states merges their scans and never reads hidden
# documents.
JOB_INDEXES = [
    _index("line", ("line", UP), ("turn", UP), ("arrival", UP), where="line"),
    _index("lane", ("line", UP), ("user_id", UP), ("turn", UP), where="line"),
    _index("due", ("due_at", UP), ("arrival", UP), where="due_at"),
    _index("held", ("batch_id", UP), where="held"),
    _index("suspects", ("suspect_since", UP), ("arrival", UP), where="suspect_since"),
    _index("running", *_RUNNING, where={"status": "processing"}),
    _index("by_status", ("status", UP), ("listed_at", DOWN)),
    _index("by_type", ("job_type", UP), ("status", UP), ("listed_at", DOWN)),
    _index("by_reader", ("readers", UP), ("status", UP), ("listed_at", DOWN)),
    _index("by_user", ("user_id", UP), ("status", UP), ("listed_at", DOWN), where="user_id"),
    _index("by_batch", ("batch_id", UP), ("status", UP), ("listed_at", DOWN), where="batch_id"),
    _index("by_error", ("error.code", UP), ("status", UP), ("listed_at", DOWN), where="error.code"),
    _index("archived", ("status", UP), ("listed_at", DOWN), where={"archived": True}),
    _index("ended", ("status", UP), ("completed_at", UP), where="completed_at"),
    _index("expiring", ("status", UP), ("expires_at", UP), where="expires_at"),
    _index("stored", ("user_id", UP), ("status", UP), ("stored_bytes", UP), where="stored_bytes"),
    *OUTBOX_INDEXES,
]
BATCH_INDEXES = [
    _index("newest", ("listed_at", DOWN)),
    _index("by_reader", ("readers", UP), ("listed_at", DOWN)),
    _index("by_user", ("user_id", UP), ("listed_at", DOWN), where="user_id"),
    _index("open", ("open", UP), where="open"),
    _index("staged", ("staged", UP), where="staged"),
    *OUTBOX_INDEXES,
]


async def prepare(db: Database) -> None:
    """Create the indexes; refuse a database of another program or a newer version."""
    used = await db.jobs.find_one({}, {"_id": 1})
    schema = await db.meta.find_one({"_id": "schema"})
    if schema is None and used is not None:
        raise StoreUnavailable(
            f"The database {db.name} has a collection `jobs` of another program. "
            "Name another database in the address."
        )
    version = schema["version"] if schema else SCHEMA_VERSION
    if version > SCHEMA_VERSION:
        raise StoreUnavailable(
            f"The database {db.name} was written by a newer version of Secretary "
            f"(schema {version}; this version knows {SCHEMA_VERSION}). "
            "Install that version, or use another database."
        )
    if schema is None:
        await db.durable.meta.update_one(
            {"_id": "schema"}, {"$setOnInsert": {"version": SCHEMA_VERSION}}, upsert=True
        )
    with pymongo.timeout(INDEX_SECONDS):
        await db.durable.jobs.create_indexes(JOB_INDEXES)
        await db.durable.batches.create_indexes(BATCH_INDEXES)
        await db.durable.keys.create_indexes([_index("expiry", ("expires_at", UP))])
        await db.durable.callbacks.create_indexes(
            [_index("by_process", ("process_id", UP)), _index("expiry", ("expires_at", UP))]
        )
        await db.durable.traces.create_indexes([_index("by_time", ("at", UP))])
        await db.durable.activity.create_indexes([_index("by_slot", ("slot", UP))])
        await db.durable.usage.create_indexes([_index("by_day", ("day", UP))])
        await db.durable.contents.create_indexes([_index("of_job", ("job_id", UP), ("at", UP))])
        await db.durable.logs.create_indexes([_index("of_job", ("job_id", UP), ("first", UP))])


async def read_or_create_secret(db: Database) -> bytes:
    document: Any = await db.durable.meta.find_one_and_update(
        {"_id": "secret"},
        {"$setOnInsert": {"value": secrets.token_bytes(SECRET_BYTES)}},
        upsert=True,
        return_document=ReturnDocument.AFTER,
    )
    return bytes(document["value"])


#: Maximum size of messages and details.
MAX_MESSAGE_BYTES = 500
MAX_DETAILS_BYTES = 1_500
#: Maximum size of both in past attempts.
MAX_HISTORY_BYTES = 100


def stored_bytes(value: Any) -> int:
    return len(bson.encode({"": value}))


def truncate(text: str, max_bytes: int) -> str:
    """Shorten the text to this many bytes."""
    data = text.encode(errors="surrogatepass")
    if len(data) <= max_bytes:
        return text
    return data[: max_bytes - 3].decode(errors="ignore") + "…"


def limit_details(details: Any, max_bytes: int) -> Any:
    """Return the details of an error, or only their size if they are too large."""
    if details is None or (size := stored_bytes(details)) <= max_bytes:
        return details
    return {"left_out_bytes": size}


def past_error(stored: Document | None) -> Document | None:
    """Shorten the error of a past attempt."""
    if stored is None:
        return None
    shortened = {"code": stored["code"], "message": truncate(stored["message"], MAX_HISTORY_BYTES)}
    details = limit_details(stored.get("details"), MAX_HISTORY_BYTES)
    return shortened if details is None else shortened | {"details": details}


#: Statuses of documents that are not jobs yet, or no longer; clients never see them. They sort
#: before all others in an index: stale entries are skipped one by one, and after `processing`
#: every list would have to skip them.
STAGED = "_staged"
DELETED = "_deleted"
HIDDEN = (STAGED, DELETED)

LISTED = sorted(status.value for status in JobStatus)
FINISHED = sorted(status.value for status in FINAL_STATUSES)
UNFINISHED = [JobStatus.PENDING.value, JobStatus.PROCESSING.value]

#: The reader of public jobs.
EVERYBODY = "*"

#: A pending job is queued (`line`, `turn`), scheduled (`due_at`), paused with its batch (`held`),
#: or a suspect that waits for an idle worker (`suspect_since`). It has the fields of one of these;
#: other jobs have none.
QUEUE_FIELDS = ("line", "turn", "due_at", "held", "suspect_since")

#: Large, or only needed for single jobs.
DETAILS = ("results", "results_in", "deliveries")

MAX_NESTING = 50


def stamp(at: datetime) -> str:
    """A time as it is stored. BSON dates would lose microseconds."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def now_stamp() -> str:
    return stamp(utc_now())


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def stamp_or_none(at: datetime | None) -> str | None:
    return None if at is None else stamp(at)


def moment_or_none(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def list_position(created_at: datetime, arrival: int) -> str:
    """The sort key of a job or batch in lists; both parts have a fixed length."""
    return f"{stamp(created_at)}-{arrival:016x}"


def parse_cursor(cursor: str) -> str:
    """Return a valid cursor; raises ValueError for an invalid one."""
    if not LIST_POSITION.fullmatch(cursor):
        raise ValueError(cursor)
    return cursor


LIST_POSITION = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z-[0-9a-f]{16}")


def to_bson(value: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """Return the value itself if BSON preserves it, so that it can be queried; otherwise JSON."""
    return value if _is_bson_safe(value) else json_codec.encode_json_text(value)


def from_bson(value: Mapping[str, Any] | str) -> dict[str, Any]:
    return json.loads(value) if isinstance(value, str) else dict(value)


def _is_bson_safe(value: Any, depth: int = 0) -> bool:
    kind = type(value)
    if kind is dict:
        return depth < MAX_NESTING and all(
            _is_field_name(key) and _is_bson_safe(item, depth + 1) for key, item in value.items()
        )
    if kind is list:
        return depth < MAX_NESTING and all(_is_bson_safe(item, depth + 1) for item in value)
    if kind is int:
        return bool(-(2**31) <= value < 2**31)  # larger ones come back as another type
    if kind is str:
        return json_codec.is_valid_unicode(value)
    return kind in (float, bool, type(None))


def _is_field_name(key: Any) -> bool:
    if type(key) is not str or key == "" or key[0] == "$":
        return False
    return "." not in key and "\0" not in key and json_codec.is_valid_unicode(key)


#: Fields that documents store under the same name as they are, if they have a value.
JOB_FIELDS = (
    "job_id", "job_type", "job_name", "batch_id", "priority", "timeout_s", "max_attempts",
    "traceparent", "process_id", "retention_days", "stored_bytes",
)  # fmt: skip
#: Those that change once a worker has claimed the job.
STATE_FIELDS = (
    "attempt", "worker_id", "failures", "crashes", "losses", "strikes", "group_size",
    "cancel_requested",
)  # fmt: skip


def job_document(job: Job, *, arrival: int) -> Document:
    return without_none(
        _id=job.job_id,
        **{name: getattr(job, name) for name in JOB_FIELDS},
        **_owner(job),
        status=job.status.value,
        run_at=stamp_or_none(job.run_at),
        attempt=0,
        progress=job.progress.model_dump(),
        created_at=stamp(job.created_at),
        updated_at=stamp(job.created_at),
        arrival=arrival,
        listed_at=list_position(job.created_at, arrival),
    )


def _owner(owned: Job | Batch) -> Document:
    readers = owned.readers()
    access = owned.access_control
    webhook = owned.webhook
    return without_none(
        user_id=owned.user_id,
        archived=owned.archived,
        access_control=None if access == OWNER_ONLY else access.model_dump(mode="json"),
        readers=[EVERYBODY] if readers is None else sorted(readers - {EVERYBODY}),
        webhook=to_bson(webhook.model_dump(mode="json", by_alias=True)) if webhook else None,
    )


def _common_fields(document: Document) -> dict[str, Any]:
    """The fields that jobs and batches have in common."""
    access = document.get("access_control")
    return {
        "user_id": document.get("user_id"),
        "access_control": AccessControl.from_stored(access) if access else OWNER_ONLY,
        "archived": document["archived"],
        "webhook": webhook_from(document.get("webhook")),
        "deliveries": deliveries_from(document),
        "created_at": moment(document["created_at"]),
        "updated_at": moment(document["updated_at"]),
        "completed_at": moment_or_none(document.get("completed_at")),
    }


def expires_at(document: Document, completed_at: str) -> str | None:
    """When a job with a retention of its own expires, for the index; see `Job.expires_at`."""
    days = document.get("retention_days")
    return stamp(moment(completed_at) + timedelta(days=days)) if days else None


def webhook_from(stored: Mapping[str, Any] | str | None) -> Webhook | None:
    return Webhook.from_stored(from_bson(stored)) if stored else None


def error_to(error: JobError) -> Document:
    # Through JSON: a handler may have put anything into the details.
    details = json.loads(error.model_dump_json())["details"]
    stored = None if details is None else to_bson(details)
    message = truncate(error.message, MAX_MESSAGE_BYTES)
    return without_none(
        code=error.code, message=message, details=limit_details(stored, MAX_DETAILS_BYTES)
    )


def error_from(stored: Document | None) -> JobError | None:
    if stored is None:
        return None
    details = stored.get("details")
    return JobError(
        code=stored["code"],
        message=stored["message"],
        details=None if details is None else from_bson(details),
    )


def ended_attempt(document: Document, *, ended_at: str | None, error: Document | None) -> Document:
    """An attempt as history, once the job's own fields describe the next one."""
    return without_none(
        attempt=document["attempt"],
        worker_id=document["worker_id"],
        started_at=document["processing_started_at"],
        ended_at=ended_at,
        error=error,
    )


def attempt_to(attempt: Attempt) -> Document:
    return without_none(
        attempt=attempt.attempt,
        worker_id=attempt.worker_id,
        started_at=stamp(attempt.started_at),
        ended_at=stamp_or_none(attempt.ended_at),
        error=error_to(attempt.error) if attempt.error else None,
    )


def new_delivery(event: Literal["progress", "completed", "error"], at: str) -> Document:
    return {"delivery_id": new_delivery_id(), "event": event, "created_at": at}


def deliveries_from(document: Document) -> tuple[Delivery, ...]:
    """`told` counts all deliveries; the oldest ones may have been dropped."""
    deliveries = document.get("deliveries", ())
    first = document.get("told", len(deliveries)) - len(deliveries) + 1
    return tuple(
        Delivery.from_stored({**stored, "n": n}) for n, stored in enumerate(deliveries, first)
    )


def job_from(document: Document, *, logs: Iterable[LogEntry] = ()) -> Job:
    results, error = document.get("results"), document.get("error")
    attempts = list(document.get("attempts", ()))
    if "worker_id" in document:
        attempts.append(ended_attempt(document, ended_at=document.get("completed_at"), error=error))
    stored = {name: document[name] for name in (*JOB_FIELDS, *STATE_FIELDS) if name in document}
    return Job(
        **stored,
        **_common_fields(document),
        status=JobStatus(document["status"]),
        parameters=from_bson(document["parameters"]),
        progress=Progress.from_stored(document["progress"]),
        results=None if results is None else from_bson(results),
        error=error_from(error),
        processing_started_at=moment_or_none(document.get("processing_started_at")),
        logs=tuple(logs),
        run_at=moment_or_none(document.get("run_at")),
        resources=from_bson(document.get("resources", {})),
        attempts=tuple(
            Attempt.from_stored({**attempt, "error": error_from(attempt.get("error"))})
            for attempt in attempts
        ),
    )


def batch_document(batch: Batch, *, arrival: int) -> Document:
    return without_none(
        _id=batch.batch_id,
        batch_id=batch.batch_id,
        batch_name=batch.batch_name,
        **_owner(batch),
        isActive=batch.is_active,
        retention_days=batch.retention_days,
        created_at=stamp(batch.created_at),
        updated_at=stamp(batch.updated_at),
        listed_at=list_position(batch.created_at, arrival),
    )


def batch_from(document: Document, counts: Mapping[JobStatus, int]) -> Batch:
    return Batch(
        **_common_fields(document),
        batch_id=document["_id"],
        batch_name=document.get("batch_name"),
        is_active=document["isActive"],
        retention_days=document.get("retention_days"),
        started_at=moment_or_none(document.get("started_at")),
        counts=counts,
    )


#: Values up to this size, as BSON, stay in the job's document.
INLINE_BYTES = 2_500
#: MongoDB limits documents to 16 MB.
CHUNK_BYTES = 8_000_000
#: A thousand messages of maximum length would not fit into one document.
ENTRIES_PER_CHUNK = 250

#: Values that may overflow; the field `<name>_in` then refers to their chunks.
OVERFLOW_FIELDS = ("parameters", "results")


async def write_value(
    db: Database, job_id: str, name: str, value: Mapping[str, Any] | None
) -> Document:
    """Return the fields of a job's document for `value`, after writing a large one to chunks.

    The chunks are invisible until a fenced update stores these fields in the job.
    """
    split = partial(split_value, job_id, name, blob=uuid4().hex)
    fields, chunks = await json_codec.off_loop(split, value)
    for chunk in chunks:
        await db.durable.contents.insert_one(chunk)
    return fields


def split_value(
    job_id: str, name: str, value: Mapping[str, Any] | None, *, blob: str
) -> tuple[Document, list[Document]]:
    """Return those fields, and the chunks of a large value, stored under the id `blob`."""
    if value is None:
        return {}, []
    data = json_codec.encode_in_parts(value, json_codec.encode_strict_json)
    if len(data) <= INLINE_BYTES and stored_bytes(inline := to_bson(value)) <= INLINE_BYTES:
        return {name: inline}, []
    parts = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    chunks = [
        {"_id": f"{blob}/{n}", "job_id": job_id, "at": now_stamp(), "data": part}
        for n, part in enumerate(parts)
    ]
    return {f"{name}_in": {"blob": blob, "chunks": len(chunks)}}, chunks


async def with_overflow(db: Database, documents: Sequence[Document]) -> list[Document]:
    """Return the documents with their overflow values, without those deleted meanwhile."""
    ids = chunk_ids(documents)
    if not ids:
        return list(documents)
    cursor = db.contents.find({"_id": {"$in": ids}}, {"data": 1})
    chunks: dict[str, bytes] = {chunk["_id"]: chunk["data"] async for chunk in cursor}
    return [
        document | await asyncio.to_thread(_values, document, chunks)
        for document in documents
        if all(chunk_id in chunks for chunk_id in chunk_ids([document]))
    ]


def _values(document: Document, chunks: Mapping[str, bytes]) -> Document:
    texts = {name: b"".join(chunks[n] for n in ids) for name, ids in _overflow_ids(document)}
    return {name: json.loads(text) for name, text in texts.items()}


async def delete_overflow(db: Database, fields: Iterable[Document]) -> None:
    """Delete the overflow chunks that documents, or parts of documents, refer to."""
    if ids := chunk_ids(fields):
        await db.contents.delete_many({"_id": {"$in": ids}})


def chunk_ids(documents: Iterable[Document]) -> list[str]:
    return [n for document in documents for _, ids in _overflow_ids(document) for n in ids]


def _overflow_ids(document: Document) -> Iterator[tuple[str, list[str]]]:
    for name in OVERFLOW_FIELDS:
        if (reference := document.get(f"{name}_in")) is not None:
            yield name, [f"{reference['blob']}/{n}" for n in range(reference["chunks"])]


async def add_logs(db: Database, job_id: str, logs: Sequence[LogEntry], *, last: int) -> None:
    """Append entries to a job's log; `last` is the number of the last of them."""
    await db.logs.insert_many(log_chunks(job_id, logs, first=last - len(logs) + 1))
    if last > MAX_LOG_ENTRIES:
        await db.logs.delete_many({"job_id": job_id, "last": {"$lte": last - MAX_LOG_ENTRIES}})


def log_chunks(job_id: str, logs: Sequence[LogEntry], *, first: int) -> list[Document]:
    """The documents of entries that are numbered from `first` on."""
    entries = [
        {"timestamp": stamp(one.timestamp), "level": one.level}
        | {"message": one.message[:MAX_LOG_MESSAGE]}
        for one in logs
    ]
    return [
        {"job_id": job_id, "first": first + start, "last": first + start + len(part) - 1}
        | {"entries": part}
        for start in range(0, len(entries), ENTRIES_PER_CHUNK)
        if (part := entries[start : start + ENTRIES_PER_CHUNK])
    ]


async def logs_of(db: Database, job_ids: Sequence[str]) -> Mapping[str, list[LogEntry]]:
    numbered = await numbered_logs(db, job_ids)
    return {job_id: log_for_clients(numbered[job_id]) for job_id in job_ids}


async def numbered_logs(db: Database, job_ids: Sequence[str]) -> Mapping[str, NumberedLog]:
    logs: dict[str, list[tuple[int, Document]]] = {job_id: [] for job_id in job_ids}
    cursor = db.logs.find({"job_id": {"$in": list(job_ids)}}).sort([("job_id", 1), ("first", 1)])
    async for chunk in cursor:
        logs[chunk["job_id"]] += enumerate(chunk["entries"], chunk["first"])
    return {
        job_id: [
            (n, LogEntry.from_stored(entry | {"timestamp": moment(entry["timestamp"])}))
            for n, entry in entries[-MAX_LOG_ENTRIES:]
        ]
        for job_id, entries in logs.items()
    }
