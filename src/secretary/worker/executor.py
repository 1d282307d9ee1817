"""Runs one claimed job to its outcome. The only module that decides how a job ends."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, auto
from functools import partial
from typing import Any, TypeVar, cast

from pydantic_core import to_jsonable_python

from ..config import DocumentSettings, MediaSettings
from ..core.errors import (
    DISK_FULL_ERRNOS,
    DiskFull,
    JobFailed,
    LeaseLost,
    NotFound,
    ProcessDied,
    ProcessingTimeout,
    StoreUnavailable,
)
from ..core.http_headers import trace_id
from ..core.job import (
    MAX_LOG_ENTRIES,
    Cancelled,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    Outcome,
    Progress,
    Released,
    ResourceCalculator,
    replace_lone_surrogates,
    utc_now,
)
from ..jobs.handler import (
    DEFAULT_DOCUMENTS,
    DEFAULT_MEDIA,
    Handler,
    JobContext,
    Results,
    Runner,
    results_as_json,
)
from ..jobs.registry import Registry
from ..llm import Endpoints, Llm
from ..llm.templates import Library
from ..observability.logging import current_job, current_trace
from ..storage.artifacts import JobFiles
from ..storage.sources import Sources
from ..store import Store
from .isolation import isolated
from .observer import Observer, Unobserved
from .sandbox import RemoteError, Sandbox, SandboxInterrupted

#: How long progress and logs are gathered before they are written together.
REPORT_EVERY = 0.2


class StoreReporter:
    """A `Reporter` for one attempt; `on_lost` is called when the job is another worker's now."""

    def __init__(
        self, store: Store, job: Job, observer: Observer, *, on_lost: Callable[[], None]
    ) -> None:
        self._store = store
        self._job = job
        self._observer = observer
        self._on_lost = on_lost
        self._progress: Progress | None = None
        self._logs: list[LogEntry] = []
        self._writing: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def progress(self, progress: Progress) -> None:
        self._observer.progressed(self._job, progress)
        self._progress = progress
        self._write_soon()

    def log(self, entry: LogEntry) -> None:
        self._logs.append(entry)
        self._write_soon()

    def _write_soon(self) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_EVERY):
                    await self._hurry.wait()
            await self._write()
        except LeaseLost:
            self._on_lost()
        except StoreUnavailable as error:
            logger.warning("Cannot report progress: %s", error)
        finally:
            self._writing = None

    async def _write(self) -> None:
        progress, logs = self._progress, self._logs
        self._progress, self._logs = None, []
        try:
            await self._store.report(self._job, progress, logs)
        except StoreUnavailable:
            self._progress = self._progress or progress
            # A job keeps no more of them; a store may be away for hours.
            self._logs = (logs + self._logs)[-MAX_LOG_ENTRIES:]
            raise

    async def flush(self) -> None:
        """Write what is left, now."""
        if self._writing is not None:
            self._hurry.set()
            await self._writing
        if self._progress is not None or self._logs:
            await self._write()


logger = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_BACKOFF = timedelta(minutes=15)


class Stop(Enum):
    """Why a job is stopped before it is done."""

    CANCELLED = auto()  # someone asked for it
    INTERRUPTED = auto()  # the worker shuts down
    LOST = auto()  # the job is another worker's now


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    store: Store
    registry: Registry
    sandbox: Sandbox
    files: JobFiles
    sources: Sources
    documents: DocumentSettings = DEFAULT_DOCUMENTS
    media: MediaSettings = DEFAULT_MEDIA
    llm: Endpoints = field(default_factory=Endpoints)
    templates: Library = field(default_factory=Library)
    max_crashes: int = 2
    observer: Observer = field(default_factory=Unobserved)
    #: Called with the id of a job whose webhook may have to be told that it ended.
    on_ended: Callable[[str], None] = lambda job_id: None

    def start(self, job: Job) -> "Execution":
        """Run `job` in the background."""
        return Execution(self, job)


