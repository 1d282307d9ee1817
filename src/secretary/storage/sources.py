"""The source files of jobs: uploads, downloads, and local files below a root."""

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from ..core import errors
from ..core.files import detect_file_type, safe_name
from ..network import DownloadLimits
from .blob_store import BlobStore

if TYPE_CHECKING:
    from ..network.client import Network


MEBIBYTE = 1024 * 1024
#: Buffered per upload before writing: large enough to be worth a thread call.
WRITE_BYTES = MEBIBYTE // 16
Buffer = bytes | bytearray | memoryview
FALLBACK_NAME = "upload"
#: Of their keys in a blob store.
PREFIX = "uploads/"
UPLOAD_GONE = "The uploaded file no longer exists; submit it again"


@dataclass(frozen=True, slots=True)
class Upload:
    """A stored upload. `kind` is the file type detected from its content, if any."""

    job_id: str
    name: str
    size: int
    sha256: str
    kind: str | None

    def source(self) -> dict[str, Any]:
        """The `file_source` parameter; the same file gives the same value for every job."""
        return {"type": "upload", "name": self.name, "size": self.size, "sha256": self.sha256}

    @property
    def path(self) -> str:
        return f"uploads/{self.job_id}/{self.name}"


class Uploads:
    """Stores uploads as `uploads/<job_id>/<name>`, so that no job can read another's."""

    def __init__(
        self,
        data_directory: Path,
        *,
        max_bytes: int = 1024 * MEBIBYTE,
        blob_store: BlobStore | None = None,
    ) -> None:
        self.root = data_directory / "uploads"
        self.max_bytes = max_bytes
        self._blob_store = blob_store

    def local_only(self) -> "Uploads":
        """For files that this process reads at once, and no job."""
        return Uploads(self.root.parent, max_bytes=self.max_bytes)

    async def receive(self, job_id: str, name: str, chunks: AsyncIterator[Buffer]) -> Upload:
        """Store a file durably (on disk, or in the blob store if there is one). Several files of a
        job need different names. On errors no file of the job is left behind."""
        directory = self.root / job_id
        path = directory / (safe_name(name) or FALLBACK_NAME)
        try:
            # Not in a thread: one that goes on after a cancellation would leave a file behind.
            directory.mkdir(parents=True, exist_ok=True)
            file = path.open("xb")
            try:
                size, sha256 = await self._write(file, chunks)
            finally:
                await asyncio.to_thread(file.close)
            kind = await asyncio.to_thread(detect_file_type, path)
            if self._blob_store is not None:
                await self._blob_store.put([(f"{PREFIX}{job_id}/{path.name}", path)])
                await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        except BaseException as error:
            # Not in a thread: if the request was cancelled, its task must not wait any more.
            shutil.rmtree(directory, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in errors.DISK_FULL_ERRNOS:
                raise errors.NoDiskSpace("No disk space left for the upload") from error
            raise
        return Upload(job_id, path.name, size, sha256, kind)

    async def _write(self, file: BinaryIO, chunks: AsyncIterator[Buffer]) -> tuple[int, str]:
        digest, size, buffer = hashlib.sha256(), 0, bytearray()
        async for chunk in chunks:
            size += len(chunk)
            if size > self.max_bytes:
                limit = self.max_bytes / MEBIBYTE
                raise errors.FileTooLarge(f"The file is larger than {limit:g} MB", max_mb=limit)
            if not buffer and len(chunk) >= WRITE_BYTES:  # no copy of it
                await asyncio.to_thread(_append, file, digest, chunk)
                continue
            buffer += chunk
            if len(buffer) >= WRITE_BYTES:
                await asyncio.to_thread(_append, file, digest, buffer)
                buffer = bytearray()
        await asyncio.to_thread(_append, file, digest, buffer)
        await asyncio.to_thread(_sync, file)
        return size, digest.hexdigest()

    def path_of(self, job_id: str, source: dict[str, Any]) -> Path:
        """The local path of a job's upload. Raises `NotFound` if it was removed."""
        path = self.root / job_id / safe_name(str(source.get("name", "")))
        if not path.is_file():
            raise errors.NotFound(UPLOAD_GONE)
        return path

    async def exists(self, job_id: str, source: dict[str, Any]) -> bool:
        name = safe_name(str(source.get("name", "")))
        if self._blob_store is not None:
            return await self._blob_store.find(f"{PREFIX}{job_id}/{name}") is not None
        return await asyncio.to_thread((self.root / job_id / name).is_file)

    async def download(self, job_id: str) -> None:
        """Copy the job's upload, if it has one, from the blob store to this machine."""
        if self._blob_store is None:
            return
        prefix = f"{PREFIX}{job_id}/"
        blobs = [blob async for blob in self._blob_store.list_blobs(prefix)]
        directory = self.root / job_id
        await self._blob_store.fetch(blobs, lambda key: directory / key.removeprefix(prefix))

    async def copy_to_job(self, path: Path, source: dict[str, Any], job_id: str) -> Upload:
        """Give another job its own copy of an upload (a hard link where possible)."""
        name = safe_name(str(source["name"]))
        if self._blob_store is not None:
            await self._blob_store.put([(f"{PREFIX}{job_id}/{name}", path)])
        else:
            await asyncio.to_thread(_link, path, self.root / job_id / name)
        size, sha256 = int(source.get("size") or 0), str(source.get("sha256") or "")
        return Upload(job_id, name, size, sha256, None)

    async def remove(self, job_id: str) -> None:
        await self.remove_local(job_id)
        if self._blob_store is not None:
            await self._blob_store.remove(f"{PREFIX}{job_id}/")

    async def remove_local(self, job_id: str) -> None:
        directory = f"{self.root}/{job_id}"
        if os.path.exists(directory):  # noqa: ASYNC240  (a microsecond; most jobs have none)
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def stale(self, age: timedelta) -> set[str]:
        """The ids of jobs whose uploads have this age, on this machine or in the blob store."""
        job_ids = set(await asyncio.to_thread(stale_job_directories, self.root, age))
        if self._blob_store is not None:
            before = time.time() - age.total_seconds()
            async for blob in self._blob_store.list_blobs(PREFIX):
                if blob.stored_at < before:
                    job_ids.add(blob.key.split("/")[1])
        return job_ids


def _append(file: BinaryIO, digest: Any, data: Buffer) -> None:
    digest.update(data)
    file.write(data)


def _sync(file: BinaryIO) -> None:
    """Make the file and its directory entries survive a power failure."""
    file.flush()
    os.fsync(file.fileno())
    path = Path(file.name)
    for directory in (path.parent, path.parent.parent):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _link(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, target)


def stale_job_directories(root: Path, age: timedelta) -> list[str]:
    """The ids of jobs whose directories below `root` have not changed for this long."""
    before = time.time() - age.total_seconds()
    job_ids: list[str] = []
    with suppress(FileNotFoundError):
        for entry in os.scandir(root):
            if entry.name.startswith("job-"):
                with suppress(OSError):  # removed meanwhile, or not a directory
                    files = [file.stat(follow_symlinks=False) for file in os.scandir(entry.path)]
                    status = [os.lstat(entry.path), *files]
                    if max(one.st_mtime for one in status) < before:
                        job_ids.append(entry.name)
    return job_ids


DEFAULT_LIMITS = DownloadLimits()


class SourceParameters(Protocol):
    """Parameters that name a source in one of these ways."""

    url: str | None
    file_path: str | None
    file_source: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """`name` is the original file name; `path` is the local file."""

    path: Path
    name: str


@dataclass(frozen=True)
class Sources:
    """Finds and downloads sources. Can be pickled and sent to a sandbox process."""

    data_directory: Path
    #: Where `file_path` may point to.
    roots: tuple[Path, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    allow_private: bool = False
    limits: DownloadLimits = DEFAULT_LIMITS

    @cached_property
    def network(self) -> "Network":
        """Shared by all downloads of this process."""
        from ..network.client import Network  # most processes never download

        return Network(self.allow_hosts, allow_private=self.allow_private)

    def check_webhook_url(self, url: str) -> None:
        """Refuse a URL that is not HTTPS or leads to a private address."""
        self.network.check(url, https_only=True)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    async def fetch(self, parameters: SourceParameters, *, job_id: str, into: Path) -> SourceFile:
        """The source as a local file. Downloads go into the directory `into`."""
        kind, value = parse_source(parameters)
        if kind == "url":
            return await self.download(str(value), into / "download")
        if kind == "path":
            return self._local(str(value), job_id)
        try:
            path = Uploads(self.data_directory).path_of(job_id, value)
        except errors.NotFound as error:
            raise errors.DownloadRefused(str(error)) from None
        return SourceFile(path, path.name)

    async def download(self, url: str, target: Path) -> SourceFile:
        """Download a URL to the file `target`."""
        from ..network.downloads import download

        result = await download(self.network, url, target, limits=self.limits)
        return SourceFile(result.path, result.file_name)

    def _local(self, text: str, job_id: str) -> SourceFile:
        """A file below one of the roots, after resolving links and `..`."""
        for root in (*self.roots, self.data_directory / "uploads"):
            path = _resolve(root, text) or _resolve(root, text.removeprefix("uploads/"))
            if path is not None and self._is_allowed(path, root, job_id):
                return SourceFile(path, safe_name(path.name))
        raise errors.InvalidParameters(
            "file_path: no such file in the directories that may be read"
        )

    def _is_allowed(self, path: Path, root: Path, job_id: str) -> bool:
        """A root that contains the data directory gives no access to it: there are the store and
        the results and uploads of other users."""
        data, uploads = self.data_directory.resolve(), (self.data_directory / "uploads").resolve()
        if path.is_relative_to(uploads):
            # Directories named after a job belong to it; other files are shared.
            first, *rest = path.relative_to(uploads).parts
            return not rest or not first.startswith("job-") or first == job_id
        return not (path.is_relative_to(data) and data.is_relative_to(root.resolve()))


def source_url(parameters: SourceParameters) -> str | None:
    """The URL of the source if it has one."""
    kind, value = parse_source(parameters)
    return str(value) if kind == "url" else None


def parse_source(parameters: SourceParameters) -> tuple[str, Any]:
    """The kind of source (`upload`, `url` or `path`) and its value. A handler without a parameter
    model has only the parameters that were sent."""
    source = getattr(parameters, "file_source", None)
    if isinstance(source, dict):
        value = source.get("path") or source.get("value")
        if source.get("type") == "upload" and source.get("name"):
            return "upload", source
        if value:
            return ("url" if source.get("type") == "url" else "path"), value
    for kind, value in (
        ("url", getattr(parameters, "url", None)),
        ("path", getattr(parameters, "file_path", None)),
    ):
        if value:
            return kind, value
    raise errors.InvalidParameters("A file or a url is needed")


def _resolve(root: Path, text: str) -> Path | None:
    """The file `text` below `root`; None if it does not exist or lies outside."""
    try:
        path = Path(os.path.realpath(root / text))
        return path if path.is_relative_to(root.resolve()) and path.is_file() else None
    except (ValueError, OSError):  # a NUL, a loop of links, a name that is too long
        return None
