"""The feed of changes from MongoDB's change stream: all that was written, in the order it was."""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import CursorNotFound, OperationFailure, PyMongoError

from .. import Change, Changes
from .rows import STAGED
from .schema import Database, Document

#: Readers whose place in the stream stays open between two calls.
MAX_KEPT = 4

#: A position so much later than now is one of another server.
MAX_AHEAD_SECONDS = 3600

_VISIBLE = ("status", "updated_at", "archived", "cancel_requested")

#: What clients can see. A document that is staged is no job yet; one that is deleted has left a
#: trace.
TOLD: list[Document] = [
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
                    for name in (*_VISIBLE, "isActive")
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


class Follower:
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
                "pipeline": [{"$changeStream": start}, *TOLD],
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
        oldest = next(iter(self._kept)) if len(self._kept) > MAX_KEPT else None
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
