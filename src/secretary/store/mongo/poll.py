"""The feed of changes for a server without change streams: by the time of each document's change.

The time is the server's own, so clocks of other machines do not matter. But documents do not
appear in its order when several are written at once. So whoever reads looks again, every second,
at what lies close behind, and remembers what was told of it.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from bson import Timestamp
from pymongo import IndexModel

from .. import Change, Changes
from ..news import News
from .schema import Database, Document, Documents

#: No write takes so long from getting its time to being seen.
OVERLAP_SECONDS = 5
LOOK_BACK_SECONDS = 1.0
#: Readers of which is remembered what they were told.
MAX_KEPT = 4

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


class Poller:
    def __init__(self, db: Database, own_writes: News) -> None:
        self._db = db
        self._own_writes = own_writes
        self._kept: dict[str, _Reader] = {}
        self._indexed = False

    async def changes(self, since: str | None, *, limit: int, seconds: float) -> Changes:
        await self._make_indexes()
        found = re.fullmatch(r"t:(\d{1,10})\.(\d{1,10})\.\w+", since or "", re.ASCII)
        at = Timestamp(int(found[1]), int(found[2])) if found and _fits(found) else None
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
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return position

    async def _read(self, reader: _Reader, limit: int | None) -> list[Change]:
        after = reader.at
        if time.monotonic() - reader.looked_back_at > LOOK_BACK_SECONDS:
            reader.looked_back_at = time.monotonic()
            after = _before(reader.at)
        fresh = await self._changed(reader, after, limit)
        for key, document in fresh:
            reader.told[key] = document["changed_at"]
            reader.at = max(reader.at, document["changed_at"])
        oldest = _before(reader.at)
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


def _before(at: Timestamp) -> Timestamp:
    return Timestamp(max(0, at.time - OVERLAP_SECONDS), 0)


def _fits(found: "re.Match[str]") -> bool:
    return all(int(part) < 2**32 for part in found.groups())
