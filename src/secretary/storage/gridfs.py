"""Blob store in MongoDB, in the GridFS format.

It writes the GridFS documents itself: the driver's GridFS needs several round trips per file, and
a document has hundreds of small ones.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING as UP
from pymongo import IndexModel, ReadPreference, UpdateOne
from pymongo.read_concern import ReadConcern

from ..core.errors import NotFound
from ..store.mongo import MongoStore
from ..store.mongo.client import translated
from ..store.mongo.schema import DURABLE, Document, Documents
from .blob_store import AtomicFileWriter, BlobInfo, is_safe_key

BUCKET = "files"
CHUNK_BYTES = 255 * 1024
#: Small files are written and read in batches of at most this many files and bytes.
BATCH_FILES, BATCH_BYTES = 200, 8 * 1024 * 1024
#: Large files are written this many chunks at a time.
CHUNKS_PER_WRITE = 16
#: Names of files that are incomplete or being deleted. No prefix matches them.
INCOMPLETE, REMOVED = ".unfinished", ".removed"
#: An incomplete file of this age was abandoned by its writer.
MAX_WRITE_TIME = timedelta(days=1)


class GridFsBlobStore:
    kind = "gridfs"

    def __init__(self, store: MongoStore) -> None:
        """Uses the connection of an open store."""
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
            if not self._has_indexes:
                chunk_index = IndexModel([("files_id", UP), ("n", UP)], unique=True)
                await self._files.create_indexes([IndexModel([("filename", UP), ("_id", UP)])])
                await self._chunks.create_indexes([chunk_index])
                self._has_indexes = True
            for batch in _batches((key, path, path.stat().st_size) for key, path in files):
                await self._put_batch(batch)

    async def _put_batch(self, batch: list[tuple[str, Path, int]]) -> None:
        headers: list[Document] = [
            {
                "_id": ObjectId(),
                "filename": INCOMPLETE,
                "length": 0,
                "chunkSize": CHUNK_BYTES,
                "uploadDate": datetime.now(UTC),
                "metadata": {"made_at": path.stat().st_mtime},
            }
            for _, path, _ in batch
        ]
        await self._files.insert_many(headers, ordered=False)
        ids = [header["_id"] for header in headers]
        if batch[0][2] > CHUNK_BYTES:
            sizes = [await self._put_large(ids[0], batch[0][1])]
        else:
            paths = [path for _, path, _ in batch]
            chunks = await asyncio.to_thread(_read_small, ids, paths)
            await self._chunks.insert_many(chunks, ordered=False)
            sizes = [len(chunk["data"]) for chunk in chunks]
        now = datetime.now(UTC)
        keys = [key for key, _, _ in batch]
        updates = [
            UpdateOne(
                {"_id": file_id}, {"$set": {"filename": key, "uploadDate": now, "length": size}}
            )
            for file_id, key, size in zip(ids, keys, sizes, strict=True)
        ]
        await self._files.bulk_write(updates, ordered=False)
        # Delete only older versions, so that one of two concurrent writes remains.
        new = dict(zip(keys, ids, strict=True))
        files = self._files.find({"filename": {"$in": keys}}, {"filename": 1})
        await self._drop(
            [file["_id"] async for file in files if file["_id"] < new[file["filename"]]]
        )

    async def _put_large(self, file_id: ObjectId, path: Path) -> int:
        count = size = 0
        with path.open("rb") as file:
            while chunks := await asyncio.to_thread(
                lambda: [part for _ in range(CHUNKS_PER_WRITE) if (part := file.read(CHUNK_BYTES))]
            ):
                documents = [
                    {"files_id": file_id, "n": number, "data": data}
                    for number, data in enumerate(chunks, start=count)
                ]
                await self._chunks.insert_many(documents, ordered=False)
                count += len(chunks)
                size += sum(map(len, chunks))
        return size

    async def find(self, key: str) -> BlobInfo | None:
        with translated(self._address):
            file = await self._files.find_one({"filename": key}, sort=[("_id", -1)])
            return _blob_info(file) if file else None

    async def list_blobs(self, prefix: str) -> AsyncIterator[BlobInfo]:
        # Concurrent writes can leave several versions of a file; the last one counts.
        last: Document | None = None
        with translated(self._address):
            files = self._files.find(_with_prefix(prefix)).sort([("filename", UP), ("_id", UP)])
            async for file in files:
                if last is not None and last["filename"] != file["filename"]:
                    yield _blob_info(last)
                last = file if is_safe_key(file["filename"]) else None
        if last is not None:
            yield _blob_info(last)

    async def read(
        self, blob: BlobInfo, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        end = blob.size if end is None else min(end, blob.size)
        if start >= end:
            return
        numbers = {"$gte": start // CHUNK_BYTES, "$lte": (end - 1) // CHUNK_BYTES}
        offset = start - start % CHUNK_BYTES
        with translated(self._address):
            query = {"files_id": ObjectId(blob.etag), "n": numbers}
            async for chunk in self._chunks.find(query).sort("n", UP):
                data = chunk["data"]
                yield data[max(start - offset, 0) : end - offset]
                offset += len(data)
        if offset < end:
            raise NotFound("The file no longer exists")

    async def fetch(self, blobs: Sequence[BlobInfo], path_for: Callable[[str], Path]) -> None:
        with translated(self._address):
            for batch in _batches((blob, None, blob.size) for blob in blobs):
                await self._fetch_batch([blob for blob, _, _ in batch], path_for)

    async def _fetch_batch(self, batch: list[BlobInfo], path_for: Callable[[str], Path]) -> None:
        blobs = {ObjectId(blob.etag): blob for blob in batch}
        writers: dict[ObjectId, AtomicFileWriter] = {}
        query = {"files_id": {"$in": list(blobs)}}
        with ExitStack() as stack:
            async for chunk in self._chunks.find(query).sort([("files_id", UP), ("n", UP)]):
                file_id = chunk["files_id"]
                if chunk["n"] == 0:
                    blob = blobs[file_id]
                    writers[file_id] = stack.enter_context(
                        await asyncio.to_thread(
                            AtomicFileWriter, path_for(blob.key), blob.modified_at
                        )
                    )
                await asyncio.to_thread(writers[file_id].write, chunk["data"])
            for file_id, writer in writers.items():
                if writer.size == blobs[file_id].size:  # else it was removed meanwhile
                    await asyncio.to_thread(writer.commit)

    async def remove(self, prefix: str) -> None:
        with translated(self._address):
            while True:
                files = self._files.find(_with_prefix(prefix), {"_id": 1}).limit(BATCH_FILES)
                ids = [file["_id"] async for file in files]
                if not ids:
                    return
                await self._drop(ids)

    async def remove_incomplete(self) -> None:
        with translated(self._address):
            before = datetime.now(UTC) - MAX_WRITE_TIME
            abandoned = {"filename": INCOMPLETE, "uploadDate": {"$lt": before}}
            files = self._files.find({"$or": [abandoned, {"filename": REMOVED}]}, {"_id": 1})
            await self._drop([file["_id"] async for file in files])

    async def _drop(self, ids: list[ObjectId]) -> None:
        """Delete files, their documents last: `remove_incomplete` needs them to find the rest."""
        if not ids:
            return
        query = {"_id": {"$in": ids}}
        await self._files.update_many(query, {"$set": {"filename": REMOVED}})
        await self._chunks.delete_many({"files_id": {"$in": ids}})
        await self._files.delete_many(query)


def _batches(files: Iterable[tuple[Any, Any, int]]) -> Iterator[list[tuple[Any, Any, int]]]:
    """Batches of small files; each large file is a batch of its own. The third item is the size."""
    batch: list[tuple[Any, Any, int]] = []
    size = 0
    for file in files:
        if file[2] > CHUNK_BYTES:
            yield [file]
            continue
        if len(batch) == BATCH_FILES or size + file[2] > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file[2]
    if batch:
        yield batch


def _read_small(ids: Sequence[ObjectId], paths: Sequence[Path]) -> list[Document]:
    """One chunk per file, even for empty ones, so that `fetch` finds them. A file that has grown
    beyond a chunk is truncated: it will be put again."""
    chunks: list[Document] = []
    for file_id, path in zip(ids, paths, strict=True):
        with path.open("rb") as file:
            chunks.append({"files_id": file_id, "n": 0, "data": file.read(CHUNK_BYTES)})
    return chunks


def _blob_info(file: Document) -> BlobInfo:
    return BlobInfo(
        key=file["filename"],
        size=file["length"],
        modified_at=file["metadata"]["made_at"],
        stored_at=file["uploadDate"].timestamp(),
        etag=str(file["_id"]),
    )


def _with_prefix(prefix: str) -> Document:
    return {"filename": {"$gte": prefix, "$lt": prefix[:-1] + chr(ord(prefix[-1]) + 1)}}
