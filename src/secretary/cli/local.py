"""The backend that works on the store directly (SQLite or MongoDB), and the store and worker that
`convert` runs for itself alone."""

import asyncio
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from ..app import Application
from ..config import Settings
from ..core.errors import InvalidParameters, InvalidSettings, NotFound
from ..core.files import PRIVATE_UMASK
from ..core.job import FINAL_STATUSES, Job, JobStatus, JobWarning, new_id
from ..jobs.service import JobService
from ..jobs.submission import BatchRequest, JobRequest, parse_request
from ..observability.doctor import Finding
from ..store import BatchQuery, JobQuery
from ..store.claims import worker_document
from . import backend

CHUNK_BYTES = 1024 * 1024
#: Seconds between polls of a job: a page takes milliseconds, a scan minutes.
FIRST_POLL, LONGEST_POLL = 0.01, 0.2


class LocalBackend:
    """Opens the store on first use.

    With an open `job_service`, as in `convert`, files are read in place instead of being
    copied to the store, and finished jobs are returned without long texts."""

    def __init__(self, app: Application, job_service: JobService | None = None) -> None:
        self._app = app
        self._job_service = job_service
        self._in_place = job_service is not None
        self._stack = AsyncExitStack()

    async def aclose(self) -> None:
        await self._stack.aclose()

    async def job_types(self) -> list[str]:
        return sorted(self._app.registry.job_types)

    async def submit(self, request: backend.Document, file: Path | None = None) -> backend.Document:
        service = await self._service(create=True)
        parameters = dict(request.get("parameters") or {})
        upload = None
        if file is not None and self._in_place:
            parameters["file_path"] = str(await asyncio.to_thread(file.resolve))
        elif file is not None:
            handlers, job_type = service.registry, request["job_type"]
            fields = handlers[job_type].parameters.model_fields if job_type in handlers else {}
            if fields and "file_source" not in fields:
                raise InvalidParameters(f"--file: a job of type {job_type!r} takes no file")
            upload = await service.files.uploads.receive(new_id("job"), file.name, _chunks(file))
            parameters["file_source"] = upload.source()
        async with service.adding([upload] if upload else []) as job_ids:
            job_request = parse_request(JobRequest, {**request, "parameters": parameters})
            job = await service.submit(job_request, uploads=[upload] if upload else [])
            job_ids.append(job.job_id)
        return _with_warnings(job.document(), service.warnings(job_request))

    async def submit_batch(self, request: backend.Document) -> backend.Document:
        service = await self._service(create=True)
        batch_request = parse_request(BatchRequest, request)
        batch, _ = await service.submit_batch(batch_request)
        return _with_warnings(batch.document(), service.warnings(batch_request))

    async def get(self, collection: backend.Collection, resource_id: str) -> backend.Document:
        service = await self._service()
        if collection == "jobs":
            return (await service.job(resource_id)).document()
        return (await service.batch(resource_id)).document()

    async def find(
        self, collection: backend.Collection, filters: backend.ListFilter
    ) -> backend.Page:
        """List jobs (without their results and logs) or batches, newest first."""
        service = await self._service()
        query: dict[str, Any] = {
            "user_id": filters.user_id,
            "archived": None if filters.include_archived else False,
            "limit": filters.limit,
            "cursor": filters.cursor,
        }
        if collection == "batches":
            batches = await service.batches(BatchQuery(**query))
            return backend.Page([batch.document() for batch in batches.items], batches.next_cursor)
        status = frozenset(JobStatus(status) for status in filters.status) or None
        query |= {"status": status, "job_type": filters.job_type, "batch_id": filters.batch_id}
        jobs = await service.jobs(JobQuery(**query))
        return backend.Page([job.summary() for job in jobs.items], jobs.next_cursor)

    async def delete(self, collection: backend.Collection, resource_id: str) -> None:
        service = await self._service()
        await (service.delete if collection == "jobs" else service.delete_batch)(resource_id)

    async def follow(self, job_id: str, on_progress: backend.OnProgress) -> backend.Document:
        """Wait for the job to finish and return it."""
        service, wait = await self._service(), FIRST_POLL
        while (job := await service.get_without_results(job_id)).status not in FINAL_STATUSES:
            on_progress(backend.JobProgress.of(job.summary()))
            await asyncio.sleep(wait)
            wait = min(wait * 1.3, LONGEST_POLL)
        return (await service.job(job_id)).document()

    async def change_job(self, job_id: str, action: backend.JobAction) -> backend.Document:
        service = await self._service()
        match action:
            case "cancel":
                return (await service.cancel(job_id)).summary()
            case "restart":
                return (await service.restart(job_id)).summary()
            case "archive" | "unarchive":
                archived = action == "archive"
                return (await service.archive(job_id, archived=archived)).summary()

    async def fetch_file(self, job: backend.Document, link: str, directory: Path) -> Path | None:
        """Return the path of a file that the results link to, or None if it does not exist.

        A file that is not on this machine is saved to `directory`."""
        service, name = await self._service(), backend.linked_file_name(job["job_id"], link)
        if name is None:
            return None
        try:
            owner = Job(job_id=job["job_id"], attempt=job["attempt"])
            file = await service.files.find(owner, name)
        except NotFound:
            return None
        if file.path is not None:
            return file.path
        target = directory / file.name
        with await asyncio.to_thread(target.open, "wb") as stream:
            async for chunk in service.files.stream(file):
                await asyncio.to_thread(stream.write, chunk)
        return target

    async def change_batch(self, batch_id: str, action: backend.BatchAction) -> backend.Document:
        """Return the batch, with the changed `job_ids` if the action applies to its jobs."""
        service = await self._service()
        match action:
            case "pause" | "resume":
                return (await service.set_batch_active(batch_id, action == "resume")).document()
            case "archive" | "unarchive":
                archived = action == "archive"
                return (await service.archive_batch(batch_id, archived=archived)).document()
            case "cancel":
                job_ids = await service.cancel_batch(batch_id)
            case "restart-failed":
                job_ids = await service.restart_failed(batch_id)
        return {**(await service.batch(batch_id)).document(), "job_ids": job_ids}

    async def templates(self) -> list[backend.Document]:
        templates = await asyncio.to_thread(self._app.templates.listed)
        return [template.document() for template in templates]

    async def workers(self) -> list[backend.Document]:
        workers = await (await self._service()).store.workers()
        return [worker_document(worker) for worker in sorted(workers, key=lambda w: w.started_at)]

    async def findings(self) -> list[Finding]:
        """Run the doctor's checks."""
        return await self._app.check()

    async def _service(self, *, create: bool = False) -> JobService:
        """Open the store. Only submitting creates one, so that a mistyped directory is reported."""
        if self._job_service is None:
            settings = self._app.settings
            if not create and settings.database_file and not settings.database_file.exists():
                raise InvalidSettings(
                    f"storage.data_dir: there are no jobs in {settings.storage.data_dir.resolve()}"
                    " yet. Start the service there, choose another directory with --data-dir, or a"
                    " service with --url."
                )
            if create:
                os.umask(PRIVATE_UMASK)
            await self._stack.enter_async_context(self._app)
            self._job_service = self._app.job_service
        return self._job_service


