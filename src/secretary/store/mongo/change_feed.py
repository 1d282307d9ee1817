"""The change feed (a change stream, or polling without one), and wake-ups for waiting workers."""

import asyncio
import logging
import random
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from bson import Timestamp
from pymongo import IndexModel
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import CursorNotFound, OperationFailure, PyMongoError

from ..jobs import Change, Changes, Notifier
from .schema import STAGED, Database, Document

#: How many readers keep their cursor between two calls.
MAX_OPEN_READERS = 4

#: A position that is further ahead of the server's clock belongs to another server.
MAX_AHEAD_SECONDS = 3600

_CLIENT_FIELDS = ("status", "updated_at", "archived", "cancel_requested", "isActive")
_EVENT_FIELDS = (
    "ns.coll", "documentKey", "operationType", "fullDocument.job_id", "fullDocument.batch_id",
)  # fmt: skip

#: What the id of a document is, by collection.
_ID_FIELDS = {"jobs": "job_id", "batches": "batch_id", "traces": "_id"}

#: Changes that clients can see. A staged document is not a job yet; deletions are recorded in
#: `traces`.
CLIENT_CHANGES: list[Document] = [
    {
        "$match": {
            "ns.coll": {"$in": ["jobs", "batches", "traces"]},
            "$or": [
                {
                    "operationType": {"$in": ["insert", "replace"]},
                    "fullDocument.status": {"$ne": STAGED},
                },
                *(
                    {f"updateDescription.updatedFields.{name}": {"$exists": True}}
                    for name in _CLIENT_FIELDS
                ),
            ],
        }
    },
    {"$project": dict.fromkeys(_EVENT_FIELDS, 1)},
]


@dataclass(slots=True)
class _Cursor:
    session: AsyncClientSession
    cursor_id: int
    collection: str
    token: str

    @property
    def position(self) -> str:
        return f"s:{self.token}"


