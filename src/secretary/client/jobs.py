"""Jobs and batches of the service: their state, progress, results and files."""

import asyncio
import io
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol, TypeVar
from urllib.parse import quote, unquote

import httpx

from .connection import Connection, StreamUnavailable, is_retryable, raise_final, retry_after_of
from .errors import ApiError, JobCancelled, JobFailed, NotFound, Unreachable, WaitTimeout
from .models import (
    FINAL,
    BatchDocument,
    ErrorDocument,
    Event,
    JobDocument,
    LogEntry,
    Progress,
    Results,
    Status,
)

T = TypeVar("T")

#: Receives progress updates; the return value is ignored.
OnProgress = Callable[[Progress], object]

#: Fall back to polling after this many connection failures of the event stream in a row.
STREAM_ATTEMPTS = 3
FIRST_POLL, LONGEST_POLL = 0.5, 5.0

#: Routes that wrap a text file in JSON; `download` fetches the file itself.
JSON_TEXT_ROUTES = ("/api/pdf/text-content/", "/api/files/text/")


class JobView:
    """The last known state of a job; `refresh` updates it."""

    @property
    def document(self) -> JobDocument:
        raise NotImplementedError

    @property
    def id(self) -> str:
        return self.document.job_id

    @property
    def job_type(self) -> str:
        return self.document.job_type

    @property
    def status(self) -> Status:
        return self.document.status

    @property
    def ended(self) -> bool:
        return self.status in FINAL

    @property
    def progress(self) -> Progress:
        return self.document.progress

    @property
    def error(self) -> ErrorDocument | None:
        return self.document.error

    @property
    def logs(self) -> tuple[LogEntry, ...]:
        """Log entries. Lists omit them; call `refresh` to load them."""
        return self.document.logs

    @property
    def label(self) -> str:
        return self.document.job_name or self.document.job_type or self.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.job_type} {self.status}>"


class AsyncJob(JobView):
    def __init__(self, connection: Connection, document: JobDocument) -> None:
        self._connection = connection
        self._document = document

    @property
    def document(self) -> JobDocument:
        return self._document

    @property
    def path(self) -> str:
        return f"/api/jobs/{quote(self.id, safe='')}"

    async def refresh(self) -> "AsyncJob":
        return self._update(await self._connection.get(self.path))

    def updates(self, *, timeout: float | None = None) -> AsyncGenerator[Progress, None]:
        """Yield progress updates until the job has finished."""
        return progress_updates(
            self._connection, self.path, self, matches=lambda event: True, timeout=timeout
        )

    async def wait(
        self, *, progress: bool | OnProgress = False, timeout: float | None = None
    ) -> "AsyncJob":
        """Wait until the job has finished, successfully or not. Raise `WaitTimeout` after
        `timeout` seconds."""
        with progress_bar(progress, self.label) as on_progress:
            async for update in self.updates(timeout=timeout):
                on_progress(update)
        return self

    async def result(self, *, timeout: float | None = None) -> Results:
        """Wait for the results. Raise `JobFailed` or `JobCancelled` if there are none."""
        if not self.ended:
            await self.wait(timeout=timeout)
        elif self.status == "completed" and self.document.results is None:
            await self.refresh()  # lists omit results
        if self.status == "completed":
            return Results.model_validate(self.document.results or {})
        raise _failure(self.document)

    async def cancel(self) -> "AsyncJob":
        return await self._post("cancel")

    async def restart(self) -> "AsyncJob":
        """Run the job again. Not retried after a connection failure: that could run it twice."""
        return await self._post("restart", safe=False)

    async def archive(self) -> "AsyncJob":
        return await self._post("archive")

    async def unarchive(self) -> "AsyncJob":
        return await self._post("unarchive")

    async def delete(self) -> None:
        """Delete a finished job and its files."""
        await self._connection.delete(self.path)

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

    async def _post(self, action: str, *, safe: bool = True) -> "AsyncJob":
        answer = await self._connection.post(f"{self.path}/{action}", safe=safe)
        return self._update(answer["data"])

    def _update(self, document: Any) -> "AsyncJob":
        self._document = JobDocument.model_validate(document)
        return self


def _failure(job: JobDocument) -> JobFailed:
    error = job.error or ErrorDocument(code="INTERNAL_ERROR", message=f"The job is {job.status}")
    kind = JobCancelled if job.status == "cancelled" else JobFailed
    return kind(job.job_id, error.code, error.message, error.details)