class Execution:
    """One claimed job on its way to its outcome."""

    def __init__(self, executor: Executor, job: Job) -> None:
        self.job = job
        self._executor = executor
        self._stop: Stop | None = None
        self._worked = False
        self._resources = ResourceCalculator()
        on_lost = partial(self.stop, Stop.LOST)
        self._reporter = StoreReporter(executor.store, job, executor.observer, on_lost=on_lost)
        self.task = asyncio.create_task(self._run(), name=job.job_id)

    def stop(self, why: Stop) -> None:
        """Stop the work. What is recorded depends on the reason; a lost job records nothing."""
        if not self._worked and self._stop is None:
            self._stop = why
            self.task.cancel()

    async def _run(self) -> None:
        current_job.set(self.job.job_id)
        current_trace.set(trace_id(self.job.traceparent))
        observer = self._executor.observer
        observer.started(self.job)
        outcome = await self._outcome()
        self._worked = True
        if outcome is not None:
            outcome = await self._record(outcome)
        if outcome is not None:
            observer.ended(self.job, outcome)
        else:
            observer.lost(self.job)
        await self._tidy_files(outcome)

    async def _outcome(self) -> Outcome | None:
        """How the job ends; None when it is not ours to say."""
        try:
            results = await self._work()
            await self._executor.files.clear_scratch(self.job)
            return Completed(results)
        except asyncio.CancelledError:
            if self._stop is None:  # not one job is stopped, but everything
                raise
            _go_on()
            return _stopped(self._stop)
        except LeaseLost:
            return None
        except SandboxInterrupted:
            return Released()
        except JobFailed as error:
            return self._failed(error)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in DISK_FULL_ERRNOS:
                return self._failed(DiskFull("There is no room on the disk for the work"))
            return _unexpected(error)

    async def _work(self) -> dict[str, Any] | None:
        executor, job = self._executor, self.job
        handler = executor.registry[job.job_type]
        artifact_sync = executor.files.artifact_sync(job)
        ctx = JobContext(
            job=job,
            parameters=handler.parse(job.parameters),
            resources=self._resources,
            reporter=self._reporter,
            run=self._run_in_sandbox,
            attempt_directory=executor.files.of_attempt(job),
            sources=executor.sources,
            cache=executor.files.cache,
            documents=executor.documents,
            media=executor.media,
            processes=executor.sandbox.size,
            llm=Llm(executor.llm, self._resources),
            templates=executor.templates,
            artifact_sync=artifact_sync,
        )
        if artifact_sync is None:
            return await self._handled(handler, ctx)
        carry = partial(_patiently, "The files cannot be carried")
        await carry(lambda: executor.files.bring_upload(job))
        shipping = asyncio.create_task(artifact_sync.run())
        try:
            results = await self._handled(handler, ctx)
        finally:
            shipping.cancel()
        await carry(artifact_sync.ship)  # before the end is told: then its files are there
        return results

    async def _handled(self, handler: Handler[Any], ctx: JobContext[Any]) -> dict[str, Any] | None:
        job = self.job
        seconds = job.timeout_s or (handler.timeout.total_seconds() if handler.timeout else None)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return results_as_json(await self._runner(handler)(ctx))
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"The job ran longer than its limit of {seconds:g} s"
            raise ProcessingTimeout(text, limit_seconds=seconds) from None

    def _runner(self, handler: Handler[Any]) -> Callable[[JobContext[Any]], Awaitable[Results]]:
        apart = handler.isolated and handler.origin is not None
        return isolated(handler, self._executor.sandbox) if apart else handler.run

    async def _run_in_sandbox(
        self,
        function: Callable[..., T | Awaitable[T]],
        *args: Any,
        wall_time: timedelta | None = None,
    ) -> T:
        sandbox = self._executor.sandbox
        limits = replace(sandbox.limits, wall_time=wall_time)
        run = cast(Runner, partial(sandbox.run, limits=limits, resources=self._resources))
        return await run(function, *args)

    def _failed(self, error: JobFailed) -> Failed:
        details = _plain(error.details) if error.details else None
        job_error = JobError(code=error.code, message=error.message, details=details)
        if isinstance(error, ProcessDied):
            again = self.job.crashes + 1 < self._executor.max_crashes
            tries = self.job.crashes
        else:
            again = error.retryable and self.job.failures + 1 < self._max_attempts()
            tries = self.job.failures
        retry_at = utc_now() + backoff(error, tries) if again else None
        return Failed(job_error, retry_at, crashed=isinstance(error, ProcessDied))

    def _max_attempts(self) -> int:
        handler = self._executor.registry[self.job.job_type]
        return self.job.max_attempts or handler.max_attempts

    async def _record(self, outcome: Outcome) -> Outcome | None:
        """Write the outcome down. What was written is given back; None when the job was not ours
        any more."""
        used = self._resources.used
        while True:
            try:
                complaint = "Cannot record the end of the job"
                await _patiently(complaint, partial(self._finish, outcome, used))
                break
            except LeaseLost:
                if isinstance(outcome, Completed) and await self._was_completed():
                    break
                logger.warning("Lost the job while it ran; its new owner will finish it")
                return None
            except Exception as error:  # what a handler gave cannot be stored
                if not isinstance(outcome, Failed):
                    outcome = _unexpected(error)
                elif not used:
                    raise
                used = {}
        if self.job.webhook is not None:
            self._executor.on_ended(self.job.job_id)
        return outcome

    async def _finish(self, outcome: Outcome, used: Mapping[str, float]) -> None:
        await self._reporter.flush()
        await self._executor.store.finish(self.job, outcome, resources=used)

    async def _was_completed(self) -> bool:
        """A store that broke off may have written the end all the same: then the job is not lost,
        and its files must stay. What it tells may be older than that for a moment."""
        look = partial(self._executor.store.get, self.job.job_id)
        while True:
            try:
                stored = await _patiently("Cannot see what became of the job", look)
            except NotFound:
                return False
            if _claim_of(stored) != _claim_of(self.job):
                return False
            if stored.status is not JobStatus.PROCESSING:
                return stored.status is JobStatus.COMPLETED
            await asyncio.sleep(0.1)

    async def _tidy_files(self, outcome: Outcome | None) -> None:
        files = self._executor.files
        try:
            if isinstance(outcome, Completed):
                await files.keep_only(self.job)
            else:
                await files.discard(self.job)
        except StoreUnavailable as error:
            logger.warning("Files that nobody needs stay until upkeep removes them: %s", error)


