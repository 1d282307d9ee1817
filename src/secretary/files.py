"""The files of jobs in a local directory: what came with them, and what each attempt made."""

import asyncio
import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from .archive import pack
from .cache import Cache
from .errors import NotFound
from .job import MORE_IN, Job, JobStatus
from .uploads import Uploads


class JobFiles:
    """`jobs/<job_id>/<attempt>/`: an attempt writes to its own directory, and the job's final
    state names the attempt that counts. So a worker that lost the job cannot spoil the results."""

    def __init__(
        self, data_directory: Path, uploads: Uploads | None = None, cache: Cache | None = None
    ) -> None:
        self.root = data_directory / "jobs"
        self.uploads = uploads or Uploads(data_directory)
        self.cache = cache or Cache(data_directory)

    def of_attempt(self, job: Job) -> str:
        # Plain strings: this is asked for each job, and most need no files.
        return f"{self.root}/{job.job_id}/{job.attempt}"

    def locate(self, job: Job, name: str) -> Path:
        """A file that the job's last attempt made. `NotFound` also for whatever tries to lead
        elsewhere: by `..`, by a link, by an absolute path."""
        root = Path(os.path.realpath(self.of_attempt(job)))
        path = root.joinpath(*name.split("/"))
        try:
            inside = path.is_relative_to(root) and os.path.realpath(path) == str(path)
            if inside and path.is_file():
                return path
        except (ValueError, OSError):  # a NUL, a name that is too long
            pass
        raise NotFound("There is no such file")

    def made_so_far(self, job: Job) -> list[tuple[str, int]]:
        """Names and sizes of what the last attempt has made, also while it runs. Takes a while."""
        root = self.of_attempt(job)
        unseen = str((job.results or {}).get(MORE_IN))
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

    def archive(self, job: Job) -> Path:
        """The ZIP with everything the job has made. Takes a while: that of a document is packed
        when it is first asked for."""
        results = job.results or {}
        name = results.get("archive_filename")
        if job.status is not JobStatus.COMPLETED or not isinstance(name, str):
            raise NotFound(f"The job {job.job_id} has no archive")
        directory = Path(self.of_attempt(job))
        target = directory / name
        is_ours = job.has_more_results and target.parent == directory
        if is_ours and directory.is_dir() and not target.exists():
            pack(directory, target, without=_not_packed(job, results))
        return self.locate(job, name)

    def filled(self, job: Job) -> Job:
        """The job with all of its results: long texts are in a file. Takes a while."""
        if not job.has_more_results:
            return job
        results = dict(job.results or {})
        name = results.pop(MORE_IN)
        try:
            more = orjson.loads(self.locate(job, str(name)).read_bytes())
        except (NotFound, OSError, ValueError):
            more = {}  # removed by hand: what is left is told
        metadata = {**(results.get("metadata") or {}), **(more.pop("metadata", None) or {})}
        return job.model_copy(update={"results": {**results, **more, "metadata": metadata}})

    # Looking whether there is a directory takes a microsecond: not worth a thread for each job.

    async def keep_only(self, job: Job) -> None:
        """The job completed: its upload and what its earlier attempts left are of no use."""
        if os.path.exists(f"{self.root}/{job.job_id}"):  # noqa: ASYNC240
            await asyncio.to_thread(self._remove_attempts_except, job)
        await self.uploads.remove(job.job_id)

    async def discard(self, job: Job) -> None:
        """This attempt came to nothing. What was uploaded stays, for the next one."""
        if os.path.exists(f"{self.root}/{job.job_id}"):  # noqa: ASYNC240
            await asyncio.to_thread(self._remove_attempt, job)

    async def remove(self, job_id: str) -> None:
        if (self.root / job_id).exists():
            await asyncio.to_thread(shutil.rmtree, self.root / job_id, ignore_errors=True)
        await self.uploads.remove(job_id)

    def _remove_attempts_except(self, job: Job) -> None:
        # Not the next one: the job may have been restarted meanwhile.
        earlier = {str(attempt) for attempt in range(job.attempt)}
        scratch = f"{job.attempt}."
        self._remove_directories(
            job, lambda name: name.partition(".")[0] in earlier or name.startswith(scratch)
        )

    def _remove_attempt(self, job: Job) -> None:
        self._remove_directories(job, lambda name: name.partition(".")[0] == str(job.attempt))

    def _remove_directories(self, job: Job, unwanted: Callable[[str], bool]) -> None:
        of_job = self.root / job.job_id
        for directory in of_job.iterdir():
            if unwanted(directory.name):
                shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(OSError):  # something is left in it
            of_job.rmdir()


def _not_packed(job: Job, results: Mapping[str, Any]) -> frozenset[str]:
    """Texts that other files have as well, and the recording: who sent it has it."""
    pages = PurePosixPath(str(results.get("page_markdown_file") or "")).name
    return frozenset({str(results[MORE_IN]), pages, job.kept_recording or ""})