def _with_warnings(document: backend.Document, warnings: Sequence[JobWarning]) -> backend.Document:
    return document | {"warnings": [warning.model_dump() for warning in warnings]}


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    try:
        with await asyncio.to_thread(file.open, "rb") as stream:
            while chunk := await asyncio.to_thread(stream.read, CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise InvalidParameters(f"{file}: {error.strerror}") from None


RUN_PREFIX = "run-"
LOCK = "lock"


@asynccontextmanager
async def ephemeral_runtime(settings: Settings, *, slots: int) -> AsyncIterator[Application]:
    """Run a worker for the jobs submitted to the yielded application; stop them at exit."""
    from ..serve import run_worker  # slow to import, and only needed here

    async with AsyncExitStack() as stack:
        app = Application(settings)
        components = app.worker(slots=slots)
        stack.push_async_callback(components.sandbox.close)
        await components.sandbox.open()  # first, because starting processes takes longest
        await stack.enter_async_context(app)
        caller = asyncio.current_task()
        assert caller is not None

        def cancel_caller(_: asyncio.Task[None]) -> None:
            caller.cancel()  # without a worker it would wait forever

        worker_task = asyncio.create_task(run_worker(components))
        worker_task.add_done_callback(cancel_caller)
        try:
            yield app
        finally:
            worker_task.remove_done_callback(cancel_caller)
            components.worker.drain()
            components.worker.drain()  # the second call stops running jobs at once
            await worker_task


@contextmanager
def run_directory(parent: Path) -> Iterator[Path]:
    """Create a directory for one run, and remove those of runs that were killed."""
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(parent)
        directory = Path(tempfile.mkdtemp(prefix=RUN_PREFIX, dir=parent.resolve()))
    except OSError as error:
        text = f"{parent} cannot be written: {error.strerror}. Name another place with --data-dir."
        raise InvalidSettings(text) from None
    lock = os.open(directory / "new", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(directory / "new", directory / LOCK)  # so the lock file is never seen unlocked
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    for directory in parent.glob(f"{RUN_PREFIX}*"):
        try:
            lock = os.open(directory / LOCK, os.O_RDWR)
        except OSError:  # another run is just starting or ending
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(lock)


def user_cache() -> Path:
    """The user's cache directory for this program."""
    is_mac = sys.platform == "darwin"
    caches = "~/Library/Caches" if is_mac else os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(caches)) / "secretary"
