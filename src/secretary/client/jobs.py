"""Jobs and batches of the service: their state, progress, results and files."""

import asyncio
import io
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Generic, Self, TypeVar
from urllib.parse import quote, unquote

import httpx

from ..core.files import atomic_write
from .connection import Connection, StreamUnavailable
from .errors import ApiError, JobCancelled, JobFailed, NotFound, Unreachable, WaitTimeout
from .models import BatchDocument, ErrorDocument, JobDocument, LogEntry, Progress, Results, Status

T = TypeVar("T")
D = TypeVar("D", JobDocument, BatchDocument)

#: Receives progress updates; the return value is ignored.
OnProgress = Callable[[Progress], object]

#: Fall back to polling after this many connection failures of the event stream in a row.
STREAM_ATTEMPTS = 3
FIRST_POLL, LONGEST_POLL = 0.5, 5.0

#: Routes that wrap a text file in JSON; `download` fetches the file itself.
JSON_TEXT_ROUTES = ("/api/pdf/text-content/", "/api/files/text/")


class View(Generic[D]):
    """The last known state of a job or batch; `refresh` updates it."""

    @property
    def document(self) -> D:
        raise NotImplementedError

    @property
    def id(self) -> str:
        document = self.document
        return document.job_id if isinstance(document, JobDocument) else document.batch_id

    @property
    def label(self) -> str:
        document = self.document
        if isinstance(document, JobDocument):
            return document.job_name or document.job_type or self.id
        return document.batch_name or self.id

    @property
    def status(self) -> Status:
        return self.document.status

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")

    @property
    def progress(self) -> Progress:
        return self.document.progress


class JobView(View[JobDocument]):
    @property
    def job_type(self) -> str:
        return self.document.job_type

    @property
    def error(self) -> ErrorDocument | None:
        return self.document.error

    @property
    def logs(self) -> tuple[LogEntry, ...]:
        """Log entries. Lists omit them; call `refresh` to load them."""
        return self.document.logs

    @property
    def warnings(self) -> list[str]:
        """What the service did not understand in the request or, once the job has completed, what
        was not perfect."""
        results = self.document.results
        if results is not None:
            return [warning.message for warning in Results.model_validate(results).warnings]
        return [warning.message for warning in self.document.warnings]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.job_type} {self.status}>"


class BatchView(View[BatchDocument]):
    @property
    def name(self) -> str:
        return self.document.batch_name

    @property
    def is_active(self) -> bool:
        return self.document.is_active

    @property
    def warnings(self) -> list[str]:
        """What the service did not understand in the request."""
        return [warning.message for warning in self.document.warnings]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status} {self.progress.percent} %>"


class Resource(View[D]):
    """What a job and a batch can do."""

    _collection: str

    def __init__(self, connection: Connection, document: D) -> None:
        self._connection = connection
        self._document: D = document

    @property
    def document(self) -> D:
        return self._document

    @property
    def path(self) -> str:
        # `..` would name the parent route.
        return f"/api/{self._collection}/{quote(self.id, safe='').replace('..', '%2E%2E')}"

    async def refresh(self) -> Self:
        return self._update(await self._connection.get(self.path))

    async def updates(self, *, timeout: float | None = None) -> AsyncGenerator[Progress, None]:
        """Yield progress updates, from the event stream or by polling, until the end. The state is
        refreshed before the final update."""
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout

        async def in_time(awaitable: Awaitable[T]) -> T:
            # A limit for each await, because the generator may be resumed in another task.
            try:
                async with asyncio.timeout_at(end) as limit:
                    return await awaitable
            except TimeoutError:
                if not limit.expired():
                    raise
                text = f"{self.id} has not ended within {timeout:g} seconds"
                raise WaitTimeout(text) from None

        has_stream, pause = True, FIRST_POLL
        while not self.ended:
            try:
                path = f"{self.path}/stream"
                if has_stream:
                    async with aclosing(self._connection.events(path, STREAM_ATTEMPTS)) as events:
                        while (event := await in_time(anext(events, None))) is not None:
                            if event.job_id not in (None, self.id):  # a job of this batch
                                continue
                            if event.is_final:
                                break
                            yield event.progress
            except (StreamUnavailable, NotFound):
                has_stream = False
            except (ApiError, Unreachable):
                pass  # the refresh raises it if it lasts
            await in_time(self.refresh())
            if not self.ended:  # no stream, a broken one, or a job that was restarted meanwhile
                yield self.progress
                await in_time(asyncio.sleep(pause))
                pause = min(pause * 1.5, LONGEST_POLL)
        yield self.progress

    async def wait(
        self, *, progress: bool | OnProgress = False, timeout: float | None = None
    ) -> Self:
        """Wait for the end, successful or not. Raise `WaitTimeout` after `timeout` seconds."""
        with progress_bar(progress, self.label) as on_progress:
            async for update in self.updates(timeout=timeout):
                on_progress(update)
        return self

    async def cancel(self) -> Self:
        """Cancel the job, or all unfinished jobs of the batch."""
        return await self._post("cancel")

    async def archive(self) -> Self:
        return await self._post("archive")

    async def unarchive(self) -> Self:
        return await self._post("unarchive")

    async def delete(self) -> None:
        """Delete a finished job, or a finished batch with its jobs, and the files."""
        await self._connection.delete(self.path)

    async def _post(self, action: str, body: Any = None, *, safe: bool = True) -> Self:
        answer = await self._connection.post(f"{self.path}/{action}", body, safe=safe)
        return self._update(answer["data"])

    def _update(self, document: Any) -> Self:
        self._document = type(self._document).model_validate(document)
        return self


