"""Files in the MongoDB itself, in the form of GridFS: nothing more to run.

The documents are written and read here rather than by the driver's GridFS, which takes several
round trips for each file: a document has hundreds of small ones.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from bson import ObjectId
from pymongo import ASCENDING as UP
from pymongo import IndexModel, ReadPreference, UpdateOne
from pymongo.read_concern import ReadConcern

from ..core.errors import NotFound
from ..store.mongo import MongoStore
from ..store.mongo.client import translated
from ..store.mongo.schema import DURABLE, Document, Documents
from .blob_store import Arrival, BlobInfo, is_plain

BUCKET = "files"
CHUNK = 255 * 1024
#: Small files are written and read together, up to so many and so many bytes.
GROUP, GROUP_BYTES = 200, 8 * 1024 * 1024
#: Chunks of a large file that are written at a time.
CHUNKS = 16
#: Names of files that are not there: not yet, and not any more. Neither is below any prefix.
UNFINISHED, REMOVED = ".unfinished", ".removed"
#: No file takes as long as this to be written.
WRITING = timedelta(days=1)


class GridFsBlobStore:
    kind = "gridfs"

    def __init__(self, store: MongoStore) -> None:
        """Share the connection of an open store."""
        database = store.database.with_options(
            write_concern=DURABLE,
            read_concern=ReadConcern("majority"),
            read_preference=ReadPreference.PRIMARY,
        )
        self._files: Documents = database[f"{BUCKET}.files"]
        self._chunks: Documents = database[f"{BUCKET}.chunks"]
        self._address = store.address
        self._has_indexes = False

    async def put(self, files: Sequence[tuple[str, Path]]) -> None:
        with translated(self._address):
            await self._create_indexes()
            for group in _groups((key, path, path.stat().st_size) for key, path in files):
                await self._put_group(group)

    async def _create_indexes(self) -> None:
        if not self._has_indexes:
            await self._files.create_indexes([IndexModel([("filename", UP), ("_id", UP)])])
            await self._chunks.create_indexes(
                [IndexModel([("files_id", UP), ("n", UP)], unique=True)]
            )
            self._has_indexes = True

    async def _put_group(self, group: list[tuple[str, Path, int]]) -> None:
        heads = [_head(path) for _, path, _ in group]
        await self._files.insert_many(heads, ordered=False)
        ids = [head["_id"] for head in heads]
        if group[0][2] > CHUNK:
            sizes = [await self._put_chunks(ids[0], group[0][1])]
        else:
            sizes = await self._put_small(ids, [path for _, path, _ in group])
        now = datetime.now(UTC)
        changes = [{"filename": key, "uploadDate": now} for key, _, _ in group]
        told = [
            UpdateOne({"_id": file_id}, {"$set": {**change, "length": size}})
            for file_id, change, size in zip(ids, changes, sizes, strict=True)
        ]
        await self._files.bulk_write(told, ordered=False)
        await self._retire({key: one for (key, _, _), one in zip(group, ids, strict=True)})

    async def _put_small(self, ids: list[ObjectId], paths: list[Path]) -> list[int]:
        chunks = await asyncio.to_thread(_read_small, ids, paths)
        await self._chunks.insert_many(chunks, ordered=False)
        return [len(chunk["data"]) for chunk in chunks]

    async def _put_chunks(self, file_id: ObjectId, path: Path) -> int:
        number = size = 0
        with path.open("rb") as file:
            while data := await asyncio.to_thread(_read_chunks, file):
                await self._chunks.insert_many(
                    [
                        {"files_id": file_id, "n": number + i, "data": chunk}
                        for i, chunk in enumerate(data)
                    ],
                    ordered=False,
                )
                number += len(data)
                size += sum(map(len, data))
        return size

    async def _retire(self, new: dict[str, ObjectId]) -> None:
        """Only what is older, so that of two who write at once one remains."""
        found = self._files.find({"filename": {"$in": list(new)}}, {"filename": 1})
        await self._drop([one["_id"] async for one in found if one["_id"] < new[one["filename"]]])

    async def find(self, key: str) -> BlobInfo | None:
        with translated(self._address):
            found = await self._files.find_one({"filename": key}, sort=[("_id", -1)])
            return _kept(found) if found else None

    async def below(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """Where two have written at once, the newer one counts."""
        last: Document | None = None
        with translated(self._address):
            query = self._files.find(_below(prefix)).sort([("filename", UP), ("_id", UP)])
            async for found in query:
                if last is not None and last["filename"] != found["filename"]:
                    yield _kept(last)
                last = found if is_plain(found["filename"]) else None
        if last is not None:
            yield _kept(last)

    async def read(
        self, kept: BlobInfo, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        end = kept.size if end is None else min(end, kept.size)
        if start >= end:
            return
        numbers = {"$gte": start // CHUNK, "$lte": (end - 1) // CHUNK}
        at = start - start % CHUNK
        with translated(self._address):
            query = {"files_id": ObjectId(kept.tag), "n": numbers}
            async for chunk in self._chunks.find(query).sort("n", UP):
                data = chunk["data"]
                yield data[max(start - at, 0) : end - at]
                at += len(data)
        if at < end:
            raise NotFound("There is no such file any more")

    async def fetch(self, wanted: Sequence[BlobInfo], place: Callable[[str], Path]) -> None:
        with translated(self._address):
            for group in _groups((kept, None, kept.size) for kept in wanted):
                await self._fetch_group([kept for kept, _, _ in group], place)

    async def _fetch_group(self, group: list[BlobInfo], place: Callable[[str], Path]) -> None:
        known = {ObjectId(kept.tag): kept for kept in group}
        arrivals: dict[ObjectId, Arrival] = {}
        query = {"files_id": {"$in": list(known)}}
        try:
            async for chunk in self._chunks.find(query).sort([("files_id", UP), ("n", UP)]):
                kept = known[chunk["files_id"]]
                if chunk["n"] == 0:
                    arrival = await asyncio.to_thread(Arrival, place(kept.key), kept.made_at)
                    arrivals[chunk["files_id"]] = arrival
                arrival = arrivals[chunk["files_id"]]
                await asyncio.to_thread(arrival.write, chunk["data"])
            for file_id, arrival in arrivals.items():
                if arrival.size == known[file_id].size:  # else it was removed while we read
                    await asyncio.to_thread(arrival.finish)
        finally:
            for arrival in arrivals.values():
                arrival.give_up()

    async def remove(self, prefix: str) -> None:
        with translated(self._address):
            while True:
                found = self._files.find(_below(prefix), {"_id": 1}).limit(GROUP)
                ids = [one["_id"] async for one in found]
                if not ids:
                    return
                await self._drop(ids)

    async def tidy(self) -> None:
        with translated(self._address):
            lost = {"filename": UNFINISHED, "uploadDate": {"$lt": datetime.now(UTC) - WRITING}}
            found = self._files.find({"$or": [lost, {"filename": REMOVED}]}, {"_id": 1})
            await self._drop([one["_id"] async for one in found])

    async def _drop(self, ids: list[ObjectId]) -> None:
        """The document goes last: as long as it is there, `tidy` finds what is left of a file."""
        if not ids:
            return
        query = {"_id": {"$in": ids}}
        await self._files.update_many(query, {"$set": {"filename": REMOVED}})
        await self._chunks.delete_many({"files_id": {"$in": ids}})
        await self._files.delete_many(query)


def _head(path: Path) -> Document:
    return {
        "_id": ObjectId(),
        "filename": UNFINISHED,
        "length": 0,
        "chunkSize": CHUNK,
        "uploadDate": datetime.now(UTC),
        "metadata": {"made_at": path.stat().st_mtime},
    }


def _kept(found: Document) -> BlobInfo:
    return BlobInfo(
        key=found["filename"],
        size=found["length"],
        made_at=found["metadata"]["made_at"],
        kept_at=found["uploadDate"].timestamp(),
        tag=str(found["_id"]),
    )


def _below(prefix: str) -> Document:
    return {"filename": {"$gte": prefix, "$lt": prefix[:-1] + chr(ord(prefix[-1]) + 1)}}


def _groups(files: Iterable[tuple[Any, Any, int]]) -> Iterator[list[tuple[Any, Any, int]]]:
    """Small files together, each large one by itself."""
    group: list[tuple[Any, Any, int]] = []
    size = 0
    for file in files:
        if file[2] > CHUNK:
            yield [file]
            continue
        if len(group) == GROUP or size + file[2] > GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(file)
        size += file[2]
    if group:
        yield group


def _read_small(ids: Sequence[ObjectId], paths: Sequence[Path]) -> list[Document]:
    """An empty file has an empty chunk, so that it is found like any other. One that has grown
    meanwhile is cut: whoever writes it will put it again."""
    chunks: list[Document] = []
    for file_id, path in zip(ids, paths, strict=True):
        with path.open("rb") as file:
            chunks.append({"files_id": file_id, "n": 0, "data": file.read(CHUNK)})
    return chunks


def _read_chunks(file: BinaryIO) -> list[bytes]:
    return [chunk for _ in range(CHUNKS) if (chunk := file.read(CHUNK))]
