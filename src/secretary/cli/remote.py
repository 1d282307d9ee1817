"""A service elsewhere, asked by HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any

import httpx

from ..client.batches import AsyncBatch
from ..client.connection import Connection, Retries
from ..client.errors import ApiError, Unreachable
from ..client.errors import NotFound as NoSuchFile
from ..client.jobs import AsyncJob, download, path_of
from ..client.models import BatchDocument, JobDocument
from ..client.requests import Task, new_key, submit
from ..core.errors import (
    AccessDenied,
    Conflict,
    InvalidParameters,
    JobFailed,
    NotFound,
    RateLimited,
    SecretaryError,
    StoreUnavailable,
    Unauthorized,
)
from ..observability.doctor import Finding, Verdict, check_disk_space
from ..version import __version__
from .backend import (
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

KEY_HELP = "Give its key in SECRETARY_API_KEY, or from a file: --api-key @FILE"


@contextmanager
def refusals(url: str) -> Iterator[None]:
    try:
        yield
    except Unreachable as error:
        reason = str(error).rpartition("does not answer: ")[2]
        raise StoreUnavailable(
            f"Nothing answers at {url} ({reason}). Does the service run there?"
            " It is started with: secretary serve"
        ) from error
    except ApiError as error:
        raise error_of(error, url) from error


def error_of(error: ApiError, url: str) -> SecretaryError:
    if error.code == "NO_JSON" or error.code.startswith("HTTP_"):
        return StoreUnavailable(f"What answers at {url} is not Secretary: {error.message}")
    match error.status:
        case 400:
            return InvalidParameters(error.message)
        case 401:
            return Unauthorized(f"The service at {url} wants another API key. {KEY_HELP}")
        case 403:
            return AccessDenied(f"The service at {url} does not allow this: {error.message}")
        case 404:
            return NotFound(error.message)
        case 409:
            return Conflict(error.message)
        case 429:
            return RateLimited(error.message, retry_after=int(error.retry_after or 0))
        case status if status >= 500:
            return StoreUnavailable(f"The service at {url} cannot do this now: {error.message}")
    refused = JobFailed(error.message)
    refused.code = error.code
    return refused


TIMEOUT = 60.0


class RemoteBackend:
    def __init__(self, url: str, api_key: str | None) -> None:
        self.url = checked(url)
        self._connection = Connection(
            self.url, api_key=api_key, user=None, timeout=TIMEOUT, retries=Retries(), verify=True
        )

    async def __aenter__(self) -> "RemoteBackend":
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
        pass  # loaded here: it is heavy

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


#: Webhooks are told within seconds; after this a receiver is slow, or nobody sends.
LATE_SECONDS = 300


async def look_at_service(connection: Connection) -> list[Finding]:
    try:
        health = await connection.get("/api/health", attempts=1)
    except ApiError as error:
        if error.status != 503:
            raise
        remedy = "Look at the service's log; `secretary doctor` on its machine tells more."
        return [Finding("service", Verdict.PROBLEM, error.message, remedy)]
    system = await connection.get("/api/system")
    known = await connection.get("/api/job-types")
    handlers = ", ".join(each["job_type"] for each in known["job_types"])
    return [
        _judge_program(connection.url, health),
        Finding("handlers", Verdict.OK, handlers),
        Finding("store", Verdict.OK, f"{health['store']['kind']}, it answers"),
        *_judge_workers(health, system["workers"]),
        check_disk_space(system["disk"]["free_bytes"]),
        _judge_webhooks(float(system["webhook_lag_s"])),
    ]


def _judge_program(url: str, health: dict[str, Any]) -> Finding:
    fact = f"Secretary {health['version']} at {url}, up for {health['uptime_s'] / 3600:.1f} h"
    if health["stopping"]:
        return Finding("service", Verdict.WARNING, f"{fact}; it is shutting down")
    if health["version"] != __version__:
        return Finding("service", Verdict.INFO, f"{fact}; this program is {__version__}")
    return Finding("service", Verdict.OK, fact)


def _judge_workers(health: dict[str, Any], workers: list[dict[str, Any]]) -> Iterator[Finding]:
    jobs = health["jobs"]
    waiting = f"{jobs['pending']} jobs wait, {jobs['processing']} run"
    alive = [worker for worker in workers if worker["alive"]]
    if not alive:
        remedy = "Start one there: secretary worker"
        verdict = Verdict.WARNING if jobs["pending"] else Verdict.INFO
        yield Finding("workers", verdict, f"none is alive; {waiting}", remedy)
        return
    slots = sum(worker["slots"] for worker in alive)
    yield Finding("workers", Verdict.OK, f"{len(alive)} with {slots} slots; {waiting}")
    if others := {worker["version"] for worker in alive} - {health["version"]}:
        fact = f"workers of version {', '.join(sorted(others))} beside {health['version']}"
        yield Finding("versions", Verdict.INFO, fact)


def _judge_webhooks(late: float) -> Finding:
    if late > LATE_SECONDS:
        remedy = "The deliveries of its jobs tell why."
        return Finding("webhooks", Verdict.WARNING, f"one waits for {late:,.0f} s", remedy)
    return Finding("webhooks", Verdict.OK, "all were told in time")