class ChangeStream:
    """Reads the change stream with plain commands: the driver's class cannot tell events that have
    arrived from those it would have to wait for."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._database = db.jobs.database
        self._cursors: dict[str, _Cursor] = {}

    async def changes(self, since: str | None, *, limit: int, seconds: float) -> Changes:
        if match := re.fullmatch("s:([0-9A-F]+)", since or ""):
            # Fails if the position is no longer in the oplog, but also if the server is down.
            with suppress(OperationFailure):
                return await self._read_on(match[0], match[1], limit, seconds)
        cursor = await self._open(None)
        await self._keep(cursor)
        return Changes([], cursor.position, gap=since is not None)

    async def close(self) -> None:
        for cursor in self._cursors.values():
            await self._close(cursor)

    async def _read_on(self, since: str, token: str, limit: int, seconds: float) -> Changes:
        cursor = self._cursors.pop(since, None)
        try:
            cursor = cursor or await self._open(token)
            events = await self._more(cursor, limit, seconds)
        except CursorNotFound:  # it timed out, or there is a new primary
            cursor = await self._open(token)
            events = await self._more(cursor, limit, seconds)
        # A reader that neither waits nor got events will not continue.
        await (self._keep(cursor) if events or seconds > 0 else self._close(cursor))
        return Changes(await self._changes(events), cursor.position)

    async def _open(self, token: str | None) -> _Cursor:
        session = self._database.client.start_session()
        start: Document = {"resumeAfter": {"_data": token}} if token else {}
        answer = await self._database.command(
            {
                "aggregate": 1,
                "pipeline": [{"$changeStream": start}, *CLIENT_CHANGES],
                "cursor": {"batchSize": 0},
                "readConcern": {"level": "majority"},
            },
            session=session,
        )
        opened = answer["cursor"]
        collection = opened["ns"].partition(".")[2]
        reached = opened["postBatchResumeToken"]["_data"]
        cursor = _Cursor(session, opened["id"], collection, reached)
        # A resume token starts with a type and a timestamp.
        if int(reached[2:10], 16) > answer["operationTime"].time + MAX_AHEAD_SECONDS:
            await self._close(cursor)
            raise OperationFailure("The position is in the future")
        return cursor

    async def _more(self, cursor: _Cursor, limit: int, seconds: float) -> list[Document]:
        answer = await self._database.command(
            {
                "getMore": cursor.cursor_id,
                "collection": cursor.collection,
                "batchSize": limit,
                # How long to wait for events; 0 would mean one second.
                "maxTimeMS": max(1, round(seconds * 1000)),
            },
            session=cursor.session,
        )
        more = answer["cursor"]
        cursor.token = more["postBatchResumeToken"]["_data"]
        events: list[Document] = more["nextBatch"]
        return events

    async def _keep(self, cursor: _Cursor) -> None:
        unused = [self._cursors.pop(cursor.position, None)]
        self._cursors[cursor.position] = cursor
        if len(self._cursors) > MAX_OPEN_READERS:
            unused.append(self._cursors.pop(next(iter(self._cursors))))
        for one in unused:
            if one is not None:
                await self._close(one)

    async def _close(self, cursor: _Cursor) -> None:
        kill = {"killCursors": cursor.collection, "cursors": [cursor.cursor_id]}
        with suppress(PyMongoError):
            await self._database.command(kill, session=cursor.session)
        await cursor.session.end_session()

    async def _changes(self, events: Iterable[Document]) -> list[Change]:
        """Return each job once. Update events lack the batch, so it is looked up."""
        documents: dict[tuple[str, Any], Document] = {}
        for event in events:
            key = (event["ns"]["coll"], event["documentKey"]["_id"])
            documents[key] = event.get("fullDocument") or documents.get(key, {})
        unknown = [
            key for (name, key), document in documents.items() if name == "jobs" and not document
        ]
        if unknown:
            jobs = self._db.jobs.find({"_id": {"$in": unknown}}, {"batch_id": 1}, hint="_id_")
            documents |= {("jobs", job["_id"]): job async for job in jobs}
        named = [{_ID_FIELDS[name]: key} | document for (name, key), document in documents.items()]
        return [Change(document.get("job_id"), document.get("batch_id")) for document in named]


#: No write takes longer from getting its timestamp to becoming visible.
OVERLAP_SECONDS = 5
RECHECK_SECONDS = 1.0

CHANGED = IndexModel(
    [("changed_at", 1)], name="changed", partialFilterExpression={"changed_at": {"$exists": True}}
)


@dataclass(slots=True)
class _Reader:
    at: Timestamp
    #: The change times of recently delivered documents.
    delivered: dict[tuple[str, Any], Timestamp] = field(default_factory=dict)
    rechecked_at: float = 0.0


class PollingFeed:
    """Finds changes by their time, for a server without change streams."""

    def __init__(self, db: Database, own_writes: Notifier) -> None:
        self._collections = (db.jobs, db.batches, db.traces)
        self._own_writes = own_writes
        self._readers: dict[str, _Reader] = {}
        self._indexed = False

    async def changes(self, since: str | None, *, limit: int, seconds: float) -> Changes:
        if not self._indexed:
            for collection in self._collections:
                await collection.create_indexes([CHANGED])
            self._indexed = True
        match = re.fullmatch(r"t:(\d{1,10})\.(\d{1,10})\.\w+", since or "", re.ASCII)
        parts = [int(part) for part in match.groups()] if match else []
        at = Timestamp(*parts) if parts and max(parts) < 2**32 else None
        reader = self._readers.pop(since or "", None)
        if reader is None:
            newest = await self._newest()
            if at is None or at > newest:  # invalid, or of another database
                reader = _Reader(newest)
                await self._read(reader, None)
                return Changes([], self._keep(reader), gap=since is not None)
            reader = _Reader(at)
        written = self._own_writes.generation
        changes = await self._read(reader, limit)
        if not changes and seconds > 0:
            await self._own_writes.wait(written, seconds=seconds)
            changes = await self._read(reader, limit)
        return Changes(changes, self._keep(reader))

    async def close(self) -> None:
        self._readers.clear()

    async def _newest(self) -> Timestamp:
        newest = Timestamp(0, 0)
        for collection in self._collections:
            last = await collection.find_one(
                {"changed_at": {"$gt": Timestamp(0, 0)}},
                {"_id": 0, "changed_at": 1},
                sort=[("changed_at", -1)],
                hint="changed",
            )
            newest = max(newest, last["changed_at"] if last else newest)
        return newest

    def _keep(self, reader: _Reader) -> str:
        # Readers at the same time have not seen the same changes: each gets its own position.
        position = f"t:{reader.at.time}.{reader.at.inc}.{uuid4().hex[:12]}"
        self._readers[position] = reader
        if len(self._readers) > MAX_OPEN_READERS:
            del self._readers[next(iter(self._readers))]
        return position

    async def _read(self, reader: _Reader, limit: int | None) -> list[Change]:
        """Return what changed and was not delivered to this reader yet, in order."""
        after = reader.at
        if time.monotonic() - reader.rechecked_at > RECHECK_SECONDS:
            reader.rechecked_at = time.monotonic()
            after = _overlap_start(reader.at)
        changed: list[tuple[tuple[str, Any], Document]] = []
        for collection in self._collections:
            documents = collection.find(
                {"changed_at": {"$gt": after}},
                {"changed_at": 1, "job_id": 1, "batch_id": 1, "status": 1},
                sort=[("changed_at", 1)],
                limit=0 if limit is None else limit + len(reader.delivered),
                hint="changed",
            )
            async for document in documents:
                key = (collection.name, document["_id"])
                if reader.delivered.get(key) != document["changed_at"]:
                    changed.append((key, document))
        changed.sort(key=lambda item: item[1]["changed_at"])
        changes: list[Change] = []
        for key, document in changed[:limit]:
            reader.delivered[key] = document["changed_at"]
            reader.at = max(reader.at, document["changed_at"])
            changes.append(Change(document.get("job_id"), document.get("batch_id")))
        oldest = _overlap_start(reader.at)
        reader.delivered = {key: at for key, at in reader.delivered.items() if at >= oldest}
        return changes


def _overlap_start(at: Timestamp) -> Timestamp:
    return Timestamp(max(0, at.time - OVERLAP_SECONDS), 0)


logger = logging.getLogger(__name__)

#: How long workers wait between polls without a change stream.
POLL_SECONDS = 0.5
REOPEN_SECONDS = 2.0

NO_REPLICA_SET = 40573
#: Timeout, no majority yet, primary stepping down.
TEMPORARY_ERRORS = (50, 134, 189, 262, 11602)

#: Changes that give a worker something to claim or cancel. Only their ids are sent.
CLAIMABLE_CHANGES: list[Document] = [
    {
        "$match": {
            "$or": [
                {"fullDocument.line": {"$exists": True}},
                {"updateDescription.updatedFields.line": {"$exists": True}},
                {"updateDescription.updatedFields.due_at": {"$exists": True}},
                {"updateDescription.updatedFields.cancel_requested": True},
            ]
        }
    },
    {"$project": {"_id": 1}},
]


class WakeUp(Notifier):
    """Wakes waiting workers when another process changes jobs. The change stream is only a hint:
    without one (standalone server, broken stream) they poll."""

    def __init__(self, db: Database) -> None:
        super().__init__()
        self._jobs = db.majority_reads.jobs
        self._stream: AsyncChangeStream[Document] | None = None
        self._task: asyncio.Task[None] | None = None
        #: The server does not support change streams.
        self.refused = False

    async def open(self) -> None:
        try:
            self._stream = await self._jobs.watch(CLAIMABLE_CHANGES)
        except OperationFailure as error:
            self.refused = error.code not in TEMPORARY_ERRORS
            if error.code == NO_REPLICA_SET:
                logger.info("MongoDB is not a replica set: polling for new jobs")
            else:
                logger.warning("Change streams are not available; polling for new jobs: %s", error)
        else:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        while self._task is not None and not self._task.done():
            self._task.cancel()  # repeatedly: the driver may swallow it (see client.cancellable)
            await asyncio.wait({self._task}, timeout=0.1)

    async def wait(self, since: int, *, seconds: float) -> int:
        longest = seconds if self._stream is not None else min(seconds, POLL_SECONDS)
        return await super().wait(since, seconds=longest)

    async def _run(self) -> None:
        while True:
            try:
                stream = self._stream or await self._jobs.watch(CLAIMABLE_CHANGES)
                async with stream:
                    self._stream = stream
                    self.notify()  # of changes before the stream was open
                    async for _ in stream:
                        self.notify()
            except PyMongoError as error:
                logger.warning("The change stream on jobs broke; reopening it: %s", error)
            finally:
                self._stream = None
            await asyncio.sleep(random.uniform(0.5, 1) * REOPEN_SECONDS)
