"""This project's engine beside Celery, RQ, Dramatiq, Huey and SAQ, in one run on one machine.

    python bench/engine.py [--only celery,rq] [--jobs N] [--quick] [--json FILE]

The rows are measured in turn, round after round, so that noise hits all alike; every measurement
starts from an empty directory with a server and a worker of its own. What a row must bring along
is told in `peers/peer.py` and `peers/verbs.py`.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import engine_report
import install
import measure
import program
import report
from adapter import Adapter, adapters
from arena import Arena, Failed, open_arena
from engine_report import About, Recovery, Row
from program import WORK, say

EXTRA_LIMIT_S = 600
NOTES = """\
Medians of {rounds} round(s); "~": the highest was more than {unsteady} times the lowest.
Enqueues: one client process, {jobs:,} jobs, no bulk API. One caller: the next enqueue begins when
the one before has been acknowledged, so this is the time of one enqueue, upside down. {callers}
callers: as many threads, or coroutines of an async client, each of which waits for its own.
Drained: {jobs:,} waiting jobs, from first start to last, cut off after {drain_window_s:g} s.
Latency: {probes} jobs, {gap_ms} ms between them, from the client's call to the job's first line.
After kill -9: the worker's whole process tree is killed in mid-job and started again at once;
"> {recovery_cap_s:g}" means that the job was not started again within {recovery_cap_s:g} s.
Idle CPU: in per cent of one core, over {idle_s:g} s, all processes of the worker.
Redis runs with its default settings, which do not sync a write to disk before the answer: a job
whose enqueue has returned can be lost in a power cut. "Synced": the enqueue waits for the disk."""


@dataclass(frozen=True)
class Plan:
    jobs: int = 10_000
    rounds: int = 3
    drain_window_s: float = 5
    probes: int = 200
    idle_s: float = 10
    recovery_cap_s: float = 60


QUICK = Plan(jobs=2_000, rounds=1, drain_window_s=3, probes=50, idle_s=3, recovery_cap_s=20)


@dataclass(frozen=True)
class Entry:
    adapter: Adapter
    row: Row

    @contextmanager
    def noting_failure(self, what: str) -> Iterator[None]:
        """One row that fails must not cost the others their figures."""
        try:
            yield
        except Failed as failure:
            self.row.failures.append(f"{what}: {failure}")
            say(f"{self.row.name}: {what} failed: {failure}")


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    plan = _plan(options)
    entries = [Entry(adapter, Row(adapter.name)) for adapter in _chosen(options.only)]
    with program.workplace() as place:
        run(entries, plan, place.root)
        machine = place.machine()
    rows = [entry.row for entry in entries]
    print(engine_report.text(rows, machine=machine, notes=notes_of(asdict(plan))))
    program.keep(options.json, machine, plan, rows=[asdict(row) for row in rows])
    return 1 if any(row.failures for row in rows) else 0


def run(entries: Sequence[Entry], plan: Plan, root: Path) -> None:
    for entry in entries:
        with entry.noting_failure("about"), open_arena(entry.adapter, root) as arena:
            entry.row.about = About(**arena.client("about"))
    for number in range(plan.rounds):
        turn = number % len(entries)
        for entry in [*entries[turn:], *entries[:turn]]:
            say(f"round {number + 1} of {plan.rounds}: {entry.row.name}")
            _measure_throughput(entry, plan, root)
            _measure_latency(entry, plan, root)
    _measure_side_by_side(entries, plan, root)
    for entry in entries:
        if entry.row.about.extra:
            say(f"extra figures: {entry.row.name}")
            with entry.noting_failure("extra"), open_arena(entry.adapter, root) as arena:
                entry.row.extra = arena.client("extra", limit_s=EXTRA_LIMIT_S)


def _measure_throughput(entry: Entry, plan: Plan, root: Path) -> None:
    with entry.noting_failure("throughput"), open_arena(entry.adapter, root) as arena:
        entry.row.enqueued_per_s.append(measure.enqueue_rate(arena, plan.jobs))
        rate = measure.drain_rate(arena, plan.jobs, window_s=plan.drain_window_s)
        entry.row.drained_per_s.append(rate)
    with entry.noting_failure("many callers"), open_arena(entry.adapter, root) as arena:
        rate = measure.enqueue_rate(arena, plan.jobs, callers=measure.CALLERS)
        entry.row.enqueued_by_many_per_s.append(rate)


def _measure_latency(entry: Entry, plan: Plan, root: Path) -> None:
    with entry.noting_failure("latency"), open_arena(entry.adapter, root) as arena:
        entry.row.latency.append(measure.latency(arena, plan.probes))


def _measure_side_by_side(entries: Sequence[Entry], plan: Plan, root: Path) -> None:
    """The columns that are mostly waiting: idle CPU and recovery, of all rows at once."""
    with ExitStack() as stack:
        standing: list[tuple[Entry, Arena]] = []
        for entry in entries:
            say(f"idle worker: {entry.row.name}")
            with entry.noting_failure("idle worker"):
                arena = stack.enter_context(open_arena(entry.adapter, root))
                measure.warm_up(arena)
                standing.append((entry, arena))
        arenas = [arena for _, arena in standing]
        idles = measure.idle_cpu(arenas, seconds=plan.idle_s)
        for (entry, _), idle in zip(standing, idles, strict=True):
            entry.row.idle = idle
        _measure_recovery(standing, cap_s=plan.recovery_cap_s)


def _measure_recovery(standing: Sequence[tuple[Entry, Arena]], *, cap_s: float) -> None:
    cases: list[tuple[Entry, Arena, measure.Killed]] = []
    for entry, arena in standing:
        say(f"kill -9: {entry.row.name}")
        with entry.noting_failure("recovery"):
            cases.append((entry, arena, measure.kill_in_mid_job(arena)))
    say(f"waiting up to {cap_s:.0f} s for the killed jobs to start again")
    measure.wait_for_recovery([(arena, killed) for _, arena, killed in cases], cap_s=cap_s)
    for entry, arena, killed in cases:
        seconds = measure.recovered_after(arena, killed)
        entry.row.recovery = Recovery(cap_s, seconds if seconds and seconds <= cap_s else None)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = program.parser("engine.py", __doc__)
    parser.add_argument("--only", help="names of rows, with commas between them")
    parser.add_argument("--jobs", type=int, help="jobs that are enqueued and drained")
    parser.add_argument("--recovery-cap", type=float, help="seconds to wait after kill -9")
    return parser.parse_args(arguments)


def _plan(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else Plan()
    given = {"jobs": options.jobs, "recovery_cap_s": options.recovery_cap}
    return replace(plan, **{name: value for name, value in given.items() if value is not None})


def _chosen(only: str | None) -> list[Adapter]:
    rows = adapters(install.peers_python(WORK / "peers"))
    names = only.split(",") if only else [row.name for row in rows]
    if unknown := set(names) - {row.name for row in rows}:
        sys.exit(f"no such row: {', '.join(sorted(unknown))}")
    chosen = [row for row in rows if row.name in names]
    on_redis = [row for row in chosen if row.service == "redis_service"]
    if on_redis and not install.has("redis-server"):
        say(f"no redis-server here, left out: {', '.join(row.name for row in on_redis)}")
        chosen = [row for row in chosen if row not in on_redis]
    return chosen or sys.exit("no row can be measured here")


def notes_of(plan: Mapping[str, Any]) -> str:
    constants = {
        "callers": measure.CALLERS,
        "gap_ms": measure.PROBE_GAP_MS,
        "unsteady": report.UNSTEADY_RATIO,
    }
    return NOTES.format(**constants, **plan)


if __name__ == "__main__":
    program.run(main)
