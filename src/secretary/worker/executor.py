"""Runs one claimed job and records its outcome. Only this module decides how a job ends."""

import asyncio
import logging
import os
import random
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, auto
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, cast

from pydantic_core import to_jsonable_python

from ..config import DEFAULT_FILE, DocumentSettings, MediaSettings
from ..core import errors
from ..core.fence import without_private
from ..core.http_headers import trace_id
from ..core.job import (
    MAX_LOG_ENTRIES,
    Cancelled,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    JobWarning,
    LogEntry,
    LogLevel,
    Outcome,
    Progress,
    Released,
    ResourceCalculator,
    replace_lone_surrogates,
    utc_now,
)
from ..jobs.events import Observer
from ..jobs.handler import (
    DEFAULT_DOCUMENTS,
    DEFAULT_MEDIA,
    SCRATCH_SUFFIX,
    FileGrants,
    Handler,
    JobContext,
    Registry,
    Runner,
    results_as_json,
)
from ..jobs.job_log import StepTimes, attempt_line, outcome_lines
from ..jobs.unknown_fields import unknown_field_warnings
from ..llm import Endpoints, Llm
from ..llm.templates import Library
from ..observability.logging import current_job, current_trace
from ..storage.artifacts import JobFiles
from ..storage.sources import Sources
from ..store import ClaimStore, WorkerStore
from .isolation import run_isolated
from .sandbox import Access, RemoteError, Sandbox, SandboxInterrupted

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_BACKOFF = timedelta(minutes=15)

#: Larger amounts of a resource are not counted for its user.
MAX_AMOUNT = 1e9

#: How long progress and log entries are buffered before they are written together.
REPORT_EVERY = 0.2


class Stop(Enum):
    """Why a running job is stopped."""

    CANCELLED = auto()  # by a client
    INTERRUPTED = auto()  # the worker is shutting down
    LOST = auto()  # the lease expired; another worker may own the job


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    store: WorkerStore
    registry: Registry
    sandbox: Sandbox
    files: JobFiles
    sources: Sources
    documents: DocumentSettings = DEFAULT_DOCUMENTS
    media: MediaSettings = DEFAULT_MEDIA
    llm: Endpoints = field(default_factory=Endpoints)
    templates: Library = field(default_factory=Library)
    max_crashes: int = 2
    #: Whether there are quotas, so that what jobs use is counted for their users.
    counts_usage: bool = False
    fence_handlers: bool = False
    observer: Observer = field(default_factory=Observer)
    #: Called with the id of an ended job that has a webhook.
    on_ended: Callable[[str], None] = lambda job_id: None


