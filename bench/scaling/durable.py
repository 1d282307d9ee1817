"""Secretary on MongoDB beside Celery and RQ on a Redis that syncs: what waits for the disk, and
what comes back after kill -9."""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import measure
from adapter import Adapter
from arena import Arena, Failed, noting_failure, open_arena
from engine_report import About, Recovery

START_LIMIT_S = 120


@dataclass
class Row:
    name: str
    about: About = field(default_factory=About)
    enqueued_per_s: list[float] = field(default_factory=list)
    drained_per_s: list[float] = field(default_factory=list)
    sustained_per_s: list[float] = field(default_factory=list)
    recovery: Recovery | None = None
    failures: list[str] = field(default_factory=list)


def adapters(peers_python: Path) -> list[Adapter]:
    ours, fleet = Path(sys.executable), "secretary_fleet_peer"
    loop = {"BENCH_HANDLERS": "register_on_loop", "BENCH_SLOTS": "64"}
    loop |= {"SECRETARY_GENERIC_WORKER__PROCESSES": "1"}  # they are not used
    # A worker of many slots claims many jobs at once; they wait for a child process in turn.
    more = {"BENCH_SLOTS": "32", "SECRETARY_GENERIC_WORKER__PROCESSES": "4"}
    redis = "synced_redis_service"
    return [
        Adapter("secretary, isolated", fleet, ours, "mongo_service", {"BENCH_SLOTS": "8"}),
        Adapter("secretary, isolated, 32 slots", fleet, ours, "mongo_service", more),
        Adapter("secretary, on the loop", fleet, ours, "mongo_service", loop),
        Adapter("celery", "celery_durable_peer", peers_python, redis),
        Adapter("rq", "rq_durable_peer", peers_python, redis),
    ]


def measure_row(row: Row, adapter: Adapter, root: Path, *, jobs: int, window_s: float) -> None:
    with noting_failure(row.failures, "about"), open_arena(adapter, root) as arena:
        row.about = About(**arena.client("about"))
    with noting_failure(row.failures, "throughput"), open_arena(adapter, root) as arena:
        row.enqueued_per_s.append(measure.enqueue_rate(arena, jobs, callers=measure.CALLERS))
        row.drained_per_s.append(measure.drain_rate(arena, jobs, window_s=window_s))
    with noting_failure(row.failures, "sustained"), open_arena(adapter, root) as arena:
        row.sustained_per_s.append(_sustained(arena, jobs, window_s))


def _sustained(arena: Arena, jobs: int, window_s: float) -> float:
    """Jobs that come in and are worked off at the same time: from the first call to the last
    start, or to the end of the window after the last call."""
    measure.warm_up(arena)
    before = arena.started()
    arena.client("enqueue", jobs, measure.CALLERS, limit_s=START_LIMIT_S)
    deadline, wanted = time.monotonic() + window_s, before + jobs - jobs % measure.CALLERS
    while arena.started() < wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    records = arena.records()[before:]
    if len(records) < 2:
        raise Failed("hardly any job started")
    first = min(record.sent_ns for record in records)
    return len(records) / (max(record.started_ns for record in records) - first) * 1e9


def measure_recovery(
    rows: Sequence[Row], chosen: Sequence[Adapter], root: Path, *, cap_s: float
) -> None:
    """Of all at the same time, as it is mostly waiting."""
    with ExitStack() as stack:
        cases: list[tuple[Row, Arena, measure.Killed]] = []
        for row, adapter in zip(rows, chosen, strict=True):
            with noting_failure(row.failures, "recovery"):
                arena = stack.enter_context(open_arena(adapter, root))
                measure.warm_up(arena)
                cases.append((row, arena, measure.kill_in_mid_job(arena)))
        measure.wait_for_recovery([(arena, killed) for _, arena, killed in cases], cap_s=cap_s)
        for row, arena, killed in cases:
            seconds = measure.recovered_after(arena, killed)
            row.recovery = Recovery(cap_s, seconds if seconds and seconds <= cap_s else None)
