"""The files of jobs: what came with them, and what each attempt made."""

import asyncio
import contextlib
import os
import shutil
import stat
import time
import zipfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import orjson

from ..core.errors import NotFound
from ..core.file_types import safe_name
from ..core.job import RESULTS_FILE_KEY, Job, JobStatus
from ..core.parameters import flatten_parameters
from .artifact_sync import ArtifactSync
from .blob_store import BlobInfo, BlobStore
from .cache import Cache
from .uploads import UPLOAD_IS_GONE, Upload, Uploads

#: What cannot be made smaller.
PACKED = frozenset({".jpg", ".jpeg", ".png", ".gif", ".webp", ".mp3", ".mp4", ".zip"})


def pack(directory: Path, target: Path, *, without: frozenset[str]) -> None:
    """All files of a directory; other archives in it only hold some of the same."""
    unfinished = target.with_name(f".{uuid4().hex}")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(directory.rglob("*")):
                if _belongs(path, without):
                    packed = path.suffix in PACKED
                    kind = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
                    archive.write(path, path.relative_to(directory), kind)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def _belongs(path: Path, without: frozenset[str]) -> bool:
    hidden = path.name.startswith(".")
    return path.is_file() and not hidden and path.suffix != ".zip" and path.name not in without


#: Of their keys in a depot.
PREFIX = "jobs/"


@dataclass(frozen=True, slots=True)
class Found:
    """A file that a job has made: on this machine (`path`), or in the depot (`kept`)."""

    name: str
    size: int
    made_at: float
    path: Path | None = None
    kept: BlobInfo | None = None


