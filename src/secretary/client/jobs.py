"""A job of the service, and what can be done with it."""

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

from .connection import Connection, NoStream, give_up, retry_after_of, worth_another
from .errors import ApiError, JobCancelled, JobFailed, NotFound, Unreachable, WaitTimeout
from .models import FINAL, ErrorDocument, Event, JobDocument, LogEntry, Progress, Results, Status

#: Routes that give a text inside JSON; here the file itself is wanted.
IN_JSON = ("/api/pdf/text-content/", "/api/files/text/")


def file_path(job_id: str, name: str) -> str:
    """`frame_001.jpg`, or a path of the API as results have it."""
    for route in IN_JSON:
        if name.startswith(route):
            return "/api/files/" + name.removeprefix(route)
    if name.startswith("/api/"):
        return name
    if "://" in name:
        raise ValueError("A file of a job is named by its name or its path, not by another URL")
    return f"/api/files/{quote(job_id)}/{quote(name)}"


def target_of(to: str | os.PathLike[str] | None, name: str) -> Path:
    """Where a file goes: to this path, or into this directory under its own name."""
    own = PurePosixPath(unquote(name)).name
    if to is None:
        return Path(own)
    path = Path(to)
    return path / own if path.is_dir() else path


async def download(connection: Connection, path: str, target: Path) -> Path:
    """Under its name there is never a part of it."""
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as file:
            await copy(connection, path, file)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


async def copy(connection: Connection, path: str, file: BinaryIO) -> None:
    transfer = _Transfer(connection, path, file)
    failures = 0
    while True:
        before = file.tell()
        try:
            await transfer.go_on()
            return
        except (httpx.TransportError, ApiError) as error:
            failures = 1 if file.tell() > before else failures + 1
            retries = connection.retries
            if failures >= retries.attempts or not worth_another(error, safe=True):
                give_up(error, connection.url)
            wait = retries.wait(failures, retry_after_of(error))
        await asyncio.sleep(wait)


class _Transfer:
    def __init__(self, connection: Connection, path: str, file: BinaryIO) -> None:
        self._connection = connection
        self._path = path
        self._file = file
        self._etag: str | None = None

    async def go_on(self) -> None:
        headers = {"Accept-Encoding": "identity"}  # ranges are of the file itself
        if self._etag is not None and (have := self._file.tell()):
            headers |= {"Range": f"bytes={have}-", "If-Range": self._etag}
        async with self._connection.opened(self._path, headers) as response:
            if response.status_code == 202:
                raise ApiError(202, "NOT_ENDED", "The job has not ended")
            if response.status_code != 206:  # from the beginning, or another version by now
                self._file.seek(0)
                self._file.truncate()
            self._etag = response.headers.get("etag")
            write: Callable[[bytes], int] = self._file.write
            async for piece in response.aiter_bytes():
                await asyncio.to_thread(write, piece)


#: What it gives back does not matter.
Tell = Callable[[Progress], object]


@contextmanager
def meter(progress: bool | Tell, name: str) -> Iterator[Tell]:
    """True: a bar, if there is a terminal to draw it on. A function: it is called."""
    if not isinstance(progress, bool):
        yield progress
        return
    if not (progress and sys.stderr.isatty()):
        yield lambda update: None
        return
    # Loaded here: most programs that use the client have no terminal.
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


T = TypeVar("T")

#: A stream that breaks so often without a word is not tried any more.
STREAM_TRIES = 3
FIRST_POLL, LONGEST_POLL = 0.5, 5.0


class Watched(Protocol):
    """A job or a batch."""

    @property
    def id(self) -> str: ...
    @property
    def ended(self) -> bool: ...
    @property
    def progress(self) -> Progress: ...
    async def refresh(self) -> object: ...


async def updates(
    connection: Connection,
    path: str,
    watched: Watched,
    *,
    concerns: Callable[[Event], bool],
    timeout: float | None,
) -> AsyncGenerator[Progress, None]:
    """Each change until the end, with the whole document known at the end."""
    patience = _Patience(timeout, watched.id)
    stream = _Stream(connection, path, concerns, patience)
    pause = FIRST_POLL
    while not watched.ended:
        async with aclosing(stream.progress()) as told:
            async for progress in told:
                yield progress
        await patience.within(watched.refresh())
        if not watched.ended:  # there is no stream, or it broke, or this was restarted meanwhile
            yield watched.progress
            await patience.within(asyncio.sleep(pause))
            pause = min(pause * 1.5, LONGEST_POLL)
    yield watched.progress


