"""The files of jobs: the artifacts of each attempt, and how they reach a shared blob store."""

import asyncio
import hashlib
import logging
import os
import re
import shutil
import time
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import orjson

from ..core.errors import NotFound, StoreUnavailable
from ..core.files import atomic_write, safe_name
from ..core.job import ARCHIVE_ROOT_KEY, RESULTS_FILE_KEY, Job, JobStatus, flatten_parameters
from .blob_store import BlobInfo, BlobStore, is_safe_key, walk_files
from .cache import ENTRY_FILE, Cache, CacheEntry
from .sources import UPLOAD_GONE, Upload, Uploads

logger = logging.getLogger(__name__)

UPLOAD_INTERVAL = 2.0
TOUCH_INTERVAL = 3600.0
#: Suffix of files that are appended to. All others are complete when they get their names.
APPENDED = ".jsonl"
#: Names of files that are still being written.
INCOMPLETE = re.compile(r"^\.|\.[0-9a-f]{32}$")


#: The size and modification time of a file; if they change, it is uploaded again.
_FileState = tuple[int, int]


@dataclass(slots=True)
class _SyncedDirectory:
    """A local directory, its prefix in the blob store, and the files that are in sync."""

    path: str
    prefix: str
    synced: dict[str, _FileState] = field(default_factory=dict)

    def changed_files(self) -> dict[str, _FileState]:
        states = _file_states(self.path)
        return {name: state for name, state in states.items() if self.synced.get(name) != state}


class ArtifactSync:
    """The directory of one attempt and the cache entries it uses."""

    def __init__(self, blob_store: BlobStore, attempt_directory: str, prefix: str) -> None:
        self._blob_store = blob_store
        self._directories = {prefix: _SyncedDirectory(attempt_directory, prefix)}
        self._lock = asyncio.Lock()

    async def download_entry(self, entry: CacheEntry) -> CacheEntry:
        """Add what other machines have cached. If the blob store is unavailable, the work is done
        again."""
        # With a hash of the version: entries of older versions are not used.
        version_hash = hashlib.sha256(entry.version.encode()).hexdigest()[:12]
        prefix = f"{entry.name}@{version_hash}/"
        if prefix not in self._directories:
            directory = _SyncedDirectory(str(entry.directory), prefix)
            try:
                await self._download(directory)
            except StoreUnavailable as error:
                logger.warning("Could not read the shared cache: %s", error)
            self._directories[prefix] = directory
        return await asyncio.to_thread(entry.reload)

    async def _download(self, directory: _SyncedDirectory) -> None:
        local = await asyncio.to_thread(_file_states, directory.path)
        wanted: dict[str, BlobInfo] = {}
        async for blob in self._blob_store.list_blobs(directory.prefix):
            name = blob.key.removeprefix(directory.prefix)
            state = local.get(name)
            if state is None or (name.endswith(APPENDED) and state[0] < blob.size):
                wanted[name] = blob
            elif state[0] == blob.size and not _is_touch_due(name, blob):
                directory.synced[name] = state
        root = Path(directory.path)
        await self._blob_store.fetch(
            list(wanted.values()), lambda key: root / key.removeprefix(directory.prefix)
        )
        local = await asyncio.to_thread(_file_states, directory.path)
        for name, blob in wanted.items():
            if name in local and not _is_touch_due(name, blob):
                directory.synced[name] = local[name]

    async def run(self) -> None:
        """Upload changes periodically until cancelled."""
        while True:
            await asyncio.sleep(UPLOAD_INTERVAL)
            try:
                await self.upload_changes()
            except (StoreUnavailable, OSError) as error:
                logger.warning("Could not upload files to the blob store; retrying: %s", error)

    async def upload_changes(self) -> None:
        async with self._lock:
            for directory in list(self._directories.values()):
                await self._upload(directory)

    async def _upload(self, directory: _SyncedDirectory) -> None:
        """Logs are snapshot first and uploaded last: the files that their records refer to are
        then already there."""
        if not await asyncio.to_thread(directory.changed_files):
            return  # most small jobs have no files; save them the temporary directory
        with TemporaryDirectory(prefix="upload-") as temporary:
            logs = await asyncio.to_thread(_snapshot_logs, directory, Path(temporary))
            changed = await asyncio.to_thread(directory.changed_files)
            files = {name: state for name, state in changed.items() if not name.endswith(APPENDED)}
            for root, states in ((Path(directory.path), files), (Path(temporary), logs)):
                await self._blob_store.put(
                    [(directory.prefix + name, root / name) for name in states]
                )
                directory.synced.update(states)


