"""The collections of the MongoDB store, their indexes and how safely each write is kept."""

import time
from collections import OrderedDict
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

#: Survives the loss of a minority of servers and a power cut.
DURABLE = WriteConcern("majority", j=True, wtimeout=10_000)
#: May be lost with a server: claims, leases and progress, which the fence and the rescue cover.
QUICK = WriteConcern(1)

#: Building an index over millions of jobs of an older version takes its time.
INDEX_SECONDS = 3600


class Collections:
    def __init__(
        self, database: AsyncDatabase[Document], write_concern: WriteConcern, level: str = "local"
    ) -> None:
        # Reads see what was written, at once: a majority read would lag behind claims and reports.
        kept = database.with_options(
            write_concern=write_concern,
            read_concern=ReadConcern(level),
            read_preference=ReadPreference.PRIMARY,
        )
        self.jobs: Documents = kept["jobs"]
        self.batches: Documents = kept["batches"]
        self.workers: Documents = kept["workers"]
        self.keys: Documents = kept["idempotency_keys"]
        self.contents: Documents = kept["contents"]
        self.logs: Documents = kept["logs"]
        #: What was deleted, for those who follow the changes.
        self.traces: Documents = kept["traces"]
        self.meta: Documents = kept["meta"]
        #: How many jobs ended when (see activity.py).
        self.activity: Documents = kept["activity"]


class Database(Collections):
    """Writes are quick here and durable under `durable`."""

    def __init__(self, database: AsyncDatabase[Document]) -> None:
        super().__init__(database, QUICK)
        self.name = database.name
        self.durable = Collections(database, DURABLE)
        #: To read what stays, whatever server is lost.
        self.majority_reads = Collections(database, DURABLE, "majority")
        self.arrival_numbers = ArrivalNumbers()
        self.settled_counts = SettledCounts()
        #: Parts of every update and every new document that clients can see. Only a server
        #: without change streams needs to note when that was (see poll.py).
        self.change_time: Document = {}
        self.new_change_time: Document = {}
        #: Told of the jobs that ended.
        self.on_finished: Callable[[Sequence[FinishedJob]], None] = lambda endings: None

    def record_change_times(self) -> None:
        self.change_time = {"$currentDate": {"changed_at": {"$type": "timestamp"}}}
        self.new_change_time = {"changed_at": Timestamp(0, 0)}  # the server puts in its time

    async def command(self, name: str) -> Document:
        admin = self.jobs.database.client.admin
        return await admin.command(name, codec_options=self.jobs.codec_options)


#: A batch, when it ended, and how often jobs of it were deleted.
SettledKey = tuple[str, str, int]


class SettledCounts:
    """The counters of batches that have ended, by what would change if they did."""

    MOST = 10_000

    def __init__(self) -> None:
        self._counts: OrderedDict[SettledKey, Mapping[JobStatus, int]] = OrderedDict()

    def get(self, settlement: SettledKey | None) -> Mapping[JobStatus, int] | None:
        return self._counts.get(settlement) if settlement is not None else None

    def put(self, settlement: SettledKey, counts: Mapping[JobStatus, int]) -> None:
        self._counts[settlement] = dict(counts)
        if len(self._counts) > self.MOST:
            self._counts.popitem(last=False)


class ArrivalNumbers:
    """Numbers that grow: strictly within a process, by the clock between processes."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last = max(self._last + 1, time.time_ns())
        return self._last


def _index(name: str, *keys: tuple[str, int], where: str | None = None) -> IndexModel:
    if where is None:
        return IndexModel(list(keys), name=name)
    return IndexModel(
        list(keys), name=name, partialFilterExpression={where: {"$exists": True}}
    )  # fmt: skip


OUTBOX_INDEXES = [
    _index(
        "outbox",
        ("outbox.endpoint", UP),
        ("outbox.final", DOWN),
        ("outbox.due_at", UP),
        where="outbox.endpoint",
    ),
    _index("outbox_due", ("outbox.due_at", UP), where="outbox.due_at"),
]

# A field without a value is left out of a document, and partial indexes build on that:
# a million ended jobs cost a claim nothing. A job that is not listed has a status of its own
# (rows.HIDDEN). That is why every list has the status in its index: a list over
# several states merges their walks, and what is hidden is never touched.
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
    """Make the indexes; refuse a database that is not ours or that is from the future."""
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


#: Of texts and details, in bytes.
MAX_MESSAGE_BYTES = 500
MAX_DETAILS_BYTES = 1_500
#: The same for attempts and tries that are history.
MAX_HISTORY_BYTES = 100


def stored_bytes(value: Any) -> int:
    return len(bson.encode({"": value}))


def truncate(text: str, most: int) -> str:
    """The text, or as much of it as has so many bytes."""
    data = text.encode(errors="surrogatepass")
    if len(data) <= most:
        return text
    return data[: most - 3].decode(errors="ignore") + "…"


def limit_details(details: Any, most: int) -> Any:
    """The details of an error, or how long they were."""
    if details is None or (size := stored_bytes(details)) <= most:
        return details
    return {"left_out_bytes": size}


def past_error(stored: Document | None) -> Document | None:
    """What is kept of the error of an attempt that is history."""
    if stored is None:
        return None
    kept = {"code": stored["code"], "message": truncate(stored["message"], MAX_HISTORY_BYTES)}
    details = limit_details(stored.get("details"), MAX_HISTORY_BYTES)
    return kept if details is None else kept | {"details": details}
