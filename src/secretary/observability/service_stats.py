"""Counts and ages of jobs, workers and webhook events, for health checks, metrics and pages."""

import asyncio
import shutil
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Generic, TypeVar

from ..core.errors import StoreUnavailable
from ..core.job import JobStatus, utc_now
from ..jobs.service import JobService
from ..store import WorkerInfo

T = TypeVar("T")

#: A store that takes longer for a simple query is considered unavailable.
STORE_TIMEOUT_SECONDS = 2.0

#: A result is cached for this many times as long as the query took.
CACHE_FACTOR = 20
MAX_CACHE_SECONDS = 60.0

#: How long a page waits for fresh numbers before it shows the cached ones.
FRESH_WAIT_SECONDS = 0.03
#: Number of users whose counts are cached.
MAX_CACHED_USERS = 1000

StateCounts = Mapping[JobStatus, int]
Counts = Mapping[str, StateCounts]


@dataclass(frozen=True, slots=True)
class Measured(Generic[T]):
    """A value and when it was read."""

    value: T
    at: datetime


class CachedQuery(Generic[T]):
    """An expensive query: concurrent callers share one run, and its result is cached for longer the
    longer it took."""

    def __init__(self, query: Callable[[], Awaitable[T]]) -> None:
        self._query = query
        self._running: asyncio.Task[T] | None = None
        self._expires_at = 0.0
        self._cached: Measured[T] | None = None

    async def get(self) -> T:
        # A cancelled caller must not cancel the query for the others.
        return await asyncio.shield(self._task())

    async def get_or_stale(self, seconds: float) -> Measured[T]:
        """The cached value if a fresh one takes longer than this."""
        task = self._task()
        if self._cached is not None and not task.done():
            await asyncio.wait([task], timeout=seconds)
            if not task.done():
                return self._cached
        await asyncio.shield(task)
        assert self._cached is not None
        return self._cached

    def expire(self) -> None:
        """Make the next caller run the query again."""
        self._expires_at = 0.0

    def _task(self) -> asyncio.Task[T]:
        task = self._running
        if task is None or (task.done() and time.monotonic() >= self._expires_at):
            task = self._running = asyncio.create_task(self._run())
            task.add_done_callback(_retrieve_exception)
        return task

    async def _run(self) -> T:
        started, at = time.monotonic(), utc_now()
        self._expires_at = 0.0
        value = await self._query()
        duration = time.monotonic() - started
        self._expires_at = started + duration + min(duration * CACHE_FACTOR, MAX_CACHE_SECONDS)
        self._cached = Measured(value, at)
        return value


def _retrieve_exception(task: asyncio.Task[object]) -> None:
    if not task.cancelled():
        task.exception()  # asyncio would log it if all callers are gone


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """Live workers and their job slots."""

    workers: int
    slots: int

    @classmethod
    def of(cls, alive: list[WorkerInfo]) -> "WorkerStats":
        return cls(len(alive), sum(worker.slots for worker in alive))


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """The disk of the data directory, in bytes."""

    total: int
    free: int


class ServiceStats:
    """Every query raises `StoreUnavailable` if the store does not respond in time."""

    def __init__(self, job_service: JobService) -> None:
        self._job_service = job_service
        self._counts: CachedQuery[Counts] = CachedQuery(self._count)
        self._of_users: OrderedDict[str, CachedQuery[StateCounts]] = OrderedDict()
        self._started = time.monotonic()

    @property
    def uptime(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self._started)

    @property
    def store_kind(self) -> str:
        return self._job_service.store.kind

    async def jobs(self) -> Counts:
        """Number of jobs by type and status; with millions of jobs some seconds old."""
        return await _in_time(self._counts.get())

    async def jobs_by_state(self, user: str | None) -> Measured[StateCounts]:
        """Number of jobs by status, of all users or of one. May be stale if counting takes long."""
        if user is not None:
            return await _in_time(self._of_user(user).get_or_stale(FRESH_WAIT_SECONDS))
        counts = await _in_time(self._counts.get_or_stale(FRESH_WAIT_SECONDS))
        total: Counter[JobStatus] = Counter()
        for by_state in counts.value.values():
            total.update(by_state)
        return Measured(total, counts.at)

    def _of_user(self, user: str) -> CachedQuery[StateCounts]:
        if user not in self._of_users:
            self._of_users[user] = CachedQuery(
                partial(self._job_service.store.counts_of_user, user)
            )
            if len(self._of_users) > MAX_CACHED_USERS:
                self._of_users.popitem(last=False)
        return self._of_users[user]

    async def warm_up(self) -> None:
        """Count before the first request."""
        with suppress(StoreUnavailable):
            await self._counts.get()
        self._counts.expire()  # slow because of cold caches, not because of many jobs

    async def waiting(self) -> Mapping[str, timedelta]:
        """How long the next job of each type has been in the queue."""
        since = await _in_time(self._job_service.store.waiting_since())
        now = utc_now()
        return {job_type: max(now - at, timedelta(0)) for job_type, at in since.items()}

    async def webhook_lag(self) -> timedelta:
        """How long the next webhook event has been due."""
        due = await _in_time(self._job_service.store.next_event_due_at())
        return max(utc_now() - due, timedelta(0)) if due is not None else timedelta(0)

    async def worker_stats(self) -> WorkerStats:
        return WorkerStats.of(await _in_time(self._job_service.workers_alive()))

    async def disk(self) -> DiskUsage:
        usage = await asyncio.to_thread(shutil.disk_usage, self._job_service.files.root.parent)
        return DiskUsage(usage.total, usage.free)

    async def _count(self) -> Counts:
        return await self._job_service.store.counts()


async def _in_time(answer: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
            return await answer
    except TimeoutError:
        raise StoreUnavailable("The store does not respond") from None