class JobFiles:
    """`jobs/<job_id>/<attempt>/`: an attempt writes to its own directory, and the job's final
    state names the attempt that counts. So a worker that lost the job cannot spoil the results.

    With a depot the directories are those of one machine while it works; what counts is there."""

    def __init__(
        self,
        data_directory: Path,
        uploads: Uploads | None = None,
        cache: Cache | None = None,
        blob_store: BlobStore | None = None,
    ) -> None:
        self.root = data_directory / "jobs"
        self.uploads = uploads or Uploads(data_directory, blob_store=blob_store)
        self.cache = cache or Cache(data_directory)
        self.blob_store = blob_store

    def of_attempt(self, job: Job) -> str:
        # Plain strings: this is asked for each job, and most need no files.
        return f"{self.root}/{job.job_id}/{job.attempt}"

    def artifact_sync(self, job: Job) -> ArtifactSync | None:
        """What carries the files of this attempt to where other machines find them."""
        if self.blob_store is None:
            return None
        return ArtifactSync(self.blob_store, self.of_attempt(job), _prefix(job))

    async def bring_upload(self, job: Job) -> None:
        """See that what came with the job is on this machine."""
        if self.blob_store is not None and _has_upload(job):
            await self.uploads.bring(job.job_id)

    async def hand_on(self, job: Job, source: dict[str, Any], other: str) -> Upload:
        """What came with a job, for another one too. When a job has completed, its upload is gone;
        that of a recording may have been kept."""
        if self.blob_store is None:
            return await self.uploads.hand_on(self._given(job, source), source, other)
        names = [f"uploads/{job.job_id}/{safe_name(str(source['name']))}"]
        names += [_prefix(job) + job.recording_name] if job.recording_name else []
        found = [kept for name in names if (kept := await self.blob_store.find(name)) is not None]
        if not found:
            raise NotFound(UPLOAD_IS_GONE)
        self.root.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=self.root) as place:
            path = Path(place) / "file"
            await self.blob_store.fetch(found[:1], lambda _: path)
            return await self.uploads.hand_on(path, source, other)

    def _given(self, job: Job, source: dict[str, Any]) -> Path:
        try:
            return self.uploads.path_of(job.job_id, source)
        except NotFound:
            if job.recording_name is None:
                raise
            return self.locate(job, job.recording_name)

    async def find(self, job: Job, name: str) -> Found:
        """A file that the job's last attempt made, wherever it is."""
        if self.blob_store is None:
            return await asyncio.to_thread(self._find_here, job, name)
        parts = name.split("/")
        if not {"", ".", ".."} & set(parts) and name.isprintable():
            kept = await self.blob_store.find(_prefix(job) + name)
            if kept is not None:
                return Found(parts[-1], kept.size, kept.made_at, kept=kept)
        raise NotFound("There is no such file")

    def _find_here(self, job: Job, name: str) -> Found:
        path = self.locate(job, name)
        found = path.stat()
        return Found(path.name, found.st_size, found.st_mtime, path=path)

    async def content(self, found: Found) -> bytes:
        """All of it, for files that are known to be small."""
        if found.path is not None:
            return await asyncio.to_thread(found.path.read_bytes)
        return b"".join([piece async for piece in self.pieces(found)])

    async def pieces(
        self, found: Found, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """What is in the depot, from `start` to before `end`."""
        assert self.blob_store is not None and found.kept is not None
        async for piece in self.blob_store.read(found.kept, start, end):
            yield piece

    def locate(self, job: Job, name: str) -> Path:
        """A file that the job's last attempt made on this machine. `NotFound` also for whatever
        tries to lead elsewhere: by `..`, by a link, by an absolute path."""
        root = Path(os.path.realpath(self.of_attempt(job)))
        path = root.joinpath(*name.split("/"))
        try:
            inside = path.is_relative_to(root) and os.path.realpath(path) == str(path)
            if inside and path.is_file():
                return path
        except (ValueError, OSError):  # a NUL, a name that is too long
            pass
        raise NotFound("There is no such file")

    async def made_so_far(self, job: Job) -> list[tuple[str, int]]:
        """Names and sizes of what the last attempt has made, also while it runs."""
        if self.blob_store is None:
            return await asyncio.to_thread(self._made_here, job)
        prefix, unseen = _prefix(job), (job.results or {}).get(RESULTS_FILE_KEY)
        found = [
            (kept.key.removeprefix(prefix), kept.size)
            async for kept in self.blob_store.below(prefix)
        ]
        return sorted(one for one in found if one[0] != unseen)

    def _made_here(self, job: Job) -> list[tuple[str, int]]:
        root = self.of_attempt(job)
        unseen = (job.results or {}).get(RESULTS_FILE_KEY)
        found = []
        for directory, _, names in os.walk(root):
            for name in names:
                path = os.path.join(directory, name)
                with contextlib.suppress(OSError):  # it was replaced meanwhile
                    status = os.lstat(path)
                    is_hidden = name.startswith(".") or name == unseen
                    if stat.S_ISREG(status.st_mode) and not is_hidden:
                        found.append((os.path.relpath(path, root), status.st_size))
        return sorted(found)

    async def archive(self, job: Job) -> Found:
        """The ZIP with everything the job has made. Takes a while: that of a document is packed
        when it is first asked for."""
        results = job.results or {}
        name = results.get("archive_filename")
        if job.status is not JobStatus.COMPLETED or not isinstance(name, str):
            raise NotFound(f"The job {job.job_id} has no archive")
        if job.has_results_file and "/" not in name:
            if self.blob_store is None:
                await asyncio.to_thread(self._pack, job, Path(self.of_attempt(job)), name)
            elif await self.blob_store.find(_prefix(job) + name) is None:
                await self._pack_from(self.blob_store, job, name)
        return await self.find(job, name)

    def _pack(self, job: Job, directory: Path, name: str) -> None:
        if directory.is_dir() and not (directory / name).exists():
            pack(directory, directory / name, without=_not_packed(job, job.results or {}))

    async def _pack_from(self, blob_store: BlobStore, job: Job, name: str) -> None:
        prefix = _prefix(job)
        self.root.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=self.root) as place:
            directory = Path(place)
            kept = [one async for one in blob_store.below(prefix)]
            await blob_store.fetch(kept, lambda key: directory / key.removeprefix(prefix))
            if kept:
                await asyncio.to_thread(self._pack, job, directory, name)
                await blob_store.put([(prefix + name, directory / name)])

    async def filled(self, job: Job) -> Job:
        """The job with all of its results: long texts are in a file."""
        if not job.has_results_file:
            return job
        results = dict(job.results or {})
        name = str(results.pop(RESULTS_FILE_KEY))
        try:
            if self.blob_store is None:
                more = await asyncio.to_thread(self._read_here, job, name)
            else:
                content = await self.content(await self.find(job, name))
                more = await asyncio.to_thread(orjson.loads, content)
        except (NotFound, OSError, ValueError):
            more = {}  # removed by hand: what is left is told
        metadata = {**(results.get("metadata") or {}), **(more.pop("metadata", None) or {})}
        return job.model_copy(update={"results": {**results, **more, "metadata": metadata}})

    def _read_here(self, job: Job, name: str) -> Any:
        return orjson.loads(self.locate(job, name).read_bytes())

    async def more_bytes(self, job: Job) -> int:
        """How long the texts are that `filled` puts back."""
        if not job.has_results_file:
            return 0
        try:
            return (await self.find(job, str((job.results or {})[RESULTS_FILE_KEY]))).size
        except NotFound:
            return 0

    # Looking whether there is a directory takes microseconds: not worth a thread for each job.

    async def clear_scratch(self, job: Job) -> None:
        """The work is done, its end not yet written: whatever happens now, scratch is gone."""
        try:
            names = os.listdir(f"{self.root}/{job.job_id}")
        except OSError:  # most jobs have none
            return
        scratch = f"{job.attempt}."
        if any(name.startswith(scratch) for name in names):
            await asyncio.to_thread(
                self._remove_directories, job.job_id, lambda name: name.startswith(scratch)
            )

    async def abandon(self, job_id: str, attempt: int) -> None:
        """The process that made this attempt has died; the upload stays, for the next one."""
        if os.path.exists(f"{self.root}/{job_id}"):  # noqa: ASYNC240
            await asyncio.to_thread(self._remove_attempt, job_id, attempt)
        if self.blob_store is not None:
            await self.blob_store.remove(f"{PREFIX}{job_id}/{attempt}/")

    async def keep_only(self, job: Job) -> None:
        """The job completed: its upload and what its earlier attempts left are of no use."""
        is_here = os.path.exists(f"{self.root}/{job.job_id}")  # noqa: ASYNC240
        if self.blob_store is None:
            if is_here and job.attempt > 1:  # what the only one left was cleared before its end
                await asyncio.to_thread(self._remove_attempts_except, job)
            await self.uploads.remove(job.job_id)
            return
        if is_here:
            await asyncio.to_thread(self._remove_attempt, job.job_id, job.attempt)
        for attempt in range(1, job.attempt):
            await self.blob_store.remove(f"{PREFIX}{job.job_id}/{attempt}/")
        if _has_upload(job):
            await self.uploads.remove(job.job_id)

    async def discard(self, job: Job) -> None:
        """This attempt came to nothing. What was uploaded stays, for the next one."""
        if os.path.exists(f"{self.root}/{job.job_id}"):  # noqa: ASYNC240
            await asyncio.to_thread(self._remove_attempt, job.job_id, job.attempt)
        if self.blob_store is not None:
            await self.uploads.put_away(job.job_id)
            await self.blob_store.remove(_prefix(job))

    def left_here(self, age: timedelta) -> list[str]:
        """With a depot: ids of jobs whose directories on this machine nobody touched that long."""
        before = time.time() - age.total_seconds()
        try:
            entries = list(os.scandir(self.root)) if self.blob_store else []
        except FileNotFoundError:
            return []
        names = [entry.name for entry in entries if entry.name.startswith("job-")]
        return [name for name in names if _touched_at(self.root / name) < before]

    async def clear(self, job_id: str) -> None:
        """Remove what is on this machine of a job."""
        await asyncio.to_thread(shutil.rmtree, self.root / job_id, ignore_errors=True)
        await self.uploads.put_away(job_id)

    async def remove(self, job_id: str) -> None:
        if (self.root / job_id).exists():
            await asyncio.to_thread(shutil.rmtree, self.root / job_id, ignore_errors=True)
        if self.blob_store is not None:
            await self.blob_store.remove(f"{PREFIX}{job_id}/")
        await self.uploads.remove(job_id)

    def _remove_attempts_except(self, job: Job) -> None:
        # Not the next one: the job may have been restarted meanwhile.
        earlier = {str(attempt) for attempt in range(job.attempt)}
        scratch = f"{job.attempt}."
        self._remove_directories(
            job.job_id, lambda name: name.partition(".")[0] in earlier or name.startswith(scratch)
        )

    def _remove_attempt(self, job_id: str, attempt: int) -> None:
        self._remove_directories(job_id, lambda name: name.partition(".")[0] == str(attempt))

    def _remove_directories(self, job_id: str, unwanted: Callable[[str], bool]) -> None:
        of_job = self.root / job_id
        with contextlib.suppress(OSError):  # removed meanwhile; or something is left in it
            for directory in of_job.iterdir():
                if unwanted(directory.name):
                    shutil.rmtree(directory, ignore_errors=True)
            of_job.rmdir()


def _prefix(job: Job) -> str:
    return f"{PREFIX}{job.job_id}/{job.attempt}/"


def _touched_at(directory: Path) -> float:
    """When something in it was last made or removed."""
    try:
        return max(path.stat().st_mtime for path in (directory, *directory.iterdir()))
    except OSError:  # removed meanwhile
        return time.time()


def _has_upload(job: Job) -> bool:
    """Whether its parameters name what came with it, in one of the ways there are."""
    parameters = flatten_parameters(job.parameters)
    source = parameters.get("file_source")
    if isinstance(source, dict) and source.get("type") == "upload":
        return True
    path = source.get("path") or source.get("value") if isinstance(source, dict) else None
    return any(job.job_id in str(text) for text in (path, parameters.get("file_path")) if text)


def _not_packed(job: Job, results: Mapping[str, Any]) -> frozenset[str]:
    """Texts that other files have as well, and the recording: who sent it has it."""
    pages = PurePosixPath(str(results.get("page_markdown_file") or "")).name
    return frozenset({str(results[RESULTS_FILE_KEY]), pages, job.recording_name or ""})