class Execution:
    """One claimed job that runs in the background, from start to recorded outcome."""

    def __init__(self, executor: Executor, job: Job) -> None:
        self.job = job
        self._executor = executor
        self._stop: Stop | None = None
        self._has_outcome = False
        #: It ended without an outcome, because the worker no longer owns the job.
        self.is_lost = False
        self._resources = ResourceCalculator()
        self._llm = Llm(executor.llm, self._resources)
        self._grants = FileGrants()
        on_lost = partial(self.stop, Stop.LOST)
        self._reporter = StoreReporter(executor.store, job, executor.observer, on_lost=on_lost)
        self.task = asyncio.create_task(self._run(), name=job.job_id)

    def stop(self, why: Stop) -> None:
        """Stop the work. The reason decides the outcome; a lost job records none."""
        if not self._has_outcome and self._stop is None:
            self._stop = why
            self.task.cancel()

    async def _run(self) -> None:
        current_job.set(self.job.job_id)
        current_trace.set(trace_id(self.job.traceparent))
        observer = self._executor.observer
        observer.started(self.job)
        outcome = await self._outcome()
        self._executor.sandbox.end_access(self._key)
        self._has_outcome = True
        if outcome is not None:
            self._log_outcome(outcome)
            outcome = await self._record(outcome)
        if outcome is not None:
            observer.ended(self.job, outcome)
        else:
            self.is_lost = True
            observer.lost(self.job)
        files = self._executor.files
        try:
            if isinstance(outcome, Completed):
                await files.remove_superseded(self.job)
            else:
                await files.discard_attempt(self.job)
        except errors.StoreUnavailable as error:
            logger.warning("Could not remove unneeded files; maintenance will: %s", error)

    async def _outcome(self) -> Outcome | None:
        """Run the handler and map its result or error to an outcome; None if the lease was lost."""
        try:
            results = await self._work()
            await self._executor.files.clear_scratch(self.job)
            return Completed(results)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._stop is None or task is None:  # the whole worker is being cancelled
                raise
            task.uncancel()  # it is handled; what remains to be done must not be cancelled too
            outcomes: dict[Stop, Outcome]
            outcomes = {Stop.CANCELLED: Cancelled(), Stop.INTERRUPTED: Released()}
            return outcomes.get(self._stop)  # none for a lost job
        except errors.LeaseLost:
            return None
        except SandboxInterrupted:
            return Released()
        except errors.JobFailed as error:
            return self._failed(error)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in errors.DISK_FULL_ERRNOS:
                return self._failed(errors.DiskFull("The disk is full"))
            return _unexpected(error)

    async def _work(self) -> dict[str, Any] | None:
        executor, job = self._executor, self.job
        handler = executor.registry[job.job_type]
        submission = (job.job_type, job.parameters)
        warnings = unknown_field_warnings(executor.registry, [submission])
        for warning in warnings:
            self._reporter.log(LogEntry(level="warning", message=warning.message))
        if handler.origin is None and (line := attempt_line(job)):
            self._reporter.log(LogEntry(level="warning", message=line))
        artifact_sync = executor.files.artifact_sync(job)
        ctx = JobContext(
            job=job,
            parameters=handler.parse(job.parameters),
            resources=self._resources,
            reporter=self._reporter,
            run=self._run_in_sandbox,
            attempt_directory=executor.files.attempt_directory(job),
            sources=executor.sources,
            cache=executor.files.cache,
            documents=executor.documents,
            media=executor.media,
            processes=executor.sandbox.size,
            llm=self._llm,
            templates=executor.templates,
            grants=self._grants,
            artifact_sync=artifact_sync,
        )
        if artifact_sync is None:
            return _with_warnings(await self._run_handler(handler, ctx), warnings)
        transfer = partial(_retry_until_available, "Could not transfer files")
        await transfer(lambda: executor.files.download_upload(job))
        syncing = asyncio.create_task(artifact_sync.run())
        try:
            results = await self._run_handler(handler, ctx)
        finally:
            syncing.cancel()
        # Upload the artifacts before the job is recorded as completed.
        await transfer(artifact_sync.upload_changes)
        return _with_warnings(results, warnings)

    async def _run_handler(
        self, handler: Handler[Any], ctx: JobContext[Any]
    ) -> dict[str, Any] | None:
        seconds = self.job.timeout_s
        if not seconds and handler.timeout:
            seconds = handler.timeout.total_seconds()
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                if handler.isolated and handler.origin is not None:
                    results = await run_isolated(
                        handler, ctx, self._executor.sandbox, self._handler_access(ctx)
                    )
                else:
                    results = await handler.run(ctx)
                return results_as_json(results)
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"The job exceeded its time limit of {seconds:g} s"
            raise errors.ProcessingTimeout(text, limit_seconds=seconds) from None

    async def _run_in_sandbox(
        self,
        function: Callable[..., T | Awaitable[T]],
        *args: Any,
        wall_time: timedelta | None = None,
    ) -> T:
        sandbox = self._executor.sandbox
        limits = replace(sandbox.limits, wall_time=wall_time)
        options = {"limits": limits, "resources": self._resources, "access": self._access()}
        run = cast(Runner, partial(sandbox.run, **options))
        return await run(function, *args)

    def _access(self) -> Access:
        """The files of this job, as far as they exist already."""
        attempt = self._executor.files.attempt_directory(self.job)
        scratch = attempt + SCRATCH_SUFFIX
        os.makedirs(scratch, exist_ok=True)
        own = {scratch, attempt} if os.path.isdir(attempt) else {scratch}
        return Access(
            self._key,
            reads=frozenset(self._grants.readable),
            writes=frozenset(self._grants.writable | own),
            scratch=scratch,
        )

    def _handler_access(self, ctx: JobContext[Any]) -> Access:
        """A handler of the operator fetches its source and uses the cache by itself."""
        if not self._executor.fence_handlers:
            # The same for all jobs, so that they share warm processes.
            return Access("handlers", has_environment=True, is_trusted=True)
        data = ctx.cache.data_directory
        roots = [*map(str, ctx.sources.roots), *(path or os.curdir for path in sys.path)]
        reads = without_private(roots, [str(data), str(DEFAULT_FILE)])
        return Access(
            self._key,
            reads=frozenset({*reads, str(data / "uploads" / self.job.job_id)}),
            writes=frozenset({str(ctx.directory), str(ctx.scratch), str(ctx.cache.root)}),
            scratch=str(ctx.scratch),
            has_network=True,
            has_environment=True,
        )

    @property
    def _key(self) -> str:
        return f"{self.job.job_id}/{self.job.attempt}"

    def _failed(self, error: errors.JobFailed) -> Failed:
        job, crashed = self.job, isinstance(error, errors.ProcessDied)
        if crashed:
            retry = job.crashes + 1 < self._executor.max_crashes
        elif retry := error.retryable:
            max_attempts = job.max_attempts or self._executor.registry[job.job_type].max_attempts
            retry = job.failures + 1 < max_attempts
        failures = job.crashes if crashed else job.failures
        retry_at = utc_now() + backoff(error, failures) if retry else None
        details = _to_json(error.details) if error.details else None
        job_error = JobError(code=error.code, message=error.message, details=details)
        return Failed(job_error, retry_at, crashed=crashed)

    def _log_outcome(self, outcome: Outcome) -> None:
        """Not for custom handlers, which write their own logs, nor for a job that completed and has
        reported nothing: it needs no further write."""
        reporter, registry, job_type = self._reporter, self._executor.registry, self.job.job_type
        if job_type not in registry or registry[job_type].origin is not None:
            return
        if isinstance(outcome, Completed) and not reporter.has_reported:
            return
        lines = outcome_lines(
            self.job,
            outcome,
            steps=reporter.step_times,
            used=self._resources.used,
            llm_requests=self._llm.info()["requests"],
        )
        level: LogLevel = "error" if isinstance(outcome, Failed) else "info"
        *details, last = lines
        for line in details:
            reporter.log(LogEntry(message=line))
        reporter.log(LogEntry(level=level, message=last))

    async def _record(self, outcome: Outcome) -> Outcome | None:
        """Store the outcome. Returns what was stored; None if the lease was lost."""
        used = self._resources.used
        if self._executor.counts_usage and self.job.user_id is not None:
            await self._count_usage(outcome, used)
        while True:
            try:
                finish = partial(self._finish, outcome, used)
                await _retry_until_available("Could not record the outcome", finish)
                break
            except errors.LeaseLost:
                if isinstance(outcome, Completed) and await self._was_completed():
                    break
                logger.warning("The lease expired while the job ran; its new owner will finish it")
                return None
            except Exception as error:  # the handler's results cannot be stored
                if not isinstance(outcome, Failed):
                    outcome = _unexpected(error)
                elif not used:
                    raise
                used = {}
        if self.job.webhook is not None:
            self._executor.on_ended(self.job.job_id)
        return outcome

    async def _count_usage(self, outcome: Outcome, used: Mapping[str, float]) -> None:
        """Count what the attempt used, however it ended. Before its outcome is stored: a client
        that sees the job end finds it counted."""
        pages, audio_seconds = _amount(used, "pages"), _amount(used, "audio_seconds")
        size = None
        if isinstance(outcome, Completed):
            size = await self._executor.files.attempt_bytes(self.job)
        if pages or audio_seconds or size != self.job.stored_bytes:
            add = partial(
                self._executor.store.add_usage,
                self.job,
                pages=int(pages),
                audio_seconds=audio_seconds,
                stored_bytes=size,
            )
            await _retry_until_available("Could not count the usage", add)

    async def _finish(self, outcome: Outcome, used: Mapping[str, float]) -> None:
        await self._reporter.flush()
        await self._executor.store.finish(self.job, outcome, resources=used)

    async def _was_completed(self) -> bool:
        """Whether the outcome was stored although the store reported an error. If so, the job is
        not lost and its artifacts must stay. Reads may lag behind for a moment."""
        look = partial(self._executor.store.get, self.job.job_id)
        while True:
            try:
                stored = await _retry_until_available("Could not read the job back", look)
            except errors.NotFound:
                return False
            claim = attrgetter("attempt", "worker_id", "processing_started_at")
            if claim(stored) != claim(self.job):
                return False
            if stored.status is not JobStatus.PROCESSING:
                return stored.status is JobStatus.COMPLETED
            await asyncio.sleep(0.1)


