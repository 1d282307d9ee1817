"""Files that came with a request, kept until their job needs them no more."""

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from ..core.errors import DISK_FULL_ERRNOS, FileTooLarge, NotFound, StoreUnavailable
from ..core.file_types import detect_file_type, safe_name
from .blob_store import BlobStore

MEBIBYTE = 1024 * 1024
#: Pieces of this size are worth the change of thread that writing them takes; each upload that
#: is on its way holds one.
PIECE = MEBIBYTE // 16
FALLBACK_NAME = "upload"
#: Of their keys in a depot.
PREFIX = "uploads/"
UPLOAD_IS_GONE = "The uploaded file is no longer there; submit it again"


@dataclass(frozen=True, slots=True)
class Upload:
    """`kind` is what its content says (see file_kinds), None when that is not known."""

    job_id: str
    name: str
    size: int
    sha256: str
    kind: str | None

    def source(self) -> dict[str, Any]:
        """How a job's parameters name it; the same for the same file, whatever job it is of."""
        return {"type": "upload", "name": self.name, "size": self.size, "sha256": self.sha256}

    @property
    def path(self) -> str:
        return f"uploads/{self.job_id}/{self.name}"


class Uploads:
    """`uploads/<job_id>/<name>`: each job's upload is its own, so that none can read another's."""

    def __init__(
        self,
        data_directory: Path,
        *,
        max_bytes: int = 1024 * MEBIBYTE,
        blob_store: BlobStore | None = None,
    ) -> None:
        self.root = data_directory / "uploads"
        self.max_bytes = max_bytes
        self._depot = blob_store

    def of_this_machine(self) -> "Uploads":
        """For files that are read here and now, and by no job."""
        return Uploads(self.root.parent, max_bytes=self.max_bytes)

    async def receive(self, job_id: str, name: str, pieces: AsyncIterator[bytes]) -> Upload:
        """Write a file as it comes. When this returns it is on disk, or in the depot if there is
        one; else nothing of it is left."""
        directory = self.root / job_id
        path = directory / (safe_name(name) or FALLBACK_NAME)
        try:
            # Without a thread: one that goes on after a cancellation would leave a file behind.
            file = _new_file(path)
            try:
                size, sha256 = await self._write(file, pieces)
            finally:
                await asyncio.to_thread(file.close)
            kind = await asyncio.to_thread(detect_file_type, path)
            if self._depot is not None:
                await self._depot.put([(f"{PREFIX}{job_id}/{path.name}", path)])
                await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        except BaseException as error:
            # Without a thread: the request may be gone, and its task must not wait any more.
            shutil.rmtree(directory, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in DISK_FULL_ERRNOS:
                text = "There is no space left on the disk for an upload"
                raise StoreUnavailable(text) from error
            raise
        return Upload(job_id, path.name, size, sha256, kind)

    async def _write(self, file: BinaryIO, pieces: AsyncIterator[bytes]) -> tuple[int, str]:
        digest, size, gathered = hashlib.sha256(), 0, bytearray()
        async for piece in pieces:
            size += len(piece)
            if size > self.max_bytes:
                limit = self.max_bytes / MEBIBYTE
                raise FileTooLarge(f"A file may have {limit:g} MB at the most", max_mb=limit)
            gathered += piece
            if len(gathered) >= PIECE:
                await asyncio.to_thread(_append, file, digest, gathered)
                gathered = bytearray()
        await asyncio.to_thread(_append, file, digest, gathered)
        await asyncio.to_thread(_sync, file)
        return size, digest.hexdigest()

    def path_of(self, job_id: str, source: dict[str, Any]) -> Path:
        """Where the upload of a job is; `NotFound` when it was removed."""
        path = self.root / job_id / safe_name(str(source.get("name", "")))
        if not path.is_file():
            raise NotFound(UPLOAD_IS_GONE)
        return path

    async def is_there(self, job_id: str, source: dict[str, Any]) -> bool:
        name = safe_name(str(source.get("name", "")))
        if self._depot is not None:
            return await self._depot.find(f"{PREFIX}{job_id}/{name}") is not None
        return await asyncio.to_thread((self.root / job_id / name).is_file)

    async def bring(self, job_id: str) -> None:
        """See that the job's upload is on this machine, if it has one."""
        if self._depot is None:
            return
        prefix = f"{PREFIX}{job_id}/"
        kept = [one async for one in self._depot.below(prefix)]
        place = self.root / job_id
        await self._depot.fetch(kept, lambda key: place / key.removeprefix(prefix))

    async def hand_on(self, path: Path, source: dict[str, Any], job_id: str) -> Upload:
        """The same file for another job, under a name of its own: neither needs the other's."""
        name = safe_name(str(source["name"]))
        if self._depot is not None:
            await self._depot.put([(f"{PREFIX}{job_id}/{name}", path)])
        else:
            await asyncio.to_thread(_link, path, self.root / job_id / name)
        size, sha256 = int(source.get("size") or 0), str(source.get("sha256") or "")
        return Upload(job_id, name, size, sha256, None)

    async def remove(self, job_id: str) -> None:
        await self.put_away(job_id)
        if self._depot is not None:
            await self._depot.remove(f"{PREFIX}{job_id}/")

    async def put_away(self, job_id: str) -> None:
        """What is on this machine of it."""
        directory = f"{self.root}/{job_id}"
        if os.path.exists(directory):  # noqa: ASYNC240  (a microsecond; most jobs have none)
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def stale(self, age: timedelta) -> set[str]:
        """The ids of jobs whose uploads came that long ago, to this machine or to the depot."""
        found = set(await asyncio.to_thread(self.older_than, age))
        if self._depot is not None:
            before = time.time() - age.total_seconds()
            async for kept in self._depot.below(PREFIX):
                if kept.kept_at < before:
                    found.add(kept.key.split("/")[1])
        return found

    def older_than(self, age: timedelta) -> list[str]:
        """Those on this machine. What else lies here is not ours."""
        before = time.time() - age.total_seconds()
        try:
            entries = [entry for entry in os.scandir(self.root) if entry.name.startswith("job-")]
        except FileNotFoundError:
            return []
        return [entry.name for entry in entries if _changed_at(entry.path) < before]


def _new_file(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True)
    return path.open("xb")


def _link(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True)
    try:
        os.link(path, target)
    except OSError:  # another disk, or one without links
        shutil.copyfile(path, target)


def _append(file: BinaryIO, digest: Any, data: bytearray) -> None:
    digest.update(data)
    file.write(data)


def _sync(file: BinaryIO) -> None:
    """What is acknowledged survives a power cut: the file, and its names in the directories."""
    file.flush()
    os.fsync(file.fileno())
    path = Path(file.name)
    for directory in (path.parent, path.parent.parent):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _changed_at(directory: str) -> float:
    """When something was last written to it: an upload may still be coming."""
    try:
        inside = [entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(directory)]
        return max([os.lstat(directory).st_mtime, *inside])
    except OSError:  # removed meanwhile, or no directory
        return time.time()
