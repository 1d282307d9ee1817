"""Collections, indexes, write concerns and size limits of the MongoDB store."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import bson
import pymongo
from bson import Timestamp
from pymongo import ASCENDING as UP
from pymongo import DESCENDING as DOWN
from pymongo import IndexModel, ReadPreference, WriteConcern
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.read_concern import ReadConcern

from ...core.errors import StoreUnavailable
from ...core.job import JobStatus
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
        self.keys: Documents = configured["idempotency_keys"]
        self.contents: Documents = configured["contents"]
        self.logs: Documents = configured["logs"]
        #: Deletions, for the change feed.
        self.traces: Documents = configured["traces"]
        self.meta: Documents = configured["meta"]
        #: Throughput counters (see stats.py).
        self.activity: Documents = configured["activity"]


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


def _index(name: str, *keys: tuple[str, int], where: str | None = None) -> IndexModel:
    partial = {"partialFilterExpression": {where: {"$exists": True}}} if where else {}
    return IndexModel(list(keys), name=name, **partial)


_DUE = (("outbox.endpoint", UP), ("outbox.final", DOWN), ("outbox.due_at", UP))
OUTBOX_INDEXES = [
    _index("outbox", *_DUE, where="outbox.endpoint"),
    _index("outbox_due", ("outbox.due_at", UP), where="outbox.due_at"),
]

# Fields without a value are omitted, and partial indexes rely on that: a million finished jobs
# cost a claim nothing. Hidden documents have statuses of their own (rows.HIDDEN), so every list
# index includes the status: a list over several states merges their scans and never reads hidden
# documents.
JOB_INDEXES = [
    _index("line", ("line", UP), ("turn", UP), ("arrival", UP), where="line"),
    _index("lane", ("line", UP), ("user_id", UP), ("turn", UP), where="line"),
    _index("due", ("due_at", UP), ("arrival", UP), where="due_at"),
    _index("held", ("batch_id", UP), where="held"),
    IndexModel(
        [("worker_id", UP), ("status", UP), ("job_type", UP), ("user_id", UP)],
        name="running",
        partialFilterExpression={"status": "processing"},
    ),
    _index("by_status", ("status", UP), ("listed_at", DOWN)),
    _index("by_type", ("job_type", UP), ("status", UP), ("listed_at", DOWN)),
    _index("by_reader", ("readers", UP), ("status", UP), ("listed_at", DOWN)),
    _index("by_user", ("user_id", UP), ("status", UP), ("listed_at", DOWN), where="user_id"),
    _index("by_batch", ("batch_id", UP), ("status", UP), ("listed_at", DOWN), where="batch_id"),
    _index("by_error", ("error.code", UP), ("status", UP), ("listed_at", DOWN), where="error.code"),
    IndexModel(
        [("status", UP), ("listed_at", DOWN)],
        name="archived",
        partialFilterExpression={"archived": True},
    ),
    _index("ended", ("status", UP), ("completed_at", UP), where="completed_at"),
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
        await db.durable.traces.create_indexes([_index("by_time", ("at", UP))])
        await db.durable.activity.create_indexes([_index("by_slot", ("slot", UP))])
        await db.durable.contents.create_indexes([_index("of_job", ("job_id", UP), ("at", UP))])
        await db.durable.logs.create_indexes([_index("of_job", ("job_id", UP), ("first", UP))])


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