# Progress of jobs and batches


class Watchable(Protocol):
    """A job or a batch."""

    @property
    def id(self) -> str: ...
    @property
    def ended(self) -> bool: ...
    @property
    def progress(self) -> Progress: ...
    async def refresh(self) -> object: ...


async def progress_updates(
    connection: Connection,
    path: str,
    watched: Watchable,
    *,
    matches: Callable[[Event], bool],
    timeout: float | None,
) -> AsyncGenerator[Progress, None]:
    """Yield updates from the event stream, or by polling, until `watched` has finished.

    The final update comes after `watched` has been refreshed."""
    deadline = _Deadline(timeout, watched.id)
    stream = _ProgressStream(connection, path, matches, deadline)
    pause = FIRST_POLL
    while not watched.ended:
        async with aclosing(stream.updates()) as updates:
            async for update in updates:
                yield update
        await deadline.apply(watched.refresh())
        if not watched.ended:  # no stream, a broken one, or a job that was restarted meanwhile
            yield watched.progress
            await deadline.apply(asyncio.sleep(pause))
            pause = min(pause * 1.5, LONGEST_POLL)
    yield watched.progress


class _ProgressStream:
    def __init__(
        self,
        connection: Connection,
        path: str,
        matches: Callable[[Event], bool],
        deadline: "_Deadline",
    ) -> None:
        self._connection = connection
        self._path = path
        self._matches = matches
        self._deadline = deadline
        self._is_available = True

    async def updates(self) -> AsyncGenerator[Progress, None]:
        """Stop before the final event, and when the stream breaks or is not available."""
        if not self._is_available:
            return
        events = self._connection.events(f"{self._path}/stream", attempts=STREAM_ATTEMPTS)
        async with aclosing(events):
            try:
                while (event := await self._deadline.apply(anext(events, None))) is not None:
                    if not self._matches(event):
                        continue
                    if event.is_final:
                        return
                    yield Progress(step=event.phase, percent=event.percent, message=event.message)
            except (StreamUnavailable, NotFound):
                self._is_available = False
            except (ApiError, Unreachable):  # the next refresh raises it if it lasts
                return


class _Deadline:
    """A time limit for a series of awaits. Each gets its own `asyncio.timeout`, because the
    generator may be resumed in another task."""

    def __init__(self, seconds: float | None, watched_id: str) -> None:
        self._watched_id = watched_id
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    async def apply(self, awaitable: Awaitable[T]) -> T:
        remaining = None if self._end is None else max(0.0, self._end - time.monotonic())
        try:
            async with asyncio.timeout(remaining) as limit:
                return await awaitable
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"{self._watched_id} has not ended within {self._seconds:g} seconds"
            raise WaitTimeout(text) from None


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
    file_name = PurePosixPath(unquote(name)).name
    if to is None:
        return Path(file_name)
    path = Path(to)
    return path / file_name if path.is_dir() else path


async def download(connection: Connection, path: str, target: Path) -> Path:
    """Save a file; `target` appears only when it is complete."""
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as file:
            await _download_to(file, connection, path)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


async def _download_to(file: BinaryIO, connection: Connection, path: str) -> None:
    """Download with retries, each of which resumes where the previous attempt stopped."""
    transfer = _Transfer(connection, path, file)
    failures = 0
    while True:
        position = file.tell()
        try:
            await transfer.resume()
            return
        except (httpx.TransportError, ApiError) as error:
            failures = 1 if file.tell() > position else failures + 1
            retries = connection.retries
            if failures >= retries.attempts or not is_retryable(error, safe=True):
                raise_final(error, connection.url)
            wait = retries.wait(failures, retry_after_of(error))
        await asyncio.sleep(wait)


class _Transfer:
    def __init__(self, connection: Connection, path: str, file: BinaryIO) -> None:
        self._connection = connection
        self._path = path
        self._file = file
        self._etag: str | None = None

    async def resume(self) -> None:
        headers = {"Accept-Encoding": "identity"}  # ranges refer to the file itself
        if self._etag is not None and (position := self._file.tell()):
            headers |= {"Range": f"bytes={position}-", "If-Range": self._etag}
        async with self._connection.stream(self._path, headers) as response:
            if response.status_code == 202:
                raise ApiError(202, "NOT_ENDED", "The job has not ended")
            if response.status_code != 206:  # the first attempt, or the file has changed
                self._file.seek(0)
                self._file.truncate()
            self._etag = response.headers.get("etag")
            write: Callable[[bytes], int] = self._file.write
            async for chunk in response.aiter_bytes():
                await asyncio.to_thread(write, chunk)


