"""Workers that take jobs as the SQLite store gives them: its own lines, its own claim and its own
policy, on a clock of our own. Only the work itself is left out."""

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import apsw

from secretary.core.job import Job, utc_now
from secretary.store import Capacity, WorkerInfo
from secretary.store.scheduling import FairScheduler
from secretary.store.sqlite.claims import Completion, claim, complete, register_worker
from secretary.store.sqlite.connection import connect
from secretary.store.sqlite.queue import enqueue
from secretary.store.sqlite.schema import prepare

from .day import Arrival


@dataclass(frozen=True, slots=True)
class Crew:
    workers: int = 2
    slots: int = 4
    max_per_type: Mapping[str, int] = field(default_factory=dict)
    max_per_user: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A job that was started after so many seconds."""

    job: Arrival
    waited_s: float


class Queue(Protocol):
    """What a worker asks for jobs; they are known by their place in the day."""

    def add(self, numbers: Sequence[int]) -> None: ...
    def claim(self, worker: int, slots: int) -> list[int]: ...
    def finish(self, number: int) -> None: ...


class StoreQueue:
    """The store's own code. Each worker has a memory of turns of its own, as processes have."""

    def __init__(self, day: Sequence[Arrival], crew: Crew, clock: "Clock", directory: Path) -> None:
        path = directory / "simulation.db"
        prepare(path)
        self._day, self._crew = day, crew
        self._db = connect(path)
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("BEGIN IMMEDIATE")  # one transaction for all: nothing here must last
        self._turns = [FairScheduler(clock) for _ in range(crew.workers)]
        self._claimed: dict[int, Job] = {}
        for worker in range(crew.workers):
            _enlist(self._db, worker)

    def add(self, numbers: Sequence[int]) -> None:
        jobs = [
            Job(job_id=f"job-{n}", job_type=self._day[n].job_type, user_id=self._day[n].user)
            for n in numbers
        ]
        enqueue(self._db, jobs, paused=False)

    def claim(self, worker: int, slots: int) -> list[int]:
        crew = self._crew
        wanted = Capacity(
            slots=slots, max_per_type=crew.max_per_type, max_per_user=crew.max_per_user
        )
        jobs = claim(self._db, self._turns[worker], str(worker), wanted)
        taken = {int(job.job_id.removeprefix("job-")): job for job in jobs}
        self._claimed |= taken
        return list(taken)

    def finish(self, number: int) -> None:
        complete(self._db, [Completion(self._claimed.pop(number), None, None)])

    def close(self) -> None:
        self._db.close()


def _enlist(db: apsw.Connection, worker: int) -> None:
    now = utc_now()
    info = WorkerInfo(
        worker_id=str(worker),
        host="",
        pid=0,
        birth="",
        slots=1,
        version="",
        started_at=now,
        seen_at=now,
    )
    register_worker(db, info, timedelta(days=1), boot="")


class PlainQueue:
    """First in, first out, with the limit per type: what to compare with."""

    def __init__(self, day: Sequence[Arrival], crew: Crew) -> None:
        self._day, self._crew = day, crew
        self._waiting: deque[int] = deque()
        self._running: Counter[str] = Counter()

    def add(self, numbers: Sequence[int]) -> None:
        self._waiting.extend(numbers)

    def claim(self, worker: int, slots: int) -> list[int]:
        taken: list[int] = []
        passed: list[int] = []
        while self._waiting and len(taken) < slots:
            number = self._waiting.popleft()
            kind = self._day[number].job_type
            if self._running[kind] < self._crew.max_per_type.get(kind, len(self._day)):
                self._running[kind] += 1
                taken.append(number)
            else:
                passed.append(number)
        self._waiting.extendleft(reversed(passed))
        return taken

    def finish(self, number: int) -> None:
        self._running[self._day[number].job_type] -= 1


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def through_the_store(
    day: Sequence[Arrival], crew: Crew, directory: Path, *, until_s: float | None = None
) -> list[Start]:
    clock = Clock()
    queue = StoreQueue(day, crew, clock, directory)
    try:
        return _run(day, crew, queue, clock, until_s)
    finally:
        queue.close()


def first_in_first_out(day: Sequence[Arrival], crew: Crew) -> list[Start]:
    return _run(day, crew, PlainQueue(day, crew), Clock(), None)


def _run(
    day: Sequence[Arrival], crew: Crew, queue: Queue, clock: Clock, until_s: float | None
) -> list[Start]:
    """From one arrival or end to the next; `day` is in the order of its times."""
    free = [crew.slots] * crew.workers
    ends: list[tuple[float, int, int]] = []
    starts: list[Start] = []
    coming = 0
    while coming < len(day) or ends:
        clock.now = min([job.at_s for job in day[coming : coming + 1]] + [e[0] for e in ends[:1]])
        if until_s is not None and clock.now > until_s:
            break
        arrived = coming
        while coming < len(day) and day[coming].at_s <= clock.now:
            coming += 1
        queue.add(range(arrived, coming))
        while ends and ends[0][0] <= clock.now:
            _, number, worker = heapq.heappop(ends)
            queue.finish(number)
            free[worker] += 1
        for worker in sorted(range(crew.workers), key=lambda worker: -free[worker]):
            for number in queue.claim(worker, free[worker]) if free[worker] else ():
                free[worker] -= 1
                heapq.heappush(ends, (clock.now + day[number].work_s, number, worker))
                starts.append(Start(day[number], clock.now - day[number].at_s))
    return starts


def by_user_and_type(starts: Iterable[Start]) -> dict[tuple[str, str], list[float]]:
    waits: dict[tuple[str, str], list[float]] = {}
    for start in starts:
        waits.setdefault((start.job.user, start.job.job_type), []).append(start.waited_s)
    return waits
