"""What workers ask of a store: leases, claims, progress, outcomes and the rescue of lost jobs."""

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from ..core.job import Job, JobError, LogEntry, Outcome, Progress, iso, utc_now
from ..core.processes import has_died

#: A lease is only written again once this share of it or less remains.
RENEW_BELOW = 0.9

#: A worker renews its lease every few seconds; after this time without a renewal it is gone.
ALIVE_WITHIN = timedelta(seconds=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A registered worker process. `worker_id` is new at each start, whatever the host."""

    worker_id: str
    host: str
    pid: int
    #: Machine boot, process namespace and start time of the pid: shows on the same machine
    #: whether the process is still running.
    birth: str
    slots: int
    #: Further slots, only for jobs of these types: they wait for the network most of the time.
    io_slots: int = 0
    io_types: Sequence[str] = ()
    version: str
    #: The job types it claims; empty means all.
    job_types: Sequence[str] = ()
    #: Those of them that it has a handler for.
    handles: Sequence[str] = ()
    started_at: datetime
    seen_at: datetime
    draining: bool = False

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> "WorkerInfo":
        """Ignore fields that a newer version may have stored."""
        return cls(**{one.name: stored[one.name] for one in fields(cls) if one.name in stored})


def is_alive(worker: WorkerInfo) -> bool:
    silent_for = utc_now() - worker.seen_at
    return silent_for < ALIVE_WITHIN and not has_died(worker.pid, worker.birth)


def worker_document(worker: WorkerInfo) -> dict[str, Any]:
    """Return a worker as clients see it."""
    document = asdict(worker) | {
        "job_types": list(worker.job_types),
        "handles": list(worker.handles),
        "io_types": list(worker.io_types),
        "started_at": iso(worker.started_at),
        "seen_at": iso(worker.seen_at),
        "alive": is_alive(worker),
    }
    del document["pid"], document["birth"]
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a worker can start now. The limits count running jobs of all workers."""

    slots: int
    #: Further slots, only for jobs of these types, which take no others: a job that waits for the
    #: network does not queue behind one that computes for hours.
    io_slots: int = 0
    io_types: Collection[str] = ()
    #: None claims every type, including those without any handler, so that they can fail.
    job_types: Collection[str] | None = None
    #: Types that only other workers have a handler for.
    excluded_types: Collection[str] = ()
    max_per_type: Mapping[str, int] = field(default_factory=dict)
    max_per_user: int | None = None

    def accepts(self, job_type: str) -> bool:
        if not self.slots_for(job_type):
            return False
        if self.job_types is None:
            return job_type not in self.excluded_types
        return job_type in self.job_types

    def slots_for(self, job_type: str) -> int:
        return self.io_slots if job_type in self.io_types else self.slots

    def without(self, job_types: Iterable[str]) -> "Capacity":
        """What remains after jobs of these types were started."""
        taken = Counter(job_type in self.io_types for job_type in job_types)
        return replace(self, slots=self.slots - taken[False], io_slots=self.io_slots - taken[True])


@dataclass(frozen=True, slots=True)
class Renewal:
    """The jobs a worker still owns, with their attempt numbers, and those to be cancelled."""

    attempts: Mapping[str, int]
    cancelled: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rescued:
    """A job that was taken from a lost worker. It is pending again, unless it failed because it
    lost too many workers, or was cancelled because that had been requested."""

    job_id: str
    attempt: int
    worker_id: str
    failed: bool
    cancelled: bool = False


class ClaimStore(Protocol):
    """Claims and leases. `report` and `finish` take the job that `claim` returned and raise
    `LeaseLost` once another worker may own it."""

    #: Reached over a network, which may fail for one machine and not for others.
    remote: bool

    async def register_worker(self, worker: WorkerInfo, lease: timedelta) -> None:
        """Add or update a worker. It owns the jobs it claims until its lease expires."""

    async def unregister_worker(self, worker_id: str) -> None:
        """Remove a worker that owns no jobs any more."""

    async def workers(self) -> list[WorkerInfo]: ...

    async def claim(self, worker_id: str, capacity: Capacity) -> list[Job]:
        """Give the worker the jobs that should start next.

        Higher priorities first, first in first out within one, users in turn (see `scheduling`).
        Raises `LeaseLost` if the worker is not registered.
        """

    async def renew(self, worker_id: str, lease: timedelta) -> Renewal:
        """Extend the worker's lease. Cheap enough to call twice a second."""

    async def report(
        self, job: Job, progress: Progress | None = None, logs: Sequence[LogEntry] = ()
    ) -> None: ...

    async def finish(
        self, job: Job, outcome: Outcome, *, resources: Mapping[str, float] | None = None
    ) -> None:
        """Record the outcome of this attempt; a final one is durable and makes its webhook due."""

    async def wait(self, since: int, *, seconds: float) -> int:
        """Wait up to `seconds` until there may be something to claim or cancel.

        Returns the value to pass as `since` next time, so that nothing is missed in between.
        """

    async def rescue(self, *, dead: Collection[str] = (), max_crashes: int = 2) -> list[Rescued]:
        """Take the jobs from workers whose lease expired and from those known to be `dead`.

        A job that lost its worker `max_crashes` times fails instead of running again.
        """

    async def tidy(self) -> None:
        """Periodic housekeeping: settle batches, drop expired keys, checkpoint."""


def crash_error(worker_id: str, deaths: int) -> JobError:
    """The error of a job whose worker was lost."""
    return JobError(
        code="WORKER_CRASHED",
        message="The worker crashed or lost its connection while running the job",
        details={"worker_id": worker_id, "deaths": deaths},
    )


def worker_lost_entry(worker_id: str, attempt: int) -> LogEntry:
    text = f"The worker was lost while running this job (attempt {attempt}, {worker_id})"
    return LogEntry(level="error", message=text)


#: Jobs of one type and priority share one queue, which serves its users in turn.
JobClass = tuple[str, int]

#: A queue that is not served while others are gains one priority level per this time.
AGEING = timedelta(minutes=1)

MAX_USERS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that could start. `arrival` orders jobs of different queues first in, first out."""

    key: Any
    user_id: str | None
    arrival: Any


@dataclass(slots=True)
class Running:
    """How many jobs are running on all workers."""

    per_type: Counter[str] = field(default_factory=Counter)
    per_user: Counter[str | None] = field(default_factory=Counter)


class FairScheduler:
    """Remembers who was served last, so that no queue and no user starves.

    Each process has its own memory: losing it costs a little fairness, never a job.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._served_at: dict[JobClass, float] = {}
        self._user_served: dict[str | None, int] = {}
        self._tick = 0

    def choose(
        self, queues: Mapping[JobClass, Iterator[Candidate]], capacity: Capacity, running: Running
    ) -> list[Candidate]:
        """Take jobs from the heads of the queues until the capacity is used up."""
        heads = {queue: head for queue, waiting in queues.items() if (head := next(waiting, None))}
        now = self._clock()
        # Queues without a free slot were not offered; their jobs go on waiting.
        unserved = {
            queue: at for queue, at in self._served_at.items() if not capacity.slots_for(queue[0])
        }
        self._served_at = unserved | {queue: self._served_at.get(queue, now) for queue in heads}
        chosen: list[Candidate] = []
        while True:
            allowed = [
                queue
                for queue in heads
                if capacity.slots_for(queue[0]) > 0
                and running.per_type[queue[0]] < capacity.max_per_type.get(queue[0], math.inf)
            ]
            if not allowed:
                break
            queue = min(allowed, key=lambda queue: self._rank(queue, heads[queue], now))
            head = heads[queue]
            max_per_user = None if head.user_id is None else capacity.max_per_user
            if max_per_user is None or running.per_user[head.user_id] < max_per_user:
                chosen.append(head)
                capacity = capacity.without([queue[0]])
                running.per_type[queue[0]] += 1
                running.per_user[head.user_id] += 1
                self._served_at[queue] = now
                if len(self._user_served) > MAX_USERS_REMEMBERED:
                    self._user_served.clear()
                self._tick += 1
                self._user_served[head.user_id] = self._tick
            following = next(queues[queue], None)
            if following is None:
                del heads[queue]
            else:
                heads[queue] = following
        return chosen

    def _rank(self, queue: JobClass, head: Candidate, now: float) -> tuple[int, int, Any]:
        aged = int((now - self._served_at[queue]) / AGEING.total_seconds())
        return (-(queue[1] + aged), self._user_served.get(head.user_id, 0), head.arrival)
