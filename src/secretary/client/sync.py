"""The synchronous client: runs each call of the asynchronous one on an event loop in a thread."""

import asyncio
import os
import ssl
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import AsyncGeneratorType, TracebackType
from typing import Any, TypeVar

from .aio import Archived, AsyncClient
from .batches import AsyncBatch, BatchView
from .connection import Retries
from .jobs import AsyncJob, JobView, OnProgress, progress_bar
from .models import BatchDocument, Event, Health, JobDocument, JobType, Progress, Results
from .requests import Task
from .uploads import Source

T = TypeVar("T")


class Portal:
    """An event loop in a thread, started by the first call. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            loop = self._running_loop()
        except RuntimeError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        finally:
            future.cancel()  # after Ctrl-C it is still running; otherwise this does nothing
            del future  # its exception refers to this frame: break the cycle

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Iterate in the caller's thread."""
        try:
            while (item := self.run(_next(items))) is not None:
                yield item[0]
        finally:
            self._release(items)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run `last`, then stop the loop. A second call does nothing."""
        if self._closed:
            last.close()
            return
        if self._loop is None:  # never used
            last.close()
            self._closed = True
            return
        try:
            self.run(last)
        finally:
            self._closed = True
            self._stop()

    def _release(self, items: AsyncGenerator[Any, None]) -> None:
        if self._closed or self._loop is None:
            return
        if threading.current_thread() is self._thread:  # garbage collection ran there
            asyncio.run_coroutine_threadsafe(_close(items), self._loop)
        else:
            self.run(_close(items))

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeError("The client is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=_run_loop, args=(self._loop,), name="secretary-client", daemon=True
                )
                thread.start()
                self._thread = thread
                # In case nobody closes the client.
                self._stop = weakref.finalize(self, _stop_loop, self._loop, thread)
            if threading.current_thread() is self._thread:
                raise RuntimeError("This call would deadlock; use AsyncClient here")
            return self._loop


async def _next(items: AsyncGenerator[T, None]) -> tuple[T] | None:
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None


async def _close(items: AsyncGenerator[Any, None]) -> None:
    # After Ctrl-C it is still running, but about to stop.
    while isinstance(items, AsyncGeneratorType) and items.ag_running:
        await asyncio.sleep(0.01)
    await items.aclose()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _stop_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(10)


class Job(JobView):
    def __init__(self, portal: Portal, job: AsyncJob) -> None:
        self._portal = portal
        self._job = job

    @property
    def document(self) -> JobDocument:
        return self._job.document

    def refresh(self) -> "Job":
        self._portal.run(self._job.refresh())
        return self

    def updates(self, *, timeout: float | None = None) -> Iterator[Progress]:
        """Yield progress updates until the job has finished."""
        return self._portal.iterate(self._job.updates(timeout=timeout))

    def wait(self, *, progress: bool | OnProgress = False, timeout: float | None = None) -> "Job":
        """Wait until the job has finished, successfully or not. Raise `WaitTimeout` after
        `timeout` seconds."""
        with progress_bar(progress, self.label) as on_progress:
            for update in self.updates(timeout=timeout):
                on_progress(update)
        return self

    def result(self, *, timeout: float | None = None) -> Results:
        """Wait for the results. Raise `JobFailed` or `JobCancelled` if there are none."""
        return self._portal.run(self._job.result(timeout=timeout))

    def cancel(self) -> "Job":
        self._portal.run(self._job.cancel())
        return self

    def restart(self) -> "Job":
        self._portal.run(self._job.restart())
        return self

    def archive(self) -> "Job":
        self._portal.run(self._job.archive())
        return self

    def unarchive(self) -> "Job":
        self._portal.run(self._job.unarchive())
        return self

    def delete(self) -> None:
        """Delete a finished job and its files."""
        self._portal.run(self._job.delete())

    def download(self, name: str, to: str | os.PathLike[str] | None = None) -> Path:
        """Save a file of the job, by its name or the link in the results, and return its path."""
        return self._portal.run(self._job.download(name, to))

    def read(self, name: str) -> bytes:
        """Return the content of a file of the job."""
        return self._portal.run(self._job.read(name))

    def download_archive(self, to: str | os.PathLike[str] | None = None) -> Path:
        """Save a ZIP archive of all files once the job has finished."""
        return self._portal.run(self._job.download_archive(to))


class Batch(BatchView):
    def __init__(self, portal: Portal, batch: AsyncBatch) -> None:
        self._portal = portal
        self._batch = batch

    @property
    def document(self) -> BatchDocument:
        return self._batch.document

    @property
    def job_ids(self) -> tuple[str, ...]:
        return self._batch.job_ids

    def refresh(self) -> "Batch":
        self._portal.run(self._batch.refresh())
        return self

    def updates(self, *, timeout: float | None = None) -> Iterator[Progress]:
        return self._portal.iterate(self._batch.updates(timeout=timeout))

    def wait(self, *, progress: bool | OnProgress = False, timeout: float | None = None) -> "Batch":
        """Wait until all jobs have finished, successfully or not."""
        with progress_bar(progress, self.name or self.id) as on_progress:
            for update in self.updates(timeout=timeout):
                on_progress(update)
        return self

    def jobs(self, *, status: str | None = None) -> Iterator[Job]:
        """Iterate over the jobs of the batch, newest first."""
        jobs = self._portal.iterate(self._batch.jobs(status=status))
        return (Job(self._portal, job) for job in jobs)

    def cancel(self) -> "Batch":
        """Cancel all unfinished jobs."""
        self._portal.run(self._batch.cancel())
        return self

    def pause(self) -> "Batch":
        """Start no further jobs until `resume` is called."""
        self._portal.run(self._batch.pause())
        return self

    def resume(self) -> "Batch":
        self._portal.run(self._batch.resume())
        return self

    def restart_failed(self) -> "Batch":
        self._portal.run(self._batch.restart_failed())
        return self

    def archive(self) -> "Batch":
        self._portal.run(self._batch.archive())
        return self

    def unarchive(self) -> "Batch":
        self._portal.run(self._batch.unarchive())
        return self

    def delete(self) -> None:
        """Delete a finished batch, its jobs and their files."""
        self._portal.run(self._batch.delete())


class Client:
    """The synchronous version of `AsyncClient`. Close it, or use it in a `with` statement."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:5000",
        *,
        api_key: str | None = None,
        user: str | None = None,
        timeout: float = 60.0,
        retries: Retries | None = None,
        verify: bool | ssl.SSLContext = True,
    ) -> None:
        self._client = AsyncClient(
            url, api_key=api_key, user=user, timeout=timeout, retries=retries, verify=verify
        )
        self._portal = Portal()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._portal.close(self._client.close())

    def submit(
        self,
        job_type: str,
        *,
        file: Source | None = None,
        file_name: str | None = None,
        url: str | None = None,
        webhook: Mapping[str, Any] | str | None = None,
        job_name: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        max_attempts: int | None = None,
        timeout_s: float | None = None,
        user_id: str | None = None,
        access_control: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **parameters: Any,
    ) -> Job:
        """Submit a job. `file` is a path, bytes or an open file; further keyword arguments are
        parameters of the job type. Retries never create a second job."""
        submission = self._client.submit(
            job_type,
            file=file,
            file_name=file_name,
            url=url,
            webhook=webhook,
            job_name=job_name,
            priority=priority,
            run_at=run_at,
            max_attempts=max_attempts,
            timeout_s=timeout_s,
            user_id=user_id,
            access_control=access_control,
            idempotency_key=idempotency_key,
            **parameters,
        )
        return Job(self._portal, self._portal.run(submission))

    def job(self, job_id: str) -> Job:
        return Job(self._portal, self._portal.run(self._client.job(job_id)))

    def jobs(
        self,
        *,
        status: str | None = None,
        job_type: str | None = None,
        batch_id: str | None = None,
        user_id: str | None = None,
        archived: Archived | None = None,
        q: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        include: str | None = None,
        page_size: int = 100,
    ) -> Iterator[Job]:
        """Iterate over jobs, newest first. Separate several states by commas. Results and logs
        are omitted, unless `include="results,logs"`."""
        jobs = self._client.jobs(
            status=status,
            job_type=job_type,
            batch_id=batch_id,
            user_id=user_id,
            archived=archived,
            q=q,
            created_after=created_after,
            created_before=created_before,
            include=include,
            page_size=page_size,
        )
        return (Job(self._portal, job) for job in self._portal.iterate(jobs))

    def batch(
        self,
        jobs: Iterable[Task | Mapping[str, Any]],
        *,
        name: str | None = None,
        webhook: Mapping[str, Any] | str | None = None,
        active: bool = True,
        idempotency_key: str | None = None,
    ) -> Batch:
        """Submit several jobs, all or none of them. The `file` of a task is a path, bytes or an
        open file."""
        submission = self._client.batch(
            jobs, name=name, webhook=webhook, active=active, idempotency_key=idempotency_key
        )
        return Batch(self._portal, self._portal.run(submission))

    def find_batch(self, batch_id: str) -> Batch:
        return Batch(self._portal, self._portal.run(self._client.find_batch(batch_id)))

    def batches(
        self,
        *,
        user_id: str | None = None,
        archived: Archived | None = None,
        page_size: int = 100,
    ) -> Iterator[Batch]:
        """Iterate over batches, newest first."""
        batches = self._client.batches(user_id=user_id, archived=archived, page_size=page_size)
        return (Batch(self._portal, batch) for batch in self._portal.iterate(batches))

    def events(self, *, since: str | None = None) -> Iterator[Event]:
        """Iterate over changes of all visible jobs and batches, indefinitely: first the unfinished
        jobs, or everything after the event with the id `since`. Reconnects where it stopped; an
        event may be delivered twice."""
        return self._portal.iterate(self._client.events(since=since))

    def job_types(self) -> list[JobType]:
        return self._portal.run(self._client.job_types())

    def health(self) -> Health:
        """Return the health of the service, without retries."""
        return self._portal.run(self._client.health())
