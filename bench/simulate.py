"""How long jobs wait on a day of mixed jobs, by user and type, in virtual time.

    python bench/simulate.py [--seed 1] [--workers 2] [--slots 4] [--per-user N] [--svg FILE]

This is not a model of the claim policy but the policy itself: jobs are queued and claimed by the
code of the SQLite store, on a simulated clock. The same day in one FIFO queue is shown next to it.
The same seed gives the same table.
"""

import argparse
import heapq
import random
import statistics
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import charts
import report
import seeding

from secretary.core.job import Job
from secretary.store import Capacity
from secretary.store.claims import FairScheduler
from secretary.store.sqlite.claims import Completion, claim, complete, register_worker
from secretary.store.sqlite.connection import connect
from secretary.store.sqlite.jobs import enqueue
from secretary.store.sqlite.schema import prepare

HOUR = 3600.0
#: Users who submit a PDF now and then, from 8:00 to 18:00.
OFFICE_USERS = ("anna", "ben", "carla", "deniz", "emil", "fritz")
MINUTES_BETWEEN = 4.0
#: As an operator would set it: recordings take long and must not occupy all slots.
LIMITS = {"audio": 2}
NOTES = """\
Seconds from submission to start: {jobs:,} jobs of one day, {workers} workers with {slots} slots, at
most {audio} concurrent audio jobs{per_user}. Office: six users who submit a PDF now and then.
FIFO: the same day in one queue. Seed {seed}."""


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    cluster = Cluster(options.workers, options.slots, LIMITS, options.per_user)
    day = mixed_day(options.seed, size=0.1 if options.quick else options.size)
    with tempfile.TemporaryDirectory() as directory:
        waits = waits_by_user_and_type(map(_grouped, run_store(day, cluster, Path(directory))))
    fifo = waits_by_user_and_type(map(_grouped, run_fifo(day, cluster)))
    head = ["user, type", "jobs", "p50 s", "p95 s", "max s", "FIFO p50 s", "FIFO p95 s"]
    lines = []
    for key in sorted(waits):
        figures = [*_figures(waits[key]), *_figures(fifo[key])[:2]]
        lines.append([", ".join(key), f"{len(waits[key]):,}", *(f"{n:,.1f}" for n in figures)])
    print(report.table([head, *lines]))
    limit = f" and {options.per_user} per user" if options.per_user else ""
    given = {"workers": options.workers, "slots": options.slots, "seed": options.seed} | LIMITS
    print("\n" + NOTES.format(jobs=len(day), per_user=limit, **given))
    if options.svg:
        rows = {", ".join(key): _figures(waits[key]) for key in sorted(waits)}
        names = ("p50", "p95", "max")
        drawing = charts.bars("Wait time", rows, names, unit="seconds", square_root=True)
        options.svg.write_text(drawing)
    return 0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job: when it is submitted, in seconds of the day, and how long it runs."""

    at_s: float
    user: str
    job_type: str
    work_s: float


def mixed_day(seed: int, *, size: float = 1.0) -> list[Arrival]:
    """A day on which everything competes; a smaller `size` makes fewer jobs of it."""
    dice = random.Random(seed)
    day = [
        # A conference programme, submitted as one batch.
        *(
            Arrival(9 * HOUR, "conference", "session", dice.uniform(60, 240))
            for _ in range(int(500 * size))
        ),
        # Small jobs of one user, as fast as a script can submit them.
        *(
            Arrival(10.5 * HOUR + number / 200, "script", "pdf", dice.uniform(1, 3))
            for number in range(int(10_000 * size))
        ),
        *(
            Arrival(dice.uniform(8, 18) * HOUR, "radio", "audio", dice.uniform(300, 1500))
            for _ in range(max(int(24 * size), 1))
        ),
        *(job for user in OFFICE_USERS for job in _trickle(dice, user, size)),
        # A user with one job, in the middle of the others' work.
        Arrival(9.1 * HOUR, "guest", "session", 90.0),
        Arrival(10.6 * HOUR, "guest", "pdf", 8.0),
        Arrival(11.0 * HOUR, "guest", "audio", 300.0),
    ]
    return sorted(day, key=lambda job: (job.at_s, job.user))


def _trickle(dice: random.Random, user: str, size: float) -> list[Arrival]:
    jobs, at = [], 8 * HOUR
    while (at := at + dice.expovariate(size / (MINUTES_BETWEEN * 60))) < 18 * HOUR:
        jobs.append(Arrival(at, user, "pdf", dice.uniform(3, 30)))
    return jobs


@dataclass(frozen=True, slots=True)
class Cluster:
    workers: int = 2
    slots: int = 4
    max_per_type: Mapping[str, int] = field(default_factory=dict)
    max_per_user: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    job: Arrival
    waited_s: float


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class StoreQueue:
    """The code of the SQLite store. Each worker has its own scheduler state, as processes have.
    Jobs are identified by their position in the day."""

    def __init__(
        self, day: Sequence[Arrival], cluster: Cluster, clock: Clock, directory: Path
    ) -> None:
        path = directory / "simulation.db"
        prepare(path)
        self._day, self._cluster = day, cluster
        self.db = connect(path)
        self.db.execute("PRAGMA synchronous = OFF")
        self.db.execute("BEGIN IMMEDIATE")  # one transaction: nothing here has to be durable
        self._turns = [FairScheduler(clock) for _ in range(cluster.workers)]
        self._claimed: dict[int, Job] = {}
        for worker in range(cluster.workers):
            info = seeding.worker(str(worker), slots=1)
            register_worker(self.db, info, timedelta(days=1))

    def add(self, numbers: Sequence[int]) -> None:
        jobs = [
            Job(job_id=f"job-{n}", job_type=self._day[n].job_type, user_id=self._day[n].user)
            for n in numbers
        ]
        enqueue(self.db, jobs, paused=False)

    def claim(self, worker: int, slots: int) -> list[int]:
        limits = self._cluster
        wanted = Capacity(
            slots=slots, max_per_type=limits.max_per_type, max_per_user=limits.max_per_user
        )
        jobs = claim(self.db, self._turns[worker], str(worker), wanted)
        claimed = {int(job.job_id.removeprefix("job-")): job for job in jobs}
        self._claimed |= claimed
        return list(claimed)

    def finish(self, number: int) -> None:
        complete(self.db, [Completion(self._claimed.pop(number), None, None)])


class FifoQueue:
    """First in, first out, with the limit per type."""

    def __init__(self, day: Sequence[Arrival], cluster: Cluster) -> None:
        self._day, self._cluster = day, cluster
        self._waiting: deque[int] = deque()
        self._running: Counter[str] = Counter()

    def add(self, numbers: Sequence[int]) -> None:
        self._waiting.extend(numbers)

    def claim(self, worker: int, slots: int) -> list[int]:
        claimed: list[int] = []
        skipped: list[int] = []
        while self._waiting and len(claimed) < slots:
            number = self._waiting.popleft()
            job_type = self._day[number].job_type
            if self._running[job_type] < self._cluster.max_per_type.get(job_type, len(self._day)):
                self._running[job_type] += 1
                claimed.append(number)
            else:
                skipped.append(number)
        self._waiting.extendleft(reversed(skipped))
        return claimed

    def finish(self, number: int) -> None:
        self._running[self._day[number].job_type] -= 1


def run_store(
    day: Sequence[Arrival], cluster: Cluster, directory: Path, *, until_s: float | None = None
) -> list[Start]:
    clock = Clock()
    queue = StoreQueue(day, cluster, clock, directory)
    with closing(queue.db):
        return _run(day, cluster, queue, clock, until_s)


def run_fifo(day: Sequence[Arrival], cluster: Cluster) -> list[Start]:
    return _run(day, cluster, FifoQueue(day, cluster), Clock(), None)


def _run(
    day: Sequence[Arrival],
    cluster: Cluster,
    queue: StoreQueue | FifoQueue,
    clock: Clock,
    until_s: float | None,
) -> list[Start]:
    """From one arrival or end of a job to the next; `day` is sorted by time."""
    free = [cluster.slots] * cluster.workers
    ends: list[tuple[float, int, int]] = []
    starts: list[Start] = []
    next_job = 0
    while next_job < len(day) or ends:
        events = [job.at_s for job in day[next_job : next_job + 1]] + [end[0] for end in ends[:1]]
        clock.now = min(events)
        if until_s is not None and clock.now > until_s:
            break
        first = next_job
        while next_job < len(day) and day[next_job].at_s <= clock.now:
            next_job += 1
        queue.add(range(first, next_job))
        while ends and ends[0][0] <= clock.now:
            _, number, worker = heapq.heappop(ends)
            queue.finish(number)
            free[worker] += 1
        for worker in sorted(range(cluster.workers), key=lambda worker: -free[worker]):
            for number in queue.claim(worker, free[worker]) if free[worker] else ():
                free[worker] -= 1
                heapq.heappush(ends, (clock.now + day[number].work_s, number, worker))
                starts.append(Start(day[number], clock.now - day[number].at_s))
    return starts


def waits_by_user_and_type(starts: Iterable[Start]) -> dict[tuple[str, str], list[float]]:
    waits: dict[tuple[str, str], list[float]] = {}
    for start in starts:
        waits.setdefault((start.job.user, start.job.job_type), []).append(start.waited_s)
    return waits


def _grouped(start: Start) -> Start:
    is_office = start.job.user in OFFICE_USERS
    return Start(replace(start.job, user="office"), start.waited_s) if is_office else start


def _figures(waits: Sequence[float]) -> tuple[float, float, float]:
    if len(waits) < 2:
        return waits[0], waits[0], waits[0]
    p95 = statistics.quantiles(waits, n=20, method="inclusive")[-1]
    return statistics.median(waits), p95, max(waits)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulate.py", description=(__doc__ or "").split("\n")[0])
    for name, kind, default, text in (
        ("--seed", int, 1, None),
        ("--workers", int, 2, None),
        ("--slots", int, 4, "of each worker"),
        ("--per-user", int, None, "limit of concurrent jobs per user"),
        ("--size", float, 1.0, "0.1: a tenth of the jobs"),
        ("--svg", Path, None, "file for the chart"),
    ):
        parser.add_argument(name, type=kind, default=default, help=text)
    parser.add_argument("--quick", action="store_true", help="the same as --size 0.1")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
