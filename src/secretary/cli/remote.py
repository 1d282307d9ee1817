"""The backend that sends every command to a running service over HTTP."""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from ..client.connection import Connection
from ..client.errors import ApiError, Unreachable
from ..client.errors import NotFound as FileNotFound
from ..client.jobs import AsyncJob, download, file_path
from ..client.models import JobDocument
from ..client.requests import Task, new_idempotency_key, submit
from ..core import errors
from ..core.errors import Conflict, InvalidParameters, NotFound, SecretaryError
from ..observability.doctor import Finding, Verdict, check_disk_space
from ..version import __version__
from . import backend

T = TypeVar("T")

#: Errors of the service that keep their message.
SAME: dict[int, type[SecretaryError]] = {400: InvalidParameters, 404: NotFound, 409: Conflict}
KEY_HELP = "Give its key in SECRETARY_API_KEY, or from a file: --api-key @FILE"


class RemoteBackend:
    def __init__(self, url: str, api_key: str | None) -> None:
        try:
            parts = httpx.URL(url)
        except httpx.InvalidURL:
            parts = httpx.URL()
        if parts.scheme not in ("http", "https") or not parts.host:
            expected = "the address of a service, such as http://127.0.0.1:5000"
            raise InvalidParameters(f"--url {url}: it must be {expected}")
        self.url = url
        self._connection = Connection(url, api_key=api_key)

    async def ping(self) -> None:
        """Fail at once if the service is not running; later requests are retried."""
        await self._get("/api/health/live", attempts=1)

    async def aclose(self) -> None:
        await self._connection.close()

    async def job_types(self) -> list[str]:
        types = await self._get("/api/job-types")
        return [each["job_type"] for each in types["job_types"]]

    async def submit(self, request: backend.Document, file: Path | None = None) -> backend.Document:
        request = {name: value for name, value in request.items() if value is not None}
        if file is None:
            created = await self._post("/api/jobs", request, key=new_idempotency_key())
            document: backend.Document = created["job"]
            return document | {"warnings": created.get("warnings", [])}
        try:
            job = await self._translated(submit(self._connection, Task(**request), file=file))
        except OSError as error:
            raise InvalidParameters(f"{file}: {error.strerror}") from None
        except ValueError as error:
            raise InvalidParameters(f"--file: {error}") from None
        warnings = [warning.model_dump() for warning in job.warnings]
        return await self.get("jobs", job.job_id) | {"warnings": warnings}

    async def submit_batch(self, request: backend.Document) -> backend.Document:
        created = await self._post("/api/batches", request, key=new_idempotency_key())
        batch: backend.Document = created["batch"]
        return batch | {"warnings": created.get("warnings", [])}

    async def get(self, collection: backend.Collection, resource_id: str) -> backend.Document:
        return await self._get(_path(collection, resource_id))

    async def find(
        self, collection: backend.Collection, filters: backend.ListFilter
    ) -> backend.Page:
        query = asdict(filters)
        query["status"] = ",".join(filters.status) or None
        query["archived"] = "all" if query.pop("include_archived") else None
        page = await self._get(f"/api/{collection}", **query)
        return backend.Page(page[collection], page["next_cursor"])

    async def delete(self, collection: backend.Collection, resource_id: str) -> None:
        await self._translated(self._connection.delete(_path(collection, resource_id)))

    async def follow(self, job_id: str, on_progress: backend.OnProgress) -> backend.Document:
        job = AsyncJob(self._connection, JobDocument(job_id=job_id))
        with remote_errors(self.url):
            async for update in job.updates():
                is_waiting = update.step in ("pending", "queued")
                text = backend.WAITING if is_waiting else update.message or update.step
                on_progress(backend.JobProgress(update.percent, text))
        return job.document.raw

    async def change_job(self, job_id: str, action: backend.JobAction) -> backend.Document:
        return await self._post(f"{_path('jobs', job_id)}/{action}", safe=action != "restart")

    async def fetch_file(self, job: backend.Document, link: str, directory: Path) -> Path | None:
        if (name := backend.linked_file_name(job["job_id"], link)) is None:
            return None
        path, target = file_path(job["job_id"], link), directory / PurePosixPath(name).name
        with remote_errors(self.url):
            try:
                return await download(self._connection, path, target)
            except FileNotFound:
                return None

    async def change_batch(self, batch_id: str, action: backend.BatchAction) -> backend.Document:
        path = _path("batches", batch_id)
        if action in ("pause", "resume"):
            return await self._post(f"{path}/toggle-active", {"isActive": action == "resume"})
        return await self._post(f"{path}/{action}", safe=action != "restart-failed")

    async def templates(self) -> list[backend.Document]:
        templates: list[backend.Document] = (await self._get("/api/templates"))["templates"]
        return templates

    async def workers(self) -> list[backend.Document]:
        workers: list[backend.Document] = (await self._get("/api/workers"))["workers"]
        return workers

    async def findings(self) -> list[Finding]:
        return await self._translated(check_service(self._connection))

    async def _get(
        self, path: str, *, attempts: int | None = None, **query: Any
    ) -> backend.Document:
        with remote_errors(self.url):
            document: backend.Document = await self._connection.get(
                path, attempts=attempts, **query
            )
        return document

    async def _post(
        self, path: str, body: Any = None, *, safe: bool = True, key: str | None = None
    ) -> backend.Document:
        answer = await self._translated(self._connection.post(path, body, safe=safe, key=key))
        document: backend.Document = answer["data"]
        return document

    async def _translated(self, request: Awaitable[T]) -> T:
        with remote_errors(self.url):
            return await request