def _is_touch_due(name: str, blob: BlobInfo) -> bool:
    """Entry files are uploaded again now and then, which shows that the entry is in use."""
    return name == ENTRY_FILE and blob.stored_at < time.time() - TOUCH_INTERVAL


def _snapshot_logs(directory: _SyncedDirectory, target: Path) -> dict[str, _FileState]:
    changed = directory.changed_files()
    logs = {name: state for name, state in changed.items() if name.endswith(APPENDED)}
    for name, (size, _) in logs.items():
        with open(f"{directory.path}/{name}", "rb") as file:
            (target / name).write_bytes(file.read(size))
    return logs


def _list_files(directory: str) -> list[tuple[str, int]]:
    """Names and sizes of the files below a directory, without hidden ones."""
    files = walk_files(directory)
    return [
        (path, status.st_size)
        for path, status in files
        if not path.rpartition("/")[2].startswith(".")
    ]


def _file_states(directory: str) -> dict[str, _FileState]:
    files = walk_files(directory, INCOMPLETE)
    return {name: (status.st_size, status.st_mtime_ns) for name, status in files}


#: Of the artifacts' keys in a blob store.
PREFIX = "jobs/"
NO_SUCH_FILE = "No such file"
#: Formats that are compressed already.
COMPRESSED = frozenset({".jpg", ".jpeg", ".png", ".gif", ".webp", ".mp3", ".mp4", ".zip"})


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """An artifact, either on this machine (`path`) or in the blob store (`blob`)."""

    name: str
    size: int
    modified_at: float
    path: Path | None = None
    blob: BlobInfo | None = None


