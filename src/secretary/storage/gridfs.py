"""A blob store in MongoDB, in the format of GridFS.

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
#: Small files are written and read in groups of up to this many files and bytes.
GROUP, GROUP_BYTES = 200, 8 * 1024 * 1024
#: How many chunks of a large file are written at a time.
CHUNKS = 16
#: Names of files that do not exist yet, or no longer. No prefix matches them.
UNFINISHED, REMOVED = ".unfinished", ".removed"
#: Files that are unfinished for longer were abandoned.
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
        updates = [
            UpdateOne({"_id": file_id}, {"$set": {**change, "length": size}})
            for file_id, change, size in zip(ids, changes, sizes, strict=True)
        ]
        await self._files.bulk_write(updates, ordered=False)
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
        """Drop older versions only, so that one remains of two concurrent writes."""
        versions = self._files.find({"filename": {"$in": list(new)}}, {"filename": 1})
        await self._drop(
            [one["_id"] async for one in versions if one["_id"] < new[one["filename"]]]
        )

    async def find(self, key: str) -> BlobInfo | None:
        with translated(self._address):
            document = await self._files.find_one({"filename": key}, sort=[("_id", -1)])
            return _blob_info(document) if document else None

    async def below(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """List files; of concurrent writes, the newer one counts."""
        last: Document | None = None
        with translated(self._address):
            query = self._files.find(_below(prefix)).sort([("filename", UP), ("_id", UP)])
            async for document in query:
                if last is not None and last["filename"] != document["filename"]:
                    yield _blob_info(last)
                last = document if is_plain(document["filename"]) else None
        if last is not None:
            yield _blob_info(last)

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
                if arrival.size == known[file_id].size:  # otherwise it was removed meanwhile
                    await asyncio.to_thread(arrival.finish)
        finally:
            for arrival in arrivals.values():
                arrival.give_up()

    async def remove(self, prefix: str) -> None:
        with translated(self._address):
            while True:
                documents = self._files.find(_below(prefix), {"_id": 1}).limit(GROUP)
                ids = [one["_id"] async for one in documents]
                if not ids:
                    return
                await self._drop(ids)

    async def tidy(self) -> None:
        with translated(self._address):
            abandoned = {"filename": UNFINISHED, "uploadDate": {"$lt": datetime.now(UTC) - WRITING}}
            documents = self._files.find({"$or": [abandoned, {"filename": REMOVED}]}, {"_id": 1})
            await self._drop([one["_id"] async for one in documents])

    async def _drop(self, ids: list[ObjectId]) -> None:
        """Remove the document last: while it exists, `tidy` finds the rest of the file."""
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


def _blob_info(document: Document) -> BlobInfo:
    return BlobInfo(
        key=document["filename"],
        size=document["length"],
        made_at=document["metadata"]["made_at"],
        kept_at=document["uploadDate"].timestamp(),
        tag=str(document["_id"]),
    )


def _below(prefix: str) -> Document:
    return {"filename": {"$gte": prefix, "$lt": prefix[:-1] + chr(ord(prefix[-1]) + 1)}}


def _groups(files: Iterable[tuple[Any, Any, int]]) -> Iterator[list[tuple[Any, Any, int]]]:
    """Group small files; each large file is a group of its own."""
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
    """Read one chunk per file, also of empty files. A file that has grown meanwhile is cut: its
    writer will store it again."""
    chunks: list[Document] = []
    for file_id, path in zip(ids, paths, strict=True):
        with path.open("rb") as file:
            chunks.append({"files_id": file_id, "n": 0, "data": file.read(CHUNK)})
    return chunks


def _read_chunks(file: BinaryIO) -> list[bytes]:
    return [chunk for _ in range(CHUNKS) if (chunk := file.read(CHUNK))]
