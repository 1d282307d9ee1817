"""The columns of the engine benchmark, each measured in arenas of its own."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from arena import Arena, Failed

FIRST_START_LIMIT_S = 30
WARM_UP_JOBS = 20
SETTLE_S = 1.0
PROBE_GAP_MS = 20
CALLERS = 32
RESTART_ALONE_S = 3.0


@dataclass(frozen=True)
class Latency:
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True)
class Idle:
    """In per cent of one core."""

    worker: float
    service: float | None


@dataclass(frozen=True)
class Killed:
    at: float
    """On the monotonic clock."""
    job: int


def enqueue_rate(arena: Arena, jobs: int, *, callers: int = 1) -> float:
    answer = arena.client("enqueue", jobs, callers)
    return float(answer["jobs"] / answer["seconds"])


def drain_rate(arena: Arena, jobs: int, *, window_s: float) -> float:
    """Jobs per second from the first start to the last, or to the end of the window."""
    arena.start_worker()
    _wait_for_starts(arena, 1)
    deadline = time.monotonic() + window_s
    while arena.started() < jobs and time.monotonic() < deadline:
        time.sleep(0.05)
    arena.kill_worker()
    starts = {record.sent_ns: record.started_ns for record in arena.records()}
    if len(starts) < 2:
        raise Failed(f"one job started in {window_s:.0f} s")
    return (len(starts) - 1) / (max(starts.values()) - min(starts.values())) * 1e9


def latency(arena: Arena, jobs: int) -> Latency:
    """From the call of the client to the first line of the job, the worker being idle."""
    warm_up(arena)
    arena.client("probe", jobs, PROBE_GAP_MS)
    _wait_for_starts(arena, WARM_UP_JOBS + jobs)
    probes = arena.records()[WARM_UP_JOBS:]
    delays = [(record.started_ns - record.sent_ns) / 1e6 for record in probes]
    return Latency(statistics.median(delays), statistics.quantiles(delays, n=20)[-1])


def warm_up(arena: Arena) -> None:
    """Leaves a running worker that has worked before and has nothing to do."""
    arena.client("enqueue", WARM_UP_JOBS)
    arena.start_worker()
    _wait_for_starts(arena, WARM_UP_JOBS)
    time.sleep(SETTLE_S)


def idle_cpu(arenas: Sequence[Arena], *, seconds: float) -> list[Idle]:
    """Of all at the same time: they idle, so they do not disturb each other."""
    started, before = time.monotonic(), [_cpu_seconds(arena) for arena in arenas]
    time.sleep(seconds)
    percent = 100 / (time.monotonic() - started)
    return [
        Idle(
            worker=(worker - worker_before) * percent,
            service=(service - service_before) * percent if arena.service else None,
        )
        for arena, (worker_before, service_before) in zip(arenas, before, strict=True)
        for worker, service in [_cpu_seconds(arena)]
    ]


def kill_in_mid_job(arena: Arena) -> Killed:
    """Kills the worker one second into a job and starts it again at once by the same command."""
    before = arena.started()
    arena.client("hold")
    _wait_for_starts(arena, before + 1)
    time.sleep(1)
    killed = Killed(time.monotonic(), arena.records()[-1].sent_ns)
    arena.kill_worker()
    arena.start_worker()
    while recovered_after(arena, killed) is None and _age(killed) < RESTART_ALONE_S:
        time.sleep(0.02)
    return killed


def recovered_after(arena: Arena, killed: Killed) -> float | None:
    """Seconds from the kill to the next start of the job, once that has come."""
    starts = [record.started_ns / 1e9 for record in arena.records() if record.sent_ns == killed.job]
    return next((start - killed.at for start in starts if start > killed.at), None)


def wait_for_recovery(cases: Sequence[tuple[Arena, Killed]], *, cap_s: float) -> None:
    """Until every job has started again or its time is up."""
    while any(recovered_after(*case) is None and _age(case[1]) < cap_s for case in cases):
        time.sleep(0.1)


def _wait_for_starts(arena: Arena, count: int) -> None:
    arena.wait(lambda: arena.started() >= count, f"{count} jobs to start", FIRST_START_LIMIT_S)


def _cpu_seconds(arena: Arena) -> tuple[float, float]:
    trees = arena.worker, arena.service
    worker, service = (tree.cpu_seconds() if tree else 0.0 for tree in trees)
    return worker, service


def _age(killed: Killed) -> float:
    return time.monotonic() - killed.at
