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
    #: How many jobs the worker is running. Suspects only start on a worker that runs none.
    busy: int = 0
    #: Whether an idle worker is given suspects before other jobs. Workers alternate.
    suspects_first: bool = True

    def accepts(self, job_type: str) -> bool:
        return bool(self.slots_for(job_type)) and self.handles(job_type)

    def handles(self, job_type: str) -> bool:
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
    took workers down while it ran alone, or was cancelled because that had been requested."""

    job_id: str
    attempt: int
    worker_id: str
    failed: bool
    cancelled: bool = False
    #: It is a suspect: it runs alone or in a small group.
    suspect: bool = False


class ClaimStore(Protocol):
    """Claims and leases. `report` and `finish` take the job that `claim` returned and raise
    `LeaseLost` once another worker may own it."""

    #: Reached over a network, which may fail for one machine and not for others.
    remote: bool

    async def register_worker(
        self, worker: WorkerInfo, lease: timedelta, *, survived: Collection[tuple[str, int]] = ()
    ) -> None:
        """Add or update a worker. It owns the jobs it claims until its lease expires.

        `survived` are the ids and attempts of jobs that this process ran under a lease it lost,
        for example because the machine was paused. It did not die, so these losses do not count.
        """

    async def unregister_worker(self, worker_id: str) -> None:
        """Remove a worker that owns no jobs any more."""

    async def workers(self) -> list[WorkerInfo]: ...

    async def claim(self, worker_id: str, capacity: Capacity) -> list[Job]:
        """Give the worker the jobs that should start next.

        Higher priorities first, first in first out within one, users in turn (see `scheduling`).
        Suspects start on an idle worker, in groups of their size. While more of them wait than
        workers prepare for one, a busy worker gets nothing, so that it becomes idle. Raises
        `LeaseLost` if the worker is not registered.
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

    async def rescue(self, *, dead: Collection[str] = ()) -> list[Rescued]:
        """Take the jobs from workers whose lease expired and from those known to be `dead`.

        `judge_loss` decides whether a job runs again like any other, alone, or not at all.
        """

    async def tidy(self) -> None:
        """Periodic housekeeping: settle batches, drop expired keys, checkpoint."""


#: A job is a suspect after this many strikes, and fails after that many more while it ran alone.
SUSPECT_STRIKES = 2
SOLO_STRIKES = 2
#: Suspects that were lost together are divided into this many groups.
GROUPS = 8
#: Losses of workers this recent show that workers are lost whatever they run.
UNSTABLE_WITHIN = timedelta(minutes=2)
#: Even if other workers are lost too, there is at least one strike per this many losses: a job that
#: takes down a whole machine does not run forever.
STRIKE_EVERY = 3
#: The error message of attempts whose worker was lost.
WORKER_LOST = "The worker was lost while running the job"


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A worker that was lost, recently. If it ran suspects, one of them may be the cause."""

    worker_id: str
    ran_suspects: bool


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The counters of a job that concern lost workers; see `Job`."""

    losses: int = 0
    strikes: int = 0
    group_size: int | None = None

    @property
    def is_proven(self) -> bool:
        """The job took its worker down while it ran alone, and did it again."""
        return self.strikes >= SUSPECT_STRIKES + SOLO_STRIKES


def is_unstable(
    recent: Iterable[LostWorker], worker_id: str, attempts: Iterable[Mapping[str, Any]]
) -> bool:
    """Whether workers were lost that were not running the job, which was lost with `worker_id` and
    had these earlier `attempts`, as stored.

    Workers that ran other suspects do not count: those may have taken them down.
    """
    lost_with_job = {worker_id} | {
        attempt["worker_id"]
        for attempt in attempts
        if (attempt.get("error") or {}).get("message") == WORKER_LOST
    }
    return any(not one.ran_suspects and one.worker_id not in lost_with_job for one in recent)


def judge_loss(before: Suspicion, *, jobs_lost: int, unstable: bool) -> Suspicion:
    """Return the counters of a job whose worker was lost together with `jobs_lost` jobs.

    The first loss has no consequences, so one power failure or `kill -9` slows nothing down. From
    the second on the job is a suspect. Suspects run alone; if so many were lost together that this
    would take too long, they run in groups, an eighth of them at a time, until the groups have one
    member. Only losses of a job that ran alone lead to its failure.
    """
    losses = before.losses + 1
    if unstable and losses < STRIKE_EVERY * (before.strikes + 1):
        return replace(before, losses=losses)
    if before.group_size is None or before.group_size == 1:
        strikes = before.strikes + 1
    else:
        strikes = before.strikes  # another one of its group may be the cause
    group_size = before.group_size
    if strikes >= SUSPECT_STRIKES:
        group_size = max(1, min(jobs_lost, before.group_size or jobs_lost) // GROUPS)
    return Suspicion(losses, strikes, group_size)


def loss_error(worker_id: str, suspicion: Suspicion) -> JobError:
    """The error of an attempt whose worker was lost."""
    message = WORKER_LOST
    if suspicion.is_proven:
        message = f"The job took its worker down {SOLO_STRIKES} times while it ran alone"
    details = {"worker_id": worker_id, "losses": suspicion.losses}
    return JobError(code="WORKER_CRASHED", message=message, details=details)


def worker_lost_entry(worker_id: str, attempt: int, suspicion: Suspicion) -> LogEntry:
    text = f"The worker was lost while running this job (attempt {attempt}, {worker_id})"
    if suspicion.group_size == 1 and not suspicion.is_proven:
        text += "; the next attempt runs alone"
    return LogEntry(level="error", message=text)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A suspect that waits for an idle worker."""

    key: Any
    job_type: str
    user_id: str | None
    group_size: int


def choose_suspects(
    waiting: Iterable[Suspect], capacity: Capacity, running: "Running"
) -> list[Suspect]:
    """Return the suspects that an idle worker may start together: as many as the group of the
    first one has."""
    group: list[Suspect] = []
    for one in waiting:
        if not capacity.accepts(one.job_type) or not is_below_limits(one, capacity, running):
            continue
        if group and (one.group_size < group[0].group_size or len(group) >= group[0].group_size):
            continue
        group.append(one)
        capacity = capacity.without([one.job_type])
        running.per_type[one.job_type] += 1
        running.per_user[one.user_id] += 1
    return group


def has_to_become_idle(
    waiting: Iterable[Suspect], capacity: Capacity, running: "Running", *, others_preparing: int
) -> bool:
    """Whether a busy worker should start nothing until it is idle and can run a suspect. One worker
    prepares for each suspect, so that a few of them do not stop all workers."""
    startable = [
        one
        for one in waiting
        if capacity.handles(one.job_type) and is_below_limits(one, capacity, running)
    ]
    return len(startable) > others_preparing


def is_below_limits(one: Suspect, capacity: Capacity, running: "Running") -> bool:
    """Whether the limits per type and user allow the job to start."""
    if running.per_type[one.job_type] >= capacity.max_per_type.get(one.job_type, math.inf):
        return False
    if capacity.max_per_user is None or one.user_id is None:
        return True
    return running.per_user[one.user_id] < capacity.max_per_user


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
