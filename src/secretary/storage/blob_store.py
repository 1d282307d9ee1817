"""Blob stores: files that several machines share. A single machine works without one."""

import asyncio
import os
import re
import shutil
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol, Self
from uuid import uuid4

from ..core.errors import NotFound

CHUNK_BYTES = 1024 * 1024
#: How many directory entries are read per thread call.
LIST_BATCH = 200
#: Names of files that are still being written.
INCOMPLETE = re.compile(r"\.[0-9a-f]{32}$")


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """A file in a blob store."""

    key: str
    size: int
    #: When the file was last modified, as far as the store knows without opening it.
    modified_at: float
    #: When it was uploaded.
    stored_at: float
    #: Changes whenever the content does.
    etag: str


class BlobStore(Protocol):
    """Files by key. Keys look like paths: `jobs/job-1/1/pages/1.txt`.

    Writes are atomic, and once `put` returns, the files survive the loss of a machine. Every call
    raises `StoreUnavailable` if the store does not respond. The tests in
    tests/contract/test_blob_stores.py specify what an implementation must do.
    """

    #: Its name in responses and logs.
    kind: str

    async def put(self, files: Sequence[tuple[str, Path]]) -> None:
        """Store these files under these keys, replacing existing ones. Streams large files."""

    async def find(self, key: str) -> BlobInfo | None: ...

    def list_blobs(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """All blobs below a prefix that ends with a slash, in any order. Unsafe keys are left out
        (see `is_safe_key`)."""

    def read(self, blob: BlobInfo, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Stream the bytes from `start` up to `end`. Raises `NotFound` if the blob is gone."""

    async def fetch(self, blobs: Sequence[BlobInfo], path_for: Callable[[str], Path]) -> None:
        """Download blobs to the paths of their keys and restore their modification times. Blobs
        that are gone are skipped."""

    async def remove(self, prefix: str) -> None:
        """Delete all blobs below a prefix that ends with a slash."""

    async def remove_incomplete(self) -> None:
        """Delete what interrupted writes have left behind."""


def is_safe_key(key: str) -> bool:
    """Whether a key can be used as a path. Others may write to the same bucket, and a key with
    `..` would escape its directory."""
    return not {"", ".", ".."} & set(key.split("/")) and "\0" not in key


class AtomicFileWriter:
    """Writes a file that appears at its path on `commit`, and otherwise leaves nothing behind."""

    def __init__(self, target: Path, modified_at: float) -> None:
        self._target = target
        self._modified_at = modified_at
        self._partial = target.with_name(f".{uuid4().hex}")
        target.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = self._partial.open("xb")
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, chunk: bytes | memoryview) -> None:
        self.size += self._file.write(chunk)

    def commit(self) -> None:
        self._file.close()
        os.utime(self._partial, (self._modified_at, self._modified_at))
        self._partial.replace(self._target)


class DirectoryBlobStore:
    """Stores each blob in the file `<root>/<key>`."""

    kind = "directory"

    def __init__(self, root: Path) -> None:
        self._root = root

    def path_of(self, key: str) -> Path:
        return self._root.joinpath(*key.split("/"))

    async def put(self, files: Sequence[tuple[str, Path]]) -> None:
        for key, path in files:
            await asyncio.to_thread(_copy, path, self.path_of(key))

    async def find(self, key: str) -> BlobInfo | None:
        try:
            status = await asyncio.to_thread(self.path_of(key).lstat)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _blob_info(key, status) if stat.S_ISREG(status.st_mode) else None

    async def list_blobs(self, prefix: str) -> AsyncIterator[BlobInfo]:
        files = walk_files(str(self.path_of(prefix.rstrip("/"))), INCOMPLETE, prefix)
        blobs = (_blob_info(key, status) for key, status in files)
        while batch := await asyncio.to_thread(lambda: list(islice(blobs, LIST_BATCH))):
            for blob in batch:
                yield blob

    async def read(
        self, blob: BlobInfo, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        path = self.path_of(blob.key)
        end = blob.size if end is None else min(end, blob.size)
        while start < end:
            chunk = await asyncio.to_thread(_read_chunk, path, start, min(end - start, CHUNK_BYTES))
            start += len(chunk)
            yield chunk

    async def fetch(self, blobs: Sequence[BlobInfo], path_for: Callable[[str], Path]) -> None:
        for blob in blobs:
            try:
                await asyncio.to_thread(_copy, self.path_of(blob.key), path_for(blob.key))
            except FileNotFoundError:  # removed meanwhile
                continue

    async def remove(self, prefix: str) -> None:
        directory = self.path_of(prefix.rstrip("/"))
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def remove_incomplete(self) -> None:
        """Nothing to do: incomplete files are removed with their directory."""


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as file, AtomicFileWriter(target, source.stat().st_mtime) as writer:
        shutil.copyfileobj(file, writer, CHUNK_BYTES)
        writer.commit()


def _blob_info(key: str, status: os.stat_result) -> BlobInfo:
    etag = f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"
    return BlobInfo(key, status.st_size, status.st_mtime, status.st_mtime, etag)


def walk_files(
    directory: str, skip: re.Pattern[str] | None = None, prefix: str = ""
) -> Iterator[tuple[str, os.stat_result]]:
    """The files below a directory, without links and names that match `skip`. `prefix` is put
    before their paths in the directory."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            if skip is not None and skip.search(entry.name):
                continue
            with suppress(FileNotFoundError):  # removed meanwhile
                if entry.is_dir(follow_symlinks=False):
                    yield from walk_files(entry.path, skip, f"{prefix}{entry.name}/")
                elif entry.is_file(follow_symlinks=False):
                    yield f"{prefix}{entry.name}", entry.stat(follow_symlinks=False)


def _read_chunk(path: Path, start: int, length: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(start)
            chunk = file.read(length)
    except FileNotFoundError:
        chunk = b""
    if not chunk:
        raise NotFound("The file no longer exists")
    return chunk
