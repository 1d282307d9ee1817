"""A service elsewhere, asked by HTTP."""

from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from ..client.batches import AsyncBatch
from ..client.connection import Connection
from ..client.documents import BatchDocument, JobDocument
from ..client.downloads import download, path_of
from ..client.errors import NotFound as NoSuchFile
from ..client.jobs import AsyncJob
from ..client.retries import Retries
from ..client.tasks import Task, new_key, submit
from ..errors import InvalidParameters
from .place import (
    WAITING,
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
from .refusals import refusals

if TYPE_CHECKING:
    from ..doctor import Finding

TIMEOUT = 60.0


class There:
    def __init__(self, url: str, api_key: str | None) -> None:
        self.url = checked(url)
        self._connection = Connection(
            self.url, api_key=api_key, user=None, timeout=TIMEOUT, retries=Retries(), verify=True
        )

    async def __aenter__(self) -> "There":
        """Asked once whether it is there: later on a service that is away is waited for."""
        try:
            with refusals(self.url):
                await self._connection.get("/api/health/live", attempts=1)
        except BaseException:
            await self._connection.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._connection.close()

    async def job_types(self) -> list[str]:
        with refusals(self.url):
            found = await self._connection.get("/api/job-types")
        return [each["job_type"] for each in found["job_types"]]

    async def has_workers(self) -> bool:
        with refusals(self.url):
            return bool((await self._connection.get("/api/health"))["workers"])

    async def submit(self, request: Document, file: Path | None = None) -> Document:
        given = {name: value for name, value in request.items() if value is not None}
        with refusals(self.url):
            if file is None:
                answer = await self._connection.post("/api/jobs", given, key=new_key())
                document: Document = answer["data"]["job"]
                return document
            try:
                job = await submit(self._connection, Task(**given), file=file)
            except OSError as error:
                raise InvalidParameters(f"{file}: {error.strerror}") from None
            except ValueError as error:
                raise InvalidParameters(f"--file: {error}") from None
        return await self.job(job.job_id)

    async def job(self, job_id: str) -> Document:
        with refusals(self.url):
            document: Document = await self._connection.get(self._job(job_id).path)
        return document

    async def follow(self, job_id: str, tell: Tell) -> Document:
        job = self._job(job_id)
        with refusals(self.url):
            async for told in job.updates():
                is_waiting = told.step in ("pending", "queued")
                tell(Advance(told.percent, WAITING if is_waiting else told.message or told.step))
        return job.document.raw

    async def jobs(self, wanted: JobFilter) -> Listed:
        return await self._listed(
            "jobs",
            status=",".join(wanted.status) or None,
            job_type=wanted.job_type,
            batch_id=wanted.batch_id,
            user_id=wanted.user_id,
            archived="all" if wanted.everything else None,
            limit=wanted.limit,
            cursor=wanted.cursor,
        )

    async def change(self, job_id: str, verb: JobVerb) -> Document:
        job = self._job(job_id)
        with refusals(self.url):
            match verb:
                case "cancel":
                    await job.cancel()
                case "restart":
                    await job.restart()
                case "archive":
                    await job.archive()
                case "unarchive":
                    await job.unarchive()
        return job.document.raw

    async def delete(self, job_id: str) -> None:
        with refusals(self.url):
            await self._job(job_id).delete()

    async def file(self, job: Document, link: str, into: Path) -> Path | None:
        job_id = job["job_id"]
        if (name := name_in(job_id, link)) is None:
            return None
        path = path_of(job_id, link)
        with refusals(self.url):
            try:
                return await download(self._connection, path, into / PurePosixPath(name).name)
            except NoSuchFile:
                return None

    async def submit_batch(self, request: Document) -> Document:
        with refusals(self.url):
            answer = await self._connection.post("/api/batches", request, key=new_key())
        document: Document = answer["data"]["batch"]
        return document

    async def batch(self, batch_id: str) -> Document:
        with refusals(self.url):
            document: Document = await self._connection.get(self._batch(batch_id).path)
        return document

    async def batches(self, wanted: BatchFilter) -> Listed:
        return await self._listed(
            "batches",
            user_id=wanted.user_id,
            archived="all" if wanted.everything else None,
            limit=wanted.limit,
            cursor=wanted.cursor,
        )

    async def change_batch(self, batch_id: str, verb: BatchVerb) -> Document:
        batch = self._batch(batch_id)
        with refusals(self.url):
            match verb:
                case "pause":
                    await batch.pause()
                case "resume":
                    await batch.resume()
                case "archive":
                    await batch.archive()
                case "unarchive":
                    await batch.unarchive()
                case "cancel":
                    await batch.cancel()
                case "restart-failed":
                    await batch.restart_failed()
        return batch.document.raw

    async def delete_batch(self, batch_id: str) -> None:
        with refusals(self.url):
            await self._batch(batch_id).delete()

    async def templates(self) -> list[Document]:
        with refusals(self.url):
            found: list[Document] = (await self._connection.get("/api/templates"))["templates"]
        return found

    async def workers(self) -> list[Document]:
        with refusals(self.url):
            found: list[Document] = (await self._connection.get("/api/workers"))["workers"]
        return found

    async def findings(self) -> "list[Finding]":
        from .check_up import look_at_service  # loaded here: it is heavy

        with refusals(self.url):
            return await look_at_service(self._connection)

    async def _listed(self, what: str, **query: Any) -> Listed:
        with refusals(self.url):
            page = await self._connection.get(f"/api/{what}", **query)
        return Listed(page[what], page["next_cursor"])

    def _job(self, job_id: str) -> AsyncJob:
        return AsyncJob(self._connection, JobDocument(job_id=job_id))

    def _batch(self, batch_id: str) -> AsyncBatch:
        return AsyncBatch(self._connection, BatchDocument(batch_id=batch_id))


def checked(url: str) -> str:
    try:
        parts = httpx.URL(url)
        if parts.scheme in ("http", "https") and parts.host:
            return url
    except httpx.InvalidURL:
        pass
    raise InvalidParameters(
        f"--url {url}: it must be the address of a service, like http://127.0.0.1:5000"
    )