class JobFiles:
    """Each attempt writes to its own directory, `jobs/<job_id>/<attempt>/`; the final state of the
    job names the attempt that counts. So a worker that lost its lease cannot corrupt the results.

    With a blob store, these directories are only local working copies of what is stored there."""

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

    def attempt_directory(self, job: Job) -> str:
        # A plain string, because this is called for every job and most need no files.
        return f"{self.root}/{job.job_id}/{job.attempt}"

    def artifact_sync(self, job: Job) -> ArtifactSync | None:
        """What uploads the files of this attempt; None without a blob store."""
        if self.blob_store is None:
            return None
        return ArtifactSync(self.blob_store, self.attempt_directory(job), _prefix(job))

    async def download_upload(self, job: Job) -> None:
        """Make sure that the job's upload is on this machine."""
        if self.blob_store is not None and _has_upload(job):
            await self.uploads.download(job.job_id)

    async def copy_upload(self, job: Job, source: dict[str, Any], target_job_id: str) -> Upload:
        """Copy the upload of a job to another one. After completion the upload is gone, but a
        recording may be among the artifacts."""
        if self.blob_store is None:
            try:
                path = self.uploads.path_of(job.job_id, source)
            except NotFound:
                if job.recording_name is None:
                    raise
                path = self.locate(job, job.recording_name)
            return await self.uploads.copy_to_job(path, source, target_job_id)
        blob = await self.blob_store.find(f"uploads/{job.job_id}/{safe_name(str(source['name']))}")
        if blob is None and job.recording_name:
            blob = await self.blob_store.find(_prefix(job) + job.recording_name)
        if blob is None:
            raise NotFound(UPLOAD_GONE)
        with self._temporary_directory() as directory:
            path = directory / "file"
            await self.blob_store.fetch([blob], lambda _: path)
            return await self.uploads.copy_to_job(path, source, target_job_id)

    async def find(self, job: Job, name: str) -> ArtifactFile:
        """An artifact of the job's last attempt."""
        if self.blob_store is None:
            return await asyncio.to_thread(self._find_local, job, name)
        if is_safe_key(name) and name.isprintable():
            blob = await self.blob_store.find(_prefix(job) + name)
            if blob is not None:
                return ArtifactFile(name.rpartition("/")[2], blob.size, blob.modified_at, blob=blob)
        raise NotFound(NO_SUCH_FILE)

    def _find_local(self, job: Job, name: str) -> ArtifactFile:
        path = self.locate(job, name)
        status = path.stat()
        return ArtifactFile(path.name, status.st_size, status.st_mtime, path=path)

    def locate(self, job: Job, name: str) -> Path:
        """The path of a local artifact of the job's last attempt. Raises `NotFound` also for names
        that lead elsewhere, by `..`, a link or an absolute path."""
        root = Path(os.path.realpath(self.attempt_directory(job)))
        path = root.joinpath(*name.split("/"))
        try:
            inside = path.is_relative_to(root) and os.path.realpath(path) == str(path)
            if inside and path.is_file():
                return path
        except (ValueError, OSError):  # a NUL, a name that is too long
            pass
        raise NotFound(NO_SUCH_FILE)

    async def read(self, file: ArtifactFile) -> bytes:
        """The content of a small file."""
        if file.path is not None:
            return await asyncio.to_thread(file.path.read_bytes)
        return b"".join([chunk async for chunk in self.stream(file)])

    async def stream(
        self, file: ArtifactFile, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        """Stream a file in the blob store from `start` up to `end`."""
        assert self.blob_store is not None and file.blob is not None
        async for chunk in self.blob_store.read(file.blob, start, end):
            yield chunk

    async def list_artifacts(self, job: Job) -> list[tuple[str, int]]:
        """Names and sizes of the last attempt's artifacts, also while it is running."""
        if self.blob_store is None:
            artifacts = await asyncio.to_thread(_list_files, self.attempt_directory(job))
        else:
            prefix = _prefix(job)
            artifacts = [
                (blob.key.removeprefix(prefix), blob.size)
                async for blob in self.blob_store.list_blobs(prefix)
            ]
        results_file = (job.results or {}).get(RESULTS_FILE_KEY)
        return sorted(artifact for artifact in artifacts if artifact[0] != results_file)

    async def attempt_bytes(self, job: Job) -> int:
        """The size of the artifacts of an attempt that has just ended on this machine."""
        directory = self.attempt_directory(job)
        if not os.path.exists(directory):  # noqa: ASYNC240
            return 0
        return sum(size for _, size in await asyncio.to_thread(_list_files, directory))

    async def archive(self, job: Job) -> ArtifactFile:
        """The ZIP with all artifacts. Document jobs create theirs on the first request, which can
        take a while."""
        name = (job.results or {}).get("archive_filename")
        if job.status is not JobStatus.COMPLETED or not isinstance(name, str):
            raise NotFound(f"The job {job.job_id} has no archive")
        if job.has_results_file and "/" not in name:
            if self.blob_store is None:
                directory = Path(self.attempt_directory(job))
                await asyncio.to_thread(_create_archive, job, directory, name)
            elif await self.blob_store.find((prefix := _prefix(job)) + name) is None:
                with self._temporary_directory() as copy:
                    blobs = [blob async for blob in self.blob_store.list_blobs(prefix)]
                    await self.blob_store.fetch(blobs, lambda key: copy / key.removeprefix(prefix))
                    if blobs:
                        await asyncio.to_thread(_create_archive, job, copy, name)
                        await self.blob_store.put([(prefix + name, copy / name)])
        return await self.find(job, name)

    @contextmanager
    def _temporary_directory(self) -> Iterator[Path]:
        self.root.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=self.root) as directory:
            yield Path(directory)

    async def load_results(self, job: Job) -> Job:
        """The job with its complete results, as clients see them: with the long texts, which are
        stored in a file, and with URLs in place of file names."""
        if not job.has_results_file:
            return job
        results = dict(job.results or {})
        name = str(results.pop(RESULTS_FILE_KEY))
        results.pop(ARCHIVE_ROOT_KEY, None)
        try:
            if self.blob_store is None:
                texts = await asyncio.to_thread(
                    lambda: orjson.loads(self.locate(job, name).read_bytes())
                )
            else:
                content = await self.read(await self.find(job, name))
                texts = await asyncio.to_thread(orjson.loads, content)
        except (NotFound, OSError, ValueError):
            texts = {}  # removed by hand: return the rest
        metadata = {**(results.get("metadata") or {}), **(texts.pop("metadata", None) or {})}
        complete = {**with_urls(job, results), **texts, "metadata": metadata}
        return job.model_copy(update={"results": complete})

    async def results_file_size(self, job: Job) -> int:
        """The size of the texts that `load_results` adds."""
        if not job.has_results_file:
            return 0
        try:
            return (await self.find(job, str((job.results or {})[RESULTS_FILE_KEY]))).size
        except NotFound:
            return 0

    # Checking whether a directory exists takes microseconds, so the event loop does it.

    async def clear_scratch(self, job: Job) -> None:
        """Remove scratch files before the outcome of the job is recorded."""
        scratch = f"{job.attempt}."
        await self._remove_directories(job.job_id, lambda name: name.startswith(scratch))

    async def remove_superseded(self, job: Job) -> None:
        """After completion: remove the upload and the files of earlier attempts, and with a blob
        store also the local working copy."""
        if self.blob_store is None:
            if job.attempt > 1:  # the scratch files of the only attempt are gone already
                # Not those of later attempts: the job may have been restarted meanwhile.
                earlier = {str(attempt) for attempt in range(job.attempt)}
                scratch = f"{job.attempt}."
                await self._remove_directories(
                    job.job_id,
                    lambda name: name.partition(".")[0] in earlier or name.startswith(scratch),
                )
            await self.uploads.remove(job.job_id)
            return
        await self._remove_local_attempt(job.job_id, job.attempt)
        for attempt in range(1, job.attempt):
            await self.blob_store.remove(f"{PREFIX}{job.job_id}/{attempt}/")
        if _has_upload(job):
            await self.uploads.remove(job.job_id)

    async def discard_attempt(self, job: Job) -> None:
        """Remove the files of an attempt that failed. The upload stays for the next one."""
        if self.blob_store is not None:
            await self.uploads.remove_local(job.job_id)
        await self.remove_attempt(job.job_id, job.attempt)

    async def remove_attempt(self, job_id: str, attempt: int) -> None:
        """Remove the files of an attempt whose worker died. The upload stays for the next one."""
        await self._remove_local_attempt(job_id, attempt)
        if self.blob_store is not None:
            await self.blob_store.remove(f"{PREFIX}{job_id}/{attempt}/")

    async def _remove_local_attempt(self, job_id: str, attempt: int) -> None:
        await self._remove_directories(job_id, lambda name: name.partition(".")[0] == str(attempt))

    async def _remove_directories(self, job_id: str, unwanted: Callable[[str], bool]) -> None:
        if os.path.exists(f"{self.root}/{job_id}"):  # noqa: ASYNC240
            await asyncio.to_thread(_remove_directories, self.root / job_id, unwanted)

    async def remove_local(self, job_id: str) -> None:
        """Remove all files of a job on this machine."""
        if (self.root / job_id).exists():
            await asyncio.to_thread(shutil.rmtree, self.root / job_id, ignore_errors=True)
        await self.uploads.remove_local(job_id)

    async def remove(self, job_id: str) -> None:
        await self.remove_local(job_id)
        if self.blob_store is not None:
            await self.blob_store.remove(f"{PREFIX}{job_id}/")
        await self.uploads.remove(job_id)