def _claim_of(job: Job) -> tuple[object, ...]:
    return job.attempt, job.worker_id, job.processing_started_at


async def _patiently(complaint: str, call: Callable[[], Awaitable[T]]) -> T:
    """Until the store or the depot takes it, however long it is away: the work must not be
    lost."""
    wait = 0.1
    while True:
        try:
            return await call()
        except StoreUnavailable as error:
            logger.error("%s, will try again: %s", complaint, error)
            await asyncio.sleep(wait)
            wait = min(wait * 2, 5.0)


def _stopped(why: Stop) -> Outcome | None:
    match why:
        case Stop.CANCELLED:
            return Cancelled()
        case Stop.INTERRUPTED:
            return Released()
        case Stop.LOST:
            return None


def backoff(error: JobFailed, tries: int) -> timedelta:
    """How long to wait before the next try: doubled each time, and never the same for all."""
    if error.retry_after is not None:
        return error.retry_after
    wait: timedelta = min(error.backoff * 2**tries, LONGEST_BACKOFF)
    return wait * random.uniform(0.5, 1.5)


def _plain(details: dict[str, Any]) -> dict[str, Any] | None:
    """As JSON has them: what a handler put there must not keep the job from ending."""
    try:
        plain: dict[str, Any] = to_jsonable_python(
            replace_lone_surrogates(details),
            bytes_mode="base64",
            inf_nan_mode="null",
            fallback=lambda value: type(value).__name__,
        )
    except (ValueError, RecursionError):  # they are a part of themselves
        return None
    return plain


def _unexpected(error: Exception) -> Failed:
    """The traceback goes to the log; a client gets the kind of error and no more."""
    if isinstance(error, RemoteError):
        logger.error("The handler broke:\n%s", error.remote_traceback)
        kind = str(error)
    else:
        logger.error("The handler broke", exc_info=error)
        kind = type(error).__name__
    details = {"type": kind}
    return Failed(JobError(code="INTERNAL_ERROR", message="Internal error", details=details))


def _go_on() -> None:
    """The cancellation has done its duty; what is left to do must not be cancelled too."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