class _Stream:
    def __init__(
        self,
        connection: Connection,
        path: str,
        concerns: Callable[[Event], bool],
        patience: "_Patience",
    ) -> None:
        self._connection = connection
        self._path = path
        self._concerns = concerns
        self._patience = patience
        self._comes_through = True

    async def progress(self) -> AsyncGenerator[Progress, None]:
        """Ends before the final event, and when it breaks or does not come through."""
        if not self._comes_through:
            return
        events = self._connection.events(f"{self._path}/stream", patience=STREAM_TRIES)
        async with aclosing(events):
            try:
                while (event := await self._patience.within(anext(events, None))) is not None:
                    if not self._concerns(event):
                        continue
                    if event.is_final:
                        return
                    yield Progress(step=event.phase, percent=event.percent, message=event.message)
            except (NoStream, NotFound):  # one that is gone is noticed by whoever asks next
                self._comes_through = False
            except (ApiError, Unreachable):  # and so is a service that is away
                return


class _Patience:
    """How long there is to wait, in all. Each wait has its own limit: what is waited for may
    go on in another task."""

    def __init__(self, seconds: float | None, what: str) -> None:
        self._what = what
        self._seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds

    async def within(self, awaited: Awaitable[T]) -> T:
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        try:
            async with asyncio.timeout(left) as limit:
                return await awaited
        except TimeoutError:
            if not limit.expired():
                raise
            raise WaitTimeout(
                f"{self._what} has not ended within {self._seconds:g} seconds"
            ) from None


class JobView:
    """What is known of a job, since it was last asked for."""

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
        """Lists leave them out; `refresh` brings them."""
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
        return self._told(await self._connection.get(self.path))

    def updates(self, *, timeout: float | None = None) -> AsyncGenerator[Progress, None]:
        """Its progress until it has ended."""
        return updates(
            self._connection, self.path, self, concerns=lambda event: True, timeout=timeout
        )

    async def wait(
        self, *, progress: bool | Tell = False, timeout: float | None = None
    ) -> "AsyncJob":
        """Wait until it has ended, however that is; `WaitTimeout` if it takes longer."""
        with meter(progress, self.label) as tell:
            async for update in self.updates(timeout=timeout):
                tell(update)
        return self

    async def result(self, *, timeout: float | None = None) -> Results:
        """Its results, once it has completed; else `JobFailed` or `JobCancelled`."""
        if not self.ended:
            await self.wait(timeout=timeout)
        elif self.status == "completed" and self.document.results is None:
            await self.refresh()  # lists leave results out
        if self.status == "completed":
            return Results.model_validate(self.document.results or {})
        raise failure_of(self.document)

    async def cancel(self) -> "AsyncJob":
        return await self._asked("cancel")

    async def restart(self) -> "AsyncJob":
        """Run it again. Not repeated after a broken connection: it may have ended once more."""
        return await self._asked("restart", safe=False)

    async def archive(self) -> "AsyncJob":
        return await self._asked("archive")

    async def unarchive(self) -> "AsyncJob":
        return await self._asked("unarchive")

    async def delete(self) -> None:
        """Delete it and its files; it must have ended."""
        await self._connection.delete(self.path)

    async def download(self, name: str, to: str | os.PathLike[str] | None = None) -> Path:
        """A file of the job, by its name or as its results name it; gives where it was put."""
        return await download(self._connection, file_path(self.id, name), target_of(to, name))

    async def read(self, name: str) -> bytes:
        """The content of a file of the job."""
        content = io.BytesIO()
        await copy(self._connection, file_path(self.id, name), content)
        return content.getvalue()

    async def download_archive(self, to: str | os.PathLike[str] | None = None) -> Path:
        """The ZIP with everything, when the job has ended."""
        if not self.ended:
            await self.wait()
        target = target_of(to, f"{self.id}.zip")
        return await download(self._connection, f"{self.path}/download-archive", target)

    async def _asked(self, verb: str, *, safe: bool = True) -> "AsyncJob":
        answer = await self._connection.post(f"{self.path}/{verb}", safe=safe)
        return self._told(answer["data"])

    def _told(self, document: Any) -> "AsyncJob":
        self._document = JobDocument.model_validate(document)
        return self


def failure_of(job: JobDocument) -> JobFailed:
    error = job.error or ErrorDocument(code="INTERNAL_ERROR", message=f"The job is {job.status}")
    kind = JobCancelled if job.status == "cancelled" else JobFailed
    return kind(job.job_id, error.code, error.message, error.details)