def _prefix(job: Job) -> str:
    return f"{PREFIX}{job.job_id}/{job.attempt}/"


def _has_upload(job: Job) -> bool:
    """Whether the job's parameters refer to its upload, in any of the supported ways."""
    parameters = flatten_parameters(job.parameters)
    several = parameters.get("file_sources")
    given = [parameters.get("file_source"), *(several if isinstance(several, list) else ())]
    sources = [source for source in given if isinstance(source, dict)]
    paths = [source.get(key) for source in sources for key in ("path", "value")]
    is_upload = any(source.get("type") == "upload" for source in sources)
    return is_upload or any(
        job.job_id in str(path) for path in (*paths, parameters.get("file_path"))
    )


#: Results that are the name of one artifact. Archives get the suffix `_url` with their URLs.
FILES = (
    "markdown_file",
    "extracted_text_file",
    "page_markdown_file",
    "text_file",
    "transcript_file",
)
ARCHIVES = ("pages_archive", "images_archive", "previews_archive")


def with_urls(job: Job, results: dict[str, Any]) -> dict[str, Any]:
    """Results with the URL of each artifact they name. Those stored by older versions have them."""

    def url(name: Any, route: str = "/api/files") -> Any:
        is_name = isinstance(name, str) and not name.startswith("/api/")
        return f"{route}/{job.job_id}/{quote(name)}" if is_name else name

    text_route = "/api/pdf/text-content" if job.job_type == "pdf" else "/api/files/text"
    rendered = {**results}
    rendered |= {name: url(results[name]) for name in FILES if name in results}
    rendered |= {f"{name}_url": url(rendered.pop(name)) for name in ARCHIVES if name in results}
    if "mistral_ocr_raw_file" in results:
        rendered = _with_mistral_ocr_urls(job, rendered)
    for name, route in (("assets", "/api/files"), ("page_texts", text_route)):
        if name in results:
            rendered[name] = [url(file, route) for file in results[name]]
    for name in ("subtitles", "original_subtitles"):
        if files := results.get(name):
            rendered[name] = {suffix: url(file) for suffix, file in files.items()}
    if "images" in results:
        rendered["images"] = [{"url": url(one["file"]), **one} for one in results["images"]]
        for image in rendered["images"]:
            del image["file"]
    if "frames" in results:
        rendered["frames"] = [{**frame, "url": url(frame["file"])} for frame in results["frames"]]
    if "file" in (recording := results.get("recording") or {}):
        rendered["recording"] = {"url": url(recording["file"]), **recording}
        del rendered["recording"]["file"]
    if results.get("archive_filename"):
        rendered["archive_url"] = f"/api/jobs/{job.job_id}/download-archive"
    return rendered