def _amount(used: Mapping[str, float], resource: str) -> float:
    """A handler may have reported anything."""
    amount = used.get(resource, 0)
    return amount if 0 < amount < MAX_AMOUNT else 0


def _with_warnings(
    results: dict[str, Any] | None, warnings: Sequence[JobWarning]
) -> dict[str, Any] | None:
    if not warnings:
        return results
    given = (results or {}).get("warnings")
    added = [warning.model_dump() for warning in warnings]
    return {**(results or {}), "warnings": [*(given if isinstance(given, list) else []), *added]}


class StoreReporter:
    """Buffers the progress and logs of one attempt; calls `on_lost` once its lease is lost."""

    def __init__(
        self, store: ClaimStore, job: Job, observer: Observer, *, on_lost: Callable[[], None]
    ) -> None:
        self._store = store
        self._job = job
        self._observer = observer
        self._on_lost = on_lost
        self.step_times = StepTimes()
        self.has_reported = False
        self._progress: Progress | None = None
        self._logs: list[LogEntry] = []
        self._writing: asyncio.Task[None] | None = None
        self._flush_now = asyncio.Event()

    def progress(self, progress: Progress) -> None:
        self._observer.progressed(self._job, progress)
        self.step_times.report(progress)
        self._progress = progress
        self._schedule_write()

    def log(self, entry: LogEntry) -> None:
        self._logs.append(entry)
        self._schedule_write()

    def _schedule_write(self) -> None:
        self.has_reported = True
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_EVERY):
                    await self._flush_now.wait()
            await self._write()
        except errors.LeaseLost:
            self._on_lost()
        except errors.StoreUnavailable as error:
            logger.warning("Could not report progress: %s", error)
        finally:
            self._writing = None

    async def _write(self) -> None:
        progress, logs = self._progress, self._logs
        self._progress, self._logs = None, []
        try:
            await self._store.report(self._job, progress, logs)
        except errors.StoreUnavailable:
            self._progress = self._progress or progress
            # Bounded by what a job stores: the outage may last for hours.
            self._logs = (logs + self._logs)[-MAX_LOG_ENTRIES:]
            raise

    async def flush(self) -> None:
        """Write everything buffered now."""
        if self._writing is not None:
            self._flush_now.set()
            await self._writing
        if self._progress is not None or self._logs:
            await self._write()


