"""How the service is, in numbers: what health and metrics tell of the store and the workers."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from .desk import Desk
from .errors import StoreUnavailable
from .job import JobStatus, utc_now
from .store import WorkerInfo

T = TypeVar("T")

#: A store that needs longer for a simple question does not answer.
PATIENCE_SECONDS = 2.0

#: At most one part in so many of the time goes into counting, however long it takes.
COUNTING_SHARE = 20
LONGEST_USE = 60.0

Counts = Mapping[str, Mapping[JobStatus, int]]


class Shared(Generic[T]):
    """Something that is costly to find out: found out once for all who ask at the same time, and
    used for longer the longer it took."""

    def __init__(self, find: Callable[[], Awaitable[T]]) -> None:
        self._find = find
        self._finding: asyncio.Task[T] | None = None
        self._use_until = 0.0

    async def get(self) -> T:
        task = self._finding
        if task is None or (task.done() and time.monotonic() >= self._use_until):
            task = self._finding = asyncio.create_task(self._find_out())
            task.add_done_callback(_heard)
        # Who does not wait to the end must not spoil it for the others.
        return await asyncio.shield(task)

    async def _find_out(self) -> T:
        began = time.monotonic()
        self._use_until = 0.0
        found = await self._find()
        took = time.monotonic() - began
        self._use_until = began + took + min(took * COUNTING_SHARE, LONGEST_USE)
        return found


def _heard(task: asyncio.Task[object]) -> None:
    if not task.cancelled():
        task.exception()  # whoever asked may be gone


@dataclass(frozen=True, slots=True)
class Crew:
    """The workers that are alive."""

    workers: int
    slots: int

    @classmethod
    def of(cls, alive: list[WorkerInfo]) -> "Crew":
        return cls(len(alive), sum(worker.slots for worker in alive))


@dataclass(frozen=True, slots=True)
class Disk:
    """The one that holds the data directory of this machine."""

    total: int
    free: int


class Vitals:
    """Each question raises `StoreUnavailable` when the store has no answer in time."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._counts: Shared[Counts] = Shared(self._count)
        self._started = time.monotonic()

    @property
    def uptime(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self._started)

    @property
    def store_kind(self) -> str:
        return self._desk.store.kind

    async def jobs(self) -> Counts:
        """How many jobs there are, by type and state; with millions of them some seconds old."""
        return await _in_time(self._counts.get())

    async def waiting(self) -> Mapping[str, timedelta]:
        """How long the next job of each type has been waiting."""
        since = await _in_time(self._desk.store.waiting_since())
        now = utc_now()
        return {job_type: max(now - at, timedelta(0)) for job_type, at in since.items()}

    async def webhook_lag(self) -> timedelta:
        """How late the next event for a webhook is."""
        due = await _in_time(self._desk.store.events_due_since())
        return max(utc_now() - due, timedelta(0)) if due is not None else timedelta(0)

    async def crew(self) -> Crew:
        return Crew.of(await _in_time(self._desk.workers_alive()))

    async def disk(self) -> Disk:
        usage = await asyncio.to_thread(shutil.disk_usage, self._desk.files.root.parent)
        return Disk(usage.total, usage.free)

    async def _count(self) -> Counts:
        return await self._desk.store.counts()


async def _in_time(answer: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await answer
    except TimeoutError:
        raise StoreUnavailable("The store does not answer") from None