def _with_mistral_ocr_urls(job: Job, results: dict[str, Any]) -> dict[str, Any]:
    """The files of jobs with `mistral_ocr` have routes of their own. Other jobs have no such
    fields."""
    metadata = results.pop("mistral_ocr_raw_metadata")
    raw, images = results.pop("mistral_ocr_raw_file"), results.pop("mistral_ocr_images_archive")
    if not raw:
        return results
    path = f"/api/pdf/jobs/{job.job_id}"
    results |= {
        "mistral_ocr_raw_url": f"{path}/mistral-ocr-raw",
        "mistral_ocr_raw_metadata": metadata,
    }
    if images:
        results["mistral_ocr_images_url"] = f"{path}/mistral-ocr-images"
    if results.get("pages_archive_url"):
        results["pages_archive_url"] = f"{path}/download-pages-archive"
    return results


def _create_archive(job: Job, directory: Path, name: str) -> None:
    """Pack a directory, without the texts that are in other files as well, without the recording
    (its sender has it), and without other archives, which hold some of the same files."""
    target = directory / name
    if not directory.is_dir() or target.exists():
        return
    results = job.results or {}
    root = directory / str(results.get(ARCHIVE_ROOT_KEY) or "")
    pages = PurePosixPath(str(results.get("page_markdown_file") or "")).name
    excluded = {str(results[RESULTS_FILE_KEY]), pages, job.recording_name or ""}
    with (
        atomic_write(target) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for path in sorted(root.rglob("*")):
            if not path.is_file() or path.name.startswith(".") or path.name in excluded:
                continue
            if path.suffix != ".zip":
                is_compressed = path.suffix in COMPRESSED
                method = zipfile.ZIP_STORED if is_compressed else zipfile.ZIP_DEFLATED
                archive.write(path, path.relative_to(root), method)


def _remove_directories(job_directory: Path, unwanted: Callable[[str], bool]) -> None:
    with suppress(OSError):  # removed meanwhile, or not empty
        for directory in job_directory.iterdir():
            if unwanted(directory.name):
                shutil.rmtree(directory, ignore_errors=True)
        job_directory.rmdir()