async def _retry_until_available(problem: str, call: Callable[[], Awaitable[T]]) -> T:
    """Retry while the store or the blob store is down, however long: no work may be lost."""
    wait = 0.1
    while True:
        try:
            return await call()
        except errors.StoreUnavailable as error:
            logger.error("%s; retrying: %s", problem, error)
            await asyncio.sleep(wait)
            wait = min(wait * 2, 5.0)


def backoff(error: errors.JobFailed, failures: int) -> timedelta:
    """How long to wait before the next attempt: exponential, with jitter."""
    if error.retry_after is not None:
        return error.retry_after
    wait: timedelta = min(error.backoff * 2**failures, MAX_BACKOFF)
    return wait * random.uniform(0.5, 1.5)


def _to_json(details: dict[str, Any]) -> dict[str, Any] | None:
    """Convert error details to plain JSON, so that they can always be stored."""
    try:
        plain: dict[str, Any] = to_jsonable_python(
            replace_lone_surrogates(details),
            bytes_mode="base64",
            inf_nan_mode="null",
            fallback=lambda value: type(value).__name__,
        )
    except (ValueError, RecursionError):  # they contain themselves
        return None
    return plain


def _unexpected(error: Exception) -> Failed:
    """Log the traceback; the client sees only the exception's type."""
    if isinstance(error, RemoteError):
        logger.error("Unexpected error in the handler:\n%s", error.remote_traceback)
        error_type = str(error)
    else:
        logger.error("Unexpected error in the handler", exc_info=error)
        error_type = type(error).__name__
    details = {"type": error_type}
    return Failed(JobError(code="INTERNAL_ERROR", message="Internal error", details=details))