class BatchView:
    """The last known state of a batch; `refresh` updates it."""

    @property
    def document(self) -> BatchDocument:
        raise NotImplementedError

    @property
    def id(self) -> str:
        return self.document.batch_id

    @property
    def name(self) -> str:
        return self.document.batch_name

    @property
    def status(self) -> Status:
        return self.document.status

    @property
    def ended(self) -> bool:
        return self.status in FINAL

    @property
    def is_active(self) -> bool:
        return self.document.is_active

    @property
    def progress(self) -> Progress:
        batch = self.document
        finished = batch.completed_jobs + batch.failed_jobs + batch.cancelled_jobs
        percent = 100 * finished // batch.total_jobs if batch.total_jobs else 100
        message = f"{finished} of {batch.total_jobs} jobs have ended"
        return Progress(step=batch.status, percent=percent, message=message)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status} {self.progress.percent} %>"


class AsyncBatch(BatchView):
    def __init__(
        self, connection: Connection, document: BatchDocument, job_ids: tuple[str, ...] = ()
    ) -> None:
        self._connection = connection
        self._document = document
        #: The jobs in the order of submission; only set on a batch that this client submitted.
        self.job_ids = job_ids

    @property
    def document(self) -> BatchDocument:
        return self._document

    @property
    def path(self) -> str:
        return f"/api/batches/{quote(self.id, safe='')}"

    async def refresh(self) -> "AsyncBatch":
        return self._update(await self._connection.get(self.path))

    def updates(self, *, timeout: float | None = None) -> AsyncGenerator[Progress, None]:
        """Yield progress updates until all jobs have finished."""
        return progress_updates(
            self._connection,
            self.path,
            self,
            matches=lambda event: event.batch_id == self.id,
            timeout=timeout,
        )

    async def wait(
        self, *, progress: bool | OnProgress = False, timeout: float | None = None
    ) -> "AsyncBatch":
        """Wait until all jobs have finished, successfully or not."""
        with progress_bar(progress, self.name or self.id) as on_progress:
            async for update in self.updates(timeout=timeout):
                on_progress(update)
        return self

    def jobs(self, *, status: str | None = None) -> AsyncGenerator[AsyncJob, None]:
        """Iterate over the jobs of the batch, newest first."""
        documents = paginate(
            self._connection, "jobs", batch_id=self.id, status=status, archived="all", limit=200
        )
        return (
            AsyncJob(self._connection, JobDocument.model_validate(document))
            async for document in documents
        )

    async def cancel(self) -> "AsyncBatch":
        """Cancel all unfinished jobs."""
        return await self._post("cancel")

    async def pause(self) -> "AsyncBatch":
        """Start no further jobs until `resume` is called."""
        return await self._post("toggle-active", {"isActive": False})

    async def resume(self) -> "AsyncBatch":
        return await self._post("toggle-active", {"isActive": True})

    async def restart_failed(self) -> "AsyncBatch":
        return await self._post("restart-failed", safe=False)

    async def archive(self) -> "AsyncBatch":
        return await self._post("archive")

    async def unarchive(self) -> "AsyncBatch":
        return await self._post("unarchive")

    async def delete(self) -> None:
        """Delete a finished batch, its jobs and their files."""
        await self._connection.delete(self.path)

    async def _post(self, action: str, body: Any = None, *, safe: bool = True) -> "AsyncBatch":
        answer = await self._connection.post(f"{self.path}/{action}", body, safe=safe)
        return self._update(answer["data"])

    def _update(self, document: Any) -> "AsyncBatch":
        self._document = BatchDocument.model_validate(document)
        return self


async def paginate(
    connection: Connection, collection: str, **query: Any
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield all matching documents, fetching each page when it is needed."""
    cursor: str | None = None
    while True:
        page = await connection.get(f"/api/{collection}", cursor=cursor, **query)
        for document in page[collection]:
            yield document
        cursor = page["next_cursor"]
        if cursor is None:
            return
