"""How the service is, in numbers: what health and metrics tell of the store and the workers."""

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

#: A store that needs longer for a simple question does not answer.
STORE_TIMEOUT_SECONDS = 2.0

#: At most one part in so many of the time goes into counting, however long it takes.
CACHE_FACTOR = 20
MAX_CACHE_SECONDS = 60.0

#: A page does not wait longer for numbers that it knows, if from before.
FRESH_WAIT_SECONDS = 0.03
#: Of so many users it is remembered how many jobs they have.
MAX_CACHED_USERS = 1000

StateCounts = Mapping[JobStatus, int]
Counts = Mapping[str, StateCounts]


@dataclass(frozen=True, slots=True)
class Measured(Generic[T]):
    value: T
    #: When it was found out.
    at: datetime


class CachedQuery(Generic[T]):
    """Something that is costly to find out: found out once for all who ask at the same time, and
    used for longer the longer it took."""

    def __init__(self, find: Callable[[], Awaitable[T]]) -> None:
        self._find = find
        self._finding: asyncio.Task[T] | None = None
        self._use_until = 0.0
        self._known: Measured[T] | None = None

    async def get(self) -> T:
        # Who does not wait to the end must not spoil it for the others.
        return await asyncio.shield(self._task())

    async def get_or_stale(self, seconds: float) -> Measured[T]:
        """What is known, if finding it out anew takes longer than this."""
        task = self._task()
        if self._known is not None and not task.done():
            await asyncio.wait([task], timeout=seconds)
            if not task.done():
                return self._known
        await asyncio.shield(task)
        assert self._known is not None
        return self._known

    def expire(self) -> None:
        """What is known is found out anew by the next who asks."""
        self._use_until = 0.0

    def _task(self) -> asyncio.Task[T]:
        task = self._finding
        if task is None or (task.done() and time.monotonic() >= self._use_until):
            task = self._finding = asyncio.create_task(self._find_out())
            task.add_done_callback(_heard)
        return task

    async def _find_out(self) -> T:
        began, at = time.monotonic(), utc_now()
        self._use_until = 0.0
        found = await self._find()
        took = time.monotonic() - began
        self._use_until = began + took + min(took * CACHE_FACTOR, MAX_CACHE_SECONDS)
        self._known = Measured(found, at)
        return found


def _heard(task: asyncio.Task[object]) -> None:
    if not task.cancelled():
        task.exception()  # whoever asked may be gone


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """The workers that are alive."""

    workers: int
    slots: int

    @classmethod
    def of(cls, alive: list[WorkerInfo]) -> "WorkerStats":
        return cls(len(alive), sum(worker.slots for worker in alive))


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """The one that holds the data directory of this machine."""

    total: int
    free: int


class ServiceStats:
    """Each question raises `StoreUnavailable` when the store has no answer in time."""

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
        """How many jobs there are, by type and state; with millions of them some seconds old."""
        return await _in_time(self._counts.get())

    async def jobs_by_state(self, user: str | None) -> Measured[StateCounts]:
        """How many jobs there are, or how many this user owns, by state. What takes long to count
        is told as it was counted last."""
        if user is not None:
            return await _in_time(self._of_user(user).get_or_stale(FRESH_WAIT_SECONDS))
        known = await _in_time(self._counts.get_or_stale(FRESH_WAIT_SECONDS))
        summed: Counter[JobStatus] = Counter()
        for by_state in known.value.values():
            summed.update(by_state)
        return Measured(summed, known.at)

    def _of_user(self, user: str) -> CachedQuery[StateCounts]:
        if user not in self._of_users:
            self._of_users[user] = CachedQuery(
                partial(self._job_service.store.counts_of_user, user)
            )
            if len(self._of_users) > MAX_CACHED_USERS:
                self._of_users.popitem(last=False)
        return self._of_users[user]

    async def warm_up(self) -> None:
        """Count for the first time, before anybody asks."""
        with suppress(StoreUnavailable):
            await self._counts.get()
        self._counts.expire()  # it took long because nothing was warm, not because it is much

    async def waiting(self) -> Mapping[str, timedelta]:
        """How long the next job of each type has been waiting."""
        since = await _in_time(self._job_service.store.waiting_since())
        now = utc_now()
        return {job_type: max(now - at, timedelta(0)) for job_type, at in since.items()}

    async def webhook_lag(self) -> timedelta:
        """How late the next event for a webhook is."""
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
        raise StoreUnavailable("The store does not answer") from None
