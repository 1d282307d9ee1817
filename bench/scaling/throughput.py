"""Jobs a second with so many worker processes, how long their claims take, and the wake-up."""

import asyncio
import statistics
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adapter import Adapter
from arena import Arena, Failed, open_arena

from secretary.core.job import Job
from secretary.store import open_store

CALLERS = 64
READY_LIMIT_S = 60
FIRST_START_LIMIT_S = 30
#: So long after the first start all are at work, and counting begins.
RAMP_S = 2.0
GAP_S = 0.02
SETTLE_S = 2.0


@dataclass(frozen=True)
class Throughput:
    """CPU: of all processes, milliseconds for each job."""

    per_s: float
    claim_p50_ms: float
    claim_p99_ms: float
    jobs_per_claim: float
    workers_cpu_ms: float
    server_cpu_ms: float


@dataclass(frozen=True)
class WakeUp:
    """Milliseconds to the start of a job in another process: from when it was accepted, and from
    when its client called. CPU: of mongod for each job, which wakes all workers."""

    accepted_p50: float
    accepted_p99: float
    called_p50: float
    called_p99: float
    server_cpu_ms: float


def fleet(workers: int, slots: int, *, barrier: bool = False) -> Adapter:
    settings = {
        "BENCH_WORKERS": str(workers),
        "BENCH_SLOTS": str(slots),
        "BENCH_HANDLERS": "register_on_loop",
        "SECRETARY_GENERIC_WORKER__PROCESSES": "1",  # not used here, but each takes memory
    } | ({"BENCH_BARRIER": "1"} if barrier else {})
    python = Path(sys.executable)
    return Adapter("fleet", "secretary_fleet_peer", python, "mongo_service", settings)


def throughput(
    root: Path, workers: int, *, job_type: str, slots: int, jobs: int, window_s: float
) -> Throughput:
    """Of jobs that wait when the workers begin, all at once."""
    with open_arena(fleet(workers, slots, barrier=True), root) as arena:
        asyncio.run(_fill(arena.url, job_type, jobs))
        arena.start_worker()
        ready = arena.directory.glob
        arena.wait(
            lambda: len(list(ready("ready-*"))) == workers, "workers to be ready", READY_LIMIT_S
        )
        (arena.directory / "go").touch()
        arena.wait(lambda: arena.started() > 0, "a job to start", FIRST_START_LIMIT_S)
        time.sleep(RAMP_S)
        before = _now(arena)
        deadline = time.monotonic() + window_s
        while arena.started() < jobs and time.monotonic() < deadline:
            time.sleep(0.02)
        after = _now(arena)
        arena.kill_worker()
        return _counted(arena, before, after)


@dataclass(frozen=True)
class _Now:
    ns: int
    workers_cpu_s: float
    server_cpu_s: float


def _now(arena: Arena) -> _Now:
    return _Now(time.monotonic_ns(), *_cpu_seconds(arena))


def _counted(arena: Arena, before: _Now, after: _Now) -> Throughput:
    data = (arena.directory / "claims").read_bytes()
    during = range(before.ns, after.ns)
    claims = [
        (took / 1e6, count) for at, took, count in struct.iter_unpack("<qqq", data) if at in during
    ]
    jobs = sum(record.started_ns in during for record in arena.records())
    if jobs < 10 or len(claims) < 2:
        raise Failed(f"{jobs} jobs and {len(claims)} claims; are there too few jobs?")
    times = [took for took, _ in claims]
    return Throughput(
        per_s=jobs / (after.ns - before.ns) * 1e9,
        claim_p50_ms=statistics.median(times),
        claim_p99_ms=_p99(times),
        jobs_per_claim=statistics.mean(count for _, count in claims),
        workers_cpu_ms=(after.workers_cpu_s - before.workers_cpu_s) / jobs * 1000,
        server_cpu_ms=(after.server_cpu_s - before.server_cpu_s) / jobs * 1000,
    )


async def _fill(url: str, job_type: str, jobs: int) -> None:
    store = open_store(url)
    await store.open()
    numbers = iter(range(jobs))

    async def add() -> None:
        for number in numbers:
            await store.add([Job(job_type=job_type, parameters={"sent": number})])

    try:
        await asyncio.gather(*(add() for _ in range(CALLERS)))
    finally:
        await store.close()


def wake_up(root: Path, workers: int, *, jobs: int) -> WakeUp:
    """Of workers that have nothing to do: one job after the other, from another process."""
    with open_arena(fleet(workers, slots=4), root) as arena:
        asyncio.run(_fill(arena.url, "noop", 20))
        arena.start_worker()
        arena.wait(lambda: arena.started() >= 20, "the first jobs", READY_LIMIT_S)
        _wait_for_claims(arena)
        before = _now(arena)
        called = asyncio.run(_probe(arena.url, jobs))
        arena.wait(lambda: arena.started() >= 20 + jobs, "all jobs to start", FIRST_START_LIMIT_S)
        spent_s = _now(arena).server_cpu_s - before.server_cpu_s
        started = {sent: at for sent, at in arena.records() if sent in called}
    waits = [(started[sent] - accepted) / 1e6 for sent, accepted in called.items()]
    whole = [(at - sent) / 1e6 for sent, at in started.items()]
    times = statistics.median(waits), _p99(waits), statistics.median(whole), _p99(whole)
    return WakeUp(*times, server_cpu_ms=spent_s / jobs * 1000)


def _wait_for_claims(arena: Arena) -> None:
    """Until all workers are there, who take seconds to start on a busy machine."""
    seen, quiet_since = -1.0, time.monotonic()
    while time.monotonic() - quiet_since < SETTLE_S:
        spent = _cpu_seconds(arena)[0]
        if spent - seen > 0.2:
            seen, quiet_since = spent, time.monotonic()
        time.sleep(0.1)


async def _probe(url: str, jobs: int) -> dict[int, int]:
    """By when their client called: when jobs were accepted."""
    store = open_store(url)
    await store.open()
    accepted: dict[int, int] = {}
    try:
        for _ in range(jobs):
            sent = time.monotonic_ns()
            await store.add([Job(job_type="noop", parameters={"sent": sent})])
            accepted[sent] = time.monotonic_ns()
            await asyncio.sleep(GAP_S)
    finally:
        await store.close()
    return accepted


def _cpu_seconds(arena: Arena) -> list[float]:
    trees = arena.worker, arena.service
    return [tree.cpu_seconds() if tree else 0.0 for tree in trees]


def _p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[-1]