class AsyncJob(JobView, Resource[JobDocument]):
    _collection = "jobs"

    async def result(self, *, timeout: float | None = None) -> Results:
        """Wait for the results. Raise `JobFailed` or `JobCancelled` if there are none."""
        if not self.ended:
            await self.wait(timeout=timeout)
        elif self.status == "completed" and self.document.results is None:
            await self.refresh()  # lists omit results
        if self.status == "completed":
            return Results.model_validate(self.document.results or {})
        fallback = ErrorDocument(code="INTERNAL_ERROR", message=f"The job is {self.status}")
        error = self.error or fallback
        kind = JobCancelled if self.status == "cancelled" else JobFailed
        raise kind(self.id, error.code, error.message, error.details)

    async def restart(self) -> Self:
        """Run the job again. Not retried after a connection failure: that could run it twice."""
        return await self._post("restart", safe=False)

    async def download(self, name: str, to: str | os.PathLike[str] | None = None) -> Path:
        """Save a file of the job, by its name or the link in the results, and return its path."""
        return await download(self._connection, file_path(self.id, name), save_path(to, name))

    async def read(self, name: str) -> bytes:
        """Return the content of a file of the job."""
        content = io.BytesIO()
        await _download_to(content, self._connection, file_path(self.id, name))
        return content.getvalue()

    async def download_archive(self, to: str | os.PathLike[str] | None = None) -> Path:
        """Save a ZIP archive of all files once the job has finished."""
        if not self.ended:
            await self.wait()
        target = save_path(to, f"{self.id}.zip")
        return await download(self._connection, f"{self.path}/download-archive", target)


class AsyncBatch(BatchView, Resource[BatchDocument]):
    _collection = "batches"

    def __init__(
        self, connection: Connection, document: BatchDocument, job_ids: tuple[str, ...] = ()
    ) -> None:
        super().__init__(connection, document)
        #: The jobs in the order of submission; only set on a batch that this client submitted.
        self.job_ids = job_ids

    def jobs(self, *, status: str | None = None) -> AsyncGenerator[AsyncJob, None]:
        """Iterate over the jobs of the batch, newest first."""
        query = {"batch_id": self.id, "status": status, "archived": "all", "limit": 200}
        return find_jobs(self._connection, **query)

    async def pause(self) -> Self:
        """Start no further jobs until `resume` is called."""
        return await self._post("toggle-active", {"isActive": False})

    async def resume(self) -> Self:
        return await self._post("toggle-active", {"isActive": True})

    async def restart_failed(self) -> Self:
        return await self._post("restart-failed", safe=False)


def find_jobs(connection: Connection, **query: Any) -> AsyncGenerator[AsyncJob, None]:
    return (
        AsyncJob(connection, JobDocument.model_validate(document))
        async for document in connection.paginate("jobs", **query)
    )


@contextmanager
def progress_bar(progress: bool | OnProgress, name: str) -> Iterator[OnProgress]:
    """True shows a progress bar if standard error is a terminal; a function is called instead."""
    if not isinstance(progress, bool):
        yield progress
        return
    if not (progress and sys.stderr.isatty()):
        yield lambda update: None
        return
    # Imported here: most programs that use the client have no terminal.
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[message]}", markup=False),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=100, message="")
        yield lambda update: bar.update(task, completed=update.percent, message=update.message)


# Downloads


def file_path(job_id: str, name: str) -> str:
    """Return the API path of a file, given its name or a link from the results."""
    for route in JSON_TEXT_ROUTES:
        if name.startswith(route):
            return "/api/files/" + name.removeprefix(route)
    if name.startswith("/api/"):
        return name
    if "://" in name:
        raise ValueError("Pass the name or the path of a file of the job, not another URL")
    return f"/api/files/{quote(job_id)}/{quote(name)}"


def save_path(to: str | os.PathLike[str] | None, name: str) -> Path:
    """Return where to save a file: at `to`, or under its own name if `to` is a directory."""
    path, file_name = Path(to or ""), PurePosixPath(unquote(name)).name
    return path / file_name if to is None or path.is_dir() else path


async def download(connection: Connection, path: str, target: Path) -> Path:
    """Save a file; `target` appears only when it is complete."""
    with atomic_write(target) as part, part.open("wb") as file:
        await _download_to(file, connection, path)
    return target


async def _download_to(file: BinaryIO, connection: Connection, path: str) -> None:
    """Download with retries, each of which resumes where the previous attempt stopped."""
    write: Callable[[bytes], int] = file.write
    etag: str | None = None
    failures = 0
    while True:
        position = file.tell()
        headers = {"Accept-Encoding": "identity"}  # ranges refer to the file itself
        if etag is not None and position:
            headers |= {"Range": f"bytes={position}-", "If-Range": etag}
        try:
            async with connection.stream(path, headers) as response:
                if response.status_code == 202:
                    raise ApiError(202, "NOT_ENDED", "The job has not ended")
                if response.status_code != 206:  # the first attempt, or the file has changed
                    file.seek(0)
                    file.truncate()
                etag = response.headers.get("etag")
                async for chunk in response.aiter_bytes():
                    await asyncio.to_thread(write, chunk)
            return
        except (httpx.TransportError, ApiError) as error:
            failures = 1 if file.tell() > position else failures + 1
            await connection.back_off(error, failures)