@contextmanager
def remote_errors(url: str) -> Iterator[None]:
    """Raise the client's errors as those that the local backend would raise."""
    try:
        yield
    except Unreachable as error:
        raise errors.StoreUnavailable(
            f"Nothing answers at {url} ({error.reason}). Is the service running?"
            " It is started with: secretary serve"
        ) from error
    except ApiError as error:
        raise local_error(error, url) from error


def local_error(error: ApiError, url: str) -> SecretaryError:
    if error.code == "NO_JSON" or error.code.startswith("HTTP_"):
        return errors.StoreUnavailable(f"The server at {url} is not Secretary: {error.message}")
    if (kind := SAME.get(error.status)) is not None:
        return kind(error.message)
    if error.status == 401:
        return errors.Unauthorized(f"The service at {url} rejected the API key. {KEY_HELP}")
    if error.status == 403:
        return errors.AccessDenied(f"The service at {url} does not allow this: {error.message}")
    if error.status == 429:
        return errors.RateLimited(error.message, retry_after=int(error.retry_after or 0))
    if error.status >= 500:
        return errors.StoreUnavailable(f"The service at {url} is unavailable: {error.message}")
    failure = errors.JobFailed(error.message)
    failure.code = error.code
    return failure


def _path(collection: backend.Collection, resource_id: str) -> str:
    return f"/api/{collection}/{quote(resource_id, safe='')}"


# The doctor's checks

#: Deliveries usually take seconds. After this many, a receiver is slow or no sender is running.
MAX_WEBHOOK_DELAY = 300


async def check_service(connection: Connection) -> list[Finding]:
    try:
        health = await connection.get("/api/health", attempts=1)
    except ApiError as error:
        if error.status != 503:
            raise
        remedy = "Check the service's log, or run `secretary doctor` on its machine."
        return [Finding("service", Verdict.PROBLEM, error.message, remedy)]
    system = await connection.get("/api/system")
    types = await connection.get("/api/job-types")
    handlers = ", ".join(each["job_type"] for each in types["job_types"])
    webhooks = Finding("webhooks", Verdict.OK, "delivered on time")
    if (delay := float(system["webhook_lag_s"])) > MAX_WEBHOOK_DELAY:
        remedy = "Look at the deliveries of its jobs for the reason."
        fact = f"one is delayed by {delay:,.0f} s"
        webhooks = Finding("webhooks", Verdict.WARNING, fact, remedy)
    return [
        _check_version(connection.url, health),
        Finding("handlers", Verdict.OK, handlers),
        Finding("store", Verdict.OK, f"{health['store']['kind']}, reachable"),
        *_check_workers(health, system["workers"]),
        check_disk_space(system["disk"]["free_bytes"]),
        webhooks,
    ]


def _check_version(url: str, health: dict[str, Any]) -> Finding:
    fact = f"Secretary {health['version']} at {url}, up for {health['uptime_s'] / 3600:.1f} h"
    if health["stopping"]:
        return Finding("service", Verdict.WARNING, f"{fact}; it is shutting down")
    if health["version"] != __version__:
        return Finding("service", Verdict.INFO, f"{fact}; this program is {__version__}")
    return Finding("service", Verdict.OK, fact)


def _check_workers(health: dict[str, Any], workers: list[dict[str, Any]]) -> Iterator[Finding]:
    jobs = health["jobs"]
    queue = f"{jobs['pending']} jobs wait, {jobs['processing']} run"
    alive = [worker for worker in workers if worker["alive"]]
    if not alive:
        verdict = Verdict.WARNING if jobs["pending"] else Verdict.INFO
        remedy = "Start one there: secretary worker"
        yield Finding("workers", verdict, f"none is alive; {queue}", remedy)
        return
    slots = sum(worker["slots"] for worker in alive)
    yield Finding("workers", Verdict.OK, f"{len(alive)} with {slots} slots; {queue}")
    if others := {worker["version"] for worker in alive} - {health["version"]}:
        fact = f"workers of version {', '.join(sorted(others))} beside {health['version']}"
        yield Finding("versions", Verdict.INFO, fact)
