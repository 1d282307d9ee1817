"""The store of this machine, or the MongoDB that the settings name, without a service."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from ..app import examine, make_job_service, make_registry, make_templates, opened_store
from ..config import Settings
from ..core.errors import InvalidParameters, InvalidSettings, NotFound
from ..core.job import FINAL_STATUSES, Job, JobStatus, new_id
from ..jobs.service import JobService
from ..jobs.submission import BatchRequest, JobRequest, parse_request
from ..observability.doctor import Finding
from ..store import BatchQuery, JobQuery
from ..store.workers import worker_document
from .backend import (
    Advance,
    BatchFilter,
    BatchVerb,
    Document,
    JobFilter,
    JobVerb,
    Listed,
    Tell,
    name_in,
)

BIG = frozenset({"results", "logs"})
PIECE = 1024 * 1024
#: A page takes milliseconds, a scan minutes: the longer a job takes, the rarer it is looked at.
FIRST_LOOK, LAST_LOOK = 0.01, 0.2


class LocalBackend:
    """The store is opened when it is first needed. With a `desk` of its own, as `convert` has it,
    files are read where they are and long texts stay in theirs."""

    def __init__(self, settings: Settings, job_service: JobService | None = None) -> None:
        self._settings = settings
        self._job_service = job_service
        self._in_place = job_service is not None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "LocalBackend":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def job_types(self) -> list[str]:
        registry = (
            self._job_service.registry if self._job_service else make_registry(self._settings)
        )
        return sorted(registry.job_types)

    async def has_workers(self) -> bool:
        return bool(await (await self._opened()).workers_alive())

    async def submit(self, request: Document, file: Path | None = None) -> Document:
        job_service = await self._opened(make=True)
        if file is None:
            return (await job_service.submit(parse_request(JobRequest, request))).document()
        parameters = request.get("parameters") or {}
        if self._in_place:
            path = await asyncio.to_thread(file.resolve)
            named = {**request, "parameters": {**parameters, "file_path": str(path)}}
            return (await job_service.submit(parse_request(JobRequest, named))).document()
        return await self._uploaded(job_service, request, parameters, file)

    async def _uploaded(
        self, job_service: JobService, request: Document, parameters: Mapping[str, Any], file: Path
    ) -> Document:
        require_file_type(job_service, str(request["job_type"]))
        job_id = new_id("job")
        upload = await job_service.files.uploads.receive(job_id, file.name, _pieces(file))
        try:
            named = {**request, "parameters": {**parameters, "file_source": upload.source()}}
            job = await job_service.submit(
                parse_request(JobRequest, named), job_id=job_id, upload=upload
            )
        except InvalidParameters:
            await job_service.files.uploads.remove(job_id)
            raise
        return job.document()

    async def job(self, job_id: str) -> Document:
        return (await (await self._opened()).job(job_id)).document()

    async def follow(self, job_id: str, tell: Tell) -> Document:
        job_service, wait = await self._opened(), FIRST_LOOK
        while (job := await job_service.get_without_results(job_id)).status not in FINAL_STATUSES:
            tell(Advance.of(_shown(job)))
            await asyncio.sleep(wait)
            wait = min(wait * 1.3, LAST_LOOK)
        return (job if self._in_place else await job_service.job(job_id)).document()

    async def jobs(self, wanted: JobFilter) -> Listed:
        query = JobQuery(
            status=frozenset(JobStatus(status) for status in wanted.status) or None,
            job_type=wanted.job_type,
            batch_id=wanted.batch_id,
            user_id=wanted.user_id,
            archived=None if wanted.everything else False,
            limit=wanted.limit,
            cursor=wanted.cursor,
        )
        page = await (await self._opened()).jobs(query)
        return Listed([_shown(job) for job in page.items], page.next_cursor)

    async def change(self, job_id: str, verb: JobVerb) -> Document:
        job_service = await self._opened()
        match verb:
            case "cancel":
                return _shown(await job_service.cancel(job_id))
            case "restart":
                return _shown(await job_service.restart(job_id))
            case "archive":
                return _shown(await job_service.archive(job_id))
            case "unarchive":
                return _shown(await job_service.archive(job_id, archived=False))

    async def delete(self, job_id: str) -> None:
        await (await self._opened()).delete(job_id)

    async def file(self, job: Document, link: str, into: Path) -> Path | None:
        job_service, name = await self._opened(), name_in(job["job_id"], link)
        if name is None:
            return None
        try:
            owner = Job(job_id=job["job_id"], attempt=job["attempt"])
            found = await job_service.files.find(owner, name)
        except NotFound:
            return None
        if found.path is not None:
            return found.path
        return await _saved(job_service.files.pieces(found), into / found.name)

    async def submit_batch(self, request: Document) -> Document:
        job_service = await self._opened(make=True)
        batch, _ = await job_service.submit_batch(parse_request(BatchRequest, request))
        return batch.document()

    async def batch(self, batch_id: str) -> Document:
        return (await (await self._opened()).batch(batch_id)).document()

    async def batches(self, wanted: BatchFilter) -> Listed:
        archived = None if wanted.everything else False
        query = BatchQuery(
            user_id=wanted.user_id, archived=archived, limit=wanted.limit, cursor=wanted.cursor
        )
        page = await (await self._opened()).batches(query)
        return Listed([batch.document() for batch in page.items], page.next_cursor)

    async def change_batch(self, batch_id: str, verb: BatchVerb) -> Document:
        job_service = await self._opened()
        match verb:
            case "pause" | "resume":
                return (await job_service.set_batch_active(batch_id, verb == "resume")).document()
            case "archive":
                return (await job_service.archive_batch(batch_id)).document()
            case "unarchive":
                return (await job_service.archive_batch(batch_id, archived=False)).document()
            case "cancel":
                job_ids = await job_service.cancel_batch(batch_id)
            case "restart-failed":
                job_ids = await job_service.restart_failed(batch_id)
        return {**(await job_service.batch(batch_id)).document(), "job_ids": job_ids}

    async def delete_batch(self, batch_id: str) -> None:
        await (await self._opened()).delete_batch(batch_id)

    async def templates(self) -> list[Document]:
        listed = await asyncio.to_thread(make_templates(self._settings).listed)
        return [one.document() for one in listed]

    async def workers(self) -> list[Document]:
        workers = await (await self._opened()).store.workers()
        return [worker_document(one) for one in sorted(workers, key=lambda one: one.started_at)]

    async def findings(self) -> list[Finding]:
        return await examine(self._settings)

    async def _opened(self, *, make: bool = False) -> JobService:
        """Only what adds something makes a new store: a mistyped directory should be noticed,
        not filled."""
        if self._job_service is None:
            if not make:
                _require_store(self._settings)
            store = await self._stack.enter_async_context(opened_store(self._settings))
            self._job_service = make_job_service(self._settings, store)
        return self._job_service


def require_file_type(job_service: JobService, job_type: str) -> None:
    """A file that nobody would read is refused; what an unknown type takes is not known."""
    known = (
        job_service.registry[job_type].parameters.model_fields
        if job_type in job_service.registry
        else {}
    )
    if known and "file_source" not in known:
        raise InvalidParameters(f"--file: a job of type {job_type!r} takes no file")


def _require_store(settings: Settings) -> None:
    directory = settings.storage.data_dir
    file = settings.database_file
    if file is not None and not file.exists():
        raise InvalidSettings(
            f"storage.data_dir: there are no jobs in {directory.resolve()} yet. Start the service"
            " there, name another directory with --data-dir, or a service with --url."
        )


def _shown(job: Job) -> Document:
    return job.document(without=BIG)


async def _saved(pieces: AsyncIterator[bytes], target: Path) -> Path:
    with await asyncio.to_thread(target.open, "wb") as file:
        async for piece in pieces:
            await asyncio.to_thread(file.write, piece)
    return target


async def _pieces(file: Path) -> AsyncIterator[bytes]:
    try:
        with await asyncio.to_thread(file.open, "rb") as stream:
            while piece := await asyncio.to_thread(stream.read, PIECE):
                yield piece
    except OSError as error:
        raise InvalidParameters(f"{file}: {error.strerror}") from None
