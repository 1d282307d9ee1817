"""The feed of changes from MongoDB's change stream: all that was written, in the order it was."""

import asyncio
import logging
import random
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from bson import Timestamp
from pymongo import IndexModel
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import CursorNotFound, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from ..jobs import Change, Changes
from ..notifier import Notifier
from .rows import STAGED
from .schema import Database, Document, Documents

#: Readers whose place in the stream stays open between two calls.
MAX_OPEN_READERS = 4

#: A position so much later than now is one of another server.
MAX_AHEAD_SECONDS = 3600

_CLIENT_FIELDS = ("status", "updated_at", "archived", "cancel_requested")

#: What clients can see. A document that is staged is no job yet; one that is deleted has left a
#: trace.
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
                    for name in (*_CLIENT_FIELDS, "isActive")
                ),
            ],
        }
    },
    {
        "$project": {
            "ns.coll": 1,
            "documentKey": 1,
            "operationType": 1,
            "fullDocument.job_id": 1,
            "fullDocument.batch_id": 1,
        }
    },
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
    """Reads the change stream by hand and not with the driver's own class: that one cannot tell
    what has already arrived from what would have to be waited for."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._database = db.jobs.database
        self._kept: dict[str, _Cursor] = {}

    async def changes(self, since: str | None, *, limit: int, seconds: float) -> Changes:
        if since is None:
            return await self._now()
        found = re.fullmatch("s:([0-9A-F]+)", since)
        if found is None:
            return await self._now(gap=True)
        try:
            return await self._read_on(since, found[1], limit, seconds)
        except OperationFailure:
            # Either the server has forgotten what happened then, or nothing works at all.
            return await self._now(gap=True)

    async def close(self) -> None:
        for cursor in self._kept.values():
            await self._close(cursor)

    async def _now(self, *, gap: bool = False) -> Changes:
        cursor = await self._open(None)
        await self._keep(cursor)
        return Changes([], cursor.position, gap=gap)

    async def _read_on(self, since: str, token: str, limit: int, seconds: float) -> Changes:
        cursor = self._kept.pop(since, None)
        try:
            cursor = cursor or await self._open(token)
            events = await self._more(cursor, limit, seconds)
        except CursorNotFound:  # it was not used for long, or the server is another one
            cursor = await self._open(token)
            events = await self._more(cursor, limit, seconds)
        # Who does not wait and has all is done.
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
        if _seconds(reached) > answer["operationTime"].time + MAX_AHEAD_SECONDS:
            await self._close(cursor)
            raise OperationFailure("The position is in the future")
        return cursor

    async def _more(self, cursor: _Cursor, limit: int, seconds: float) -> list[Document]:
        answer = await self._database.command(
            {
                "getMore": cursor.cursor_id,
                "collection": cursor.collection,
                "batchSize": limit,
                # How long to wait for something to tell; 0 would mean a second.
                "maxTimeMS": max(1, round(seconds * 1000)),
            },
            session=cursor.session,
        )
        more = answer["cursor"]
        cursor.token = more["postBatchResumeToken"]["_data"]
        events: list[Document] = more["nextBatch"]
        return events

    async def _keep(self, cursor: _Cursor) -> None:
        replaced = self._kept.pop(cursor.position, None)
        self._kept[cursor.position] = cursor
        oldest = next(iter(self._kept)) if len(self._kept) > MAX_OPEN_READERS else None
        for unused in (replaced, self._kept.pop(oldest) if oldest else None):
            if unused is not None:
                await self._close(unused)

    async def _close(self, cursor: _Cursor) -> None:
        kill = {"killCursors": cursor.collection, "cursors": [cursor.cursor_id]}
        with suppress(PyMongoError):
            await self._database.command(kill, session=cursor.session)
        await cursor.session.end_session()

    async def _changes(self, events: Iterable[Document]) -> list[Change]:
        """Each job once. An update tells only what it changed, so batches are looked up."""
        found: dict[tuple[str, Any], Document] = {}
        for event in events:
            key = (event["ns"]["coll"], event["documentKey"]["_id"])
            found[key] = event.get("fullDocument") or found.get(key, {})
        unknown = [
            key for (name, key), document in found.items() if name == "jobs" and not document
        ]
        batch_of: dict[str, str | None] = {}
        if unknown:
            jobs = self._db.jobs.find({"_id": {"$in": unknown}}, {"batch_id": 1}, hint="_id_")
            batch_of = {job["_id"]: job.get("batch_id") async for job in jobs}
        return [
            Change(None, key)
            if name == "batches"
            else Change(
                document.get("job_id", key if name == "jobs" else None),
                document.get("batch_id", batch_of.get(key)),
            )
            for (name, key), document in found.items()
        ]


def _seconds(token: str) -> int:
    """The time of a resume token: it starts with a type and a timestamp, so that tokens sort."""
    return int(token[2:10], 16)


#: No write takes so long from getting its time to being seen.
OVERLAP_SECONDS = 5
RECHECK_SECONDS = 1.0
#: Readers of which is remembered what they were told.

CHANGED = IndexModel(
    [("changed_at", 1)],
    name="changed",
    partialFilterExpression={"changed_at": {"$exists": True}},
)


@dataclass(slots=True)
class _Reader:
    at: Timestamp
    #: What was told of the last seconds: when each document had changed.
    told: dict[tuple[str, Any], Timestamp] = field(default_factory=dict)
    looked_back_at: float = 0.0


class PollingFeed:
    def __init__(self, db: Database, own_writes: Notifier) -> None:
        self._db = db
        self._own_writes = own_writes
        self._kept: dict[str, _Reader] = {}
        self._indexed = False

    async def changes(self, since: str | None, *, limit: int, seconds: float) -> Changes:
        await self._make_indexes()
        found = re.fullmatch(r"t:(\d{1,10})\.(\d{1,10})\.\w+", since or "", re.ASCII)
        at = Timestamp(int(found[1]), int(found[2])) if found and _is_timestamp(found) else None
        reader = self._kept.pop(since or "", None)
        if reader is None:
            if at is None or at > await self._newest():  # unknown, or of another database
                return await self._now(gap=since is not None)
            reader = _Reader(at)
        written = self._own_writes.generation
        changes = await self._read(reader, limit)
        if not changes and seconds > 0:
            await self._own_writes.wait(written, seconds=seconds)
            changes = await self._read(reader, limit)
        return Changes(changes, self._keep(reader))

    async def close(self) -> None:
        self._kept.clear()

    async def _make_indexes(self) -> None:
        if not self._indexed:
            for collection in self._collections():
                await collection.create_indexes([CHANGED])
            self._indexed = True

    def _collections(self) -> Iterator[Documents]:
        yield from (self._db.jobs, self._db.batches, self._db.traces)

    async def _newest(self) -> Timestamp:
        newest = Timestamp(0, 0)
        for collection in self._collections():
            last = await collection.find_one(
                {"changed_at": {"$gt": Timestamp(0, 0)}},
                {"_id": 0, "changed_at": 1},
                sort=[("changed_at", -1)],
                hint="changed",
            )
            newest = max(newest, last["changed_at"] if last else newest)
        return newest

    async def _now(self, *, gap: bool) -> Changes:
        reader = _Reader(await self._newest())
        await self._read(reader, None)
        return Changes([], self._keep(reader), gap=gap)

    def _keep(self, reader: _Reader) -> str:
        # Two readers at the same time were not told the same: each has a position of its own.
        position = f"t:{reader.at.time}.{reader.at.inc}.{uuid4().hex[:12]}"
        self._kept[position] = reader
        if len(self._kept) > MAX_OPEN_READERS:
            del self._kept[next(iter(self._kept))]
        return position

    async def _read(self, reader: _Reader, limit: int | None) -> list[Change]:
        after = reader.at
        if time.monotonic() - reader.looked_back_at > RECHECK_SECONDS:
            reader.looked_back_at = time.monotonic()
            after = _overlap_start(reader.at)
        fresh = await self._changed(reader, after, limit)
        for key, document in fresh:
            reader.told[key] = document["changed_at"]
            reader.at = max(reader.at, document["changed_at"])
        oldest = _overlap_start(reader.at)
        reader.told = {key: at for key, at in reader.told.items() if at >= oldest}
        return [_change(name, document) for (name, _), document in fresh]

    async def _changed(
        self, reader: _Reader, after: Timestamp, limit: int | None
    ) -> list[tuple[tuple[str, Any], Document]]:
        """What changed after a time and was not told to this reader, in order."""
        found: list[tuple[tuple[str, Any], Document]] = []
        for collection in self._collections():
            most = 0 if limit is None else limit + len(reader.told)
            documents = collection.find(
                {"changed_at": {"$gt": after}},
                {"changed_at": 1, "job_id": 1, "batch_id": 1, "status": 1},
                sort=[("changed_at", 1)],
                limit=most,
                hint="changed",
            )
            async for document in documents:
                key = (collection.name, document["_id"])
                if reader.told.get(key) != document["changed_at"]:
                    found.append((key, document))
        found.sort(key=lambda item: item[1]["changed_at"])
        return found[:limit]


def _change(name: str, document: Document) -> Change:
    return Change(
        None if name == "batches" else document.get("job_id"),
        document.get("batch_id"),
    )


def _overlap_start(at: Timestamp) -> Timestamp:
    return Timestamp(max(0, at.time - OVERLAP_SECONDS), 0)


def _is_timestamp(found: "re.Match[str]") -> bool:
    return all(int(part) < 2**32 for part in found.groups())


logger = logging.getLogger(__name__)

#: How long who waits may sleep while nobody tells of other processes' news.
POLL_SECONDS = 0.5
REOPEN_SECONDS = 2.0

NO_REPLICA_SET = 40573
#: Out of time, no majority yet, a primary that is just going.
TEMPORARY_ERRORS = (50, 134, 189, 262, 11602)

#: Changes that give a worker something to claim or to cancel. Only their ids are sent.
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
    """A change stream brings the news of other processes; it is a hint only: without one (a
    standalone server, a stream that broke) who waits polls."""

    def __init__(self, db: Database) -> None:
        super().__init__()
        self._jobs = db.jobs.with_options(read_concern=ReadConcern("majority"))
        self._stream: AsyncChangeStream[Document] | None = None
        self._task: asyncio.Task[None] | None = None
        #: The server gives no change streams, to nobody and never.
        self.refused = False

    async def open(self) -> None:
        try:
            self._stream = await self._jobs.watch(CLAIMABLE_CHANGES)
        except OperationFailure as error:
            self.refused = error.code not in TEMPORARY_ERRORS
            if error.code == NO_REPLICA_SET:
                logger.info("MongoDB is no replica set: new jobs are found by polling")
            else:
                logger.warning("MongoDB gives no change stream, new jobs are polled: %s", error)
        else:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        while self._task is not None and not self._task.done():
            self._task.cancel()  # again and again: the driver may swallow it (see calls.py)
            await asyncio.wait({self._task}, timeout=0.1)

    async def wait(self, since: int, *, seconds: float) -> int:
        longest = seconds if self._stream is not None else min(seconds, POLL_SECONDS)
        return await super().wait(since, seconds=longest)

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except PyMongoError as error:
                logger.warning("The change stream on jobs broke, will open it again: %s", error)
            finally:
                self._stream = None
            await asyncio.sleep(random.uniform(0.5, 1) * REOPEN_SECONDS)

    async def _listen(self) -> None:
        stream = self._stream or await self._jobs.watch(CLAIMABLE_CHANGES)
        async with stream:
            self._stream = stream
            self.notify()  # of what happened before
            async for _ in stream:
                self.notify()
