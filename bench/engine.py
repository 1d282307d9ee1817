"""The job queue next to Celery, RQ, Dramatiq, Huey and SAQ.

    python bench/engine.py [--only celery,rq] [--jobs N] [--quick] [--json FILE]

Rows take turns, round after round, so that noise hits all alike; every measurement starts in an
empty directory with its own broker and worker. See `peers/peer.py` and `peers/verbs.py` for what a
row consists of.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import harness
import queues
from harness import log, recording_failure
from queues import Adapter, open_testbed
from report import Chart, Result, Samples, Target, ahead, at_most

ISOLATED, ON_LOOP = "secretary-sqlite", "secretary-loop"
EXTRA_LIMIT_S = 600
MANY_JOBS_TARGET = 1.5
ONE_PROCESS_TARGET_MS = 1.0
ENQUEUES, CONCURRENT, DRAINED = "enqueues/s, 1 caller", f"{queues.CALLERS} callers", "jobs/s"
P50, P95, IDLE, BROKER = "start latency p50 ms", "p95 ms", "idle CPU %", "broker CPU %"
RATES = [ENQUEUES, CONCURRENT, DRAINED, P50, P95]
CHARTS = [
    Chart("enqueued", f"Enqueues per second, {queues.CALLERS} callers", "jobs/s", [4]),
    Chart("drained", "Throughput of waiting jobs", "jobs/s", [5]),
    Chart("start", "Start latency in another process, median (lower is better)", "ms", [6]),
]
#: What `about` and `extra` returned, by the name of the row.
Answers = dict[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Plan:
    jobs: int = 10_000
    rounds: int = 3
    drain_window_s: float = 5
    probes: int = 200
    idle_s: float = 10
    recovery_cap_s: float = 60


QUICK = Plan(jobs=2_000, rounds=1, drain_window_s=3, probes=50, idle_s=3, recovery_cap_s=20)


def adapters() -> list[Adapter]:
    python = queues.peers_python()
    peers = ("celery", "rq", "dramatiq", "huey-redis", "saq")
    on_loop = {"BENCH_HANDLERS": "register_on_loop", "BENCH_SLOTS": "64"}
    return [
        Adapter(ISOLATED, "secretary_peer"),
        Adapter(ON_LOOP, "secretary_peer", settings=on_loop),
        Adapter("secretary-mongodb", "secretary_peer", service="mongodb"),
        *(Adapter(name, f"{name.split('-')[0]}_peer", python, "redis") for name in peers),
        Adapter("huey-sqlite", "huey_peer", python),
    ]


def main(arguments: Sequence[str]) -> Result:
    rows = adapters()
    parser = harness.parser(__doc__, [row.name for row in rows])
    parser.add_argument("--jobs", type=int, help="how many jobs are enqueued and drained")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    plan = replace(plan, jobs=options.jobs or plan.jobs)
    rows = [row for row in rows if row.name in options.only]
    if any(row.service == "redis" for row in rows) and not harness.has_program("redis-server"):
        log("without redis-server only the rows that do not need it are measured")
        rows = [row for row in rows if row.service != "redis"] or sys.exit("no row is left")
    about, extra, samples = Answers(), Answers(), Samples()
    with harness.benchmark("engine", options, plan, "mongod", "redis-server") as (result, root):
        _measure(rows, plan, root, about, extra, samples, result.failures)
        result.versions = queues.peer_versions(rows, about)
        _add_table(result, rows, plan, about, samples)
        _add_extra_tables(result, extra)
        result.targets = [*_targets(rows, plan, samples), *_extra_targets(extra)]
    return result


def _measure(
    rows: Sequence[Adapter],
    plan: Plan,
    root: Path,
    about: Answers,
    extra: Answers,
    samples: Samples,
    failures: list[str],
) -> None:
    for row in rows:
        with recording_failure(failures, row.name), open_testbed(row, root) as testbed:
            about[row.name] = testbed.client("about")
    for number in range(plan.rounds):
        turn = number % len(rows)
        for row in [*rows[turn:], *rows[:turn]]:
            log(f"round {number + 1} of {plan.rounds}: {row.name}")
            with recording_failure(failures, row.name), open_testbed(row, root) as testbed:
                samples.add(row.name, {ENQUEUES: queues.enqueue_rate(testbed, plan.jobs)})
                rate = queues.drain_rate(testbed, plan.jobs, window_s=plan.drain_window_s)
                samples.add(row.name, {DRAINED: rate})
            with recording_failure(failures, row.name), open_testbed(row, root) as testbed:
                rate = queues.enqueue_rate(testbed, plan.jobs, callers=queues.CALLERS)
                samples.add(row.name, {CONCURRENT: rate})
            with recording_failure(failures, row.name), open_testbed(row, root) as testbed:
                p50, p95 = queues.start_latency(testbed, plan.probes)
                samples.add(row.name, {P50: p50, P95: p95})
    with queues.idle_workers(rows, root, failures) as idle:
        for name, (worker, broker) in queues.idle_cpu(idle, seconds=plan.idle_s).items():
            samples.add(name, {IDLE: worker, BROKER: broker})
        queues.measure_recovery(idle, plan.recovery_cap_s, samples, failures)
    for row in rows:
        if about.get(row.name, {}).get("extra"):
            log(f"figures of its own: {row.name}")
            with recording_failure(failures, row.name), open_testbed(row, root) as testbed:
                extra[row.name] = testbed.client("extra", limit_s=EXTRA_LIMIT_S)


def _add_table(
    result: Result, rows: Sequence[Adapter], plan: Plan, about: Answers, samples: Samples
) -> None:
    lines = []
    for row in rows:
        name, *rates = samples.line(row.name, RATES)
        described = about.get(row.name, {"version": "?", "durable": False})
        recovery = queues.recovery_cell(samples, row.name, plan.recovery_cap_s)
        broker = samples.median(row.name, BROKER) if row.service else ""
        idle = samples.median(row.name, IDLE)
        durable = "yes" if described["durable"] else "no"
        lines.append([name, described["version"], durable, *rates, recovery, idle, broker])
    head = ["", "version", "durable", *RATES, queues.RECOVERY, IDLE, BROKER]
    result.add("", head, lines, *CHARTS, more=queues.descriptions(about))


def _add_extra_tables(result: Result, extra: Answers) -> None:
    """Few stored jobs next to many, and the start latency within one process."""
    stores = {
        name.removeprefix("secretary-"): e["store"] for name, e in extra.items() if "store" in e
    }
    if stores:
        head = [f"{name}: {n}" for name in stores for n in ("10k jobs", "1M jobs", "ratio")]
        titles = next(iter(stores.values()))
        lines = [[t, *(f for store in stores.values() for f in store[t])] for t in titles]
        result.add("The store with 10,000 and with 1,000,000 jobs, ms", ["", *head], lines)
    head = ["", P50, P95]
    for name, figures in extra.items():
        if latencies := figures.get("one_process"):
            result.add("API, store and worker in one process", head, [[name, *latencies]])


def _targets(rows: Sequence[Adapter], plan: Plan, samples: Samples) -> Iterator[Target]:
    names, peers = [row.name for row in rows], [row.name for row in rows if not row.ours]

    def compared(name: str, ours: str, column: str, unit: str = "/s") -> Target:
        slow = unit != "/s"  # a time or a share: lower is better, and only reported
        value, figures = samples.median(ours, column), samples.medians(peers, column)
        target = "" if slow else "ahead of all"
        return ahead(name, value, figures, unit, target=target, lower_is_better=slow)

    if ON_LOOP in names:
        yield compared(ENQUEUES, ON_LOOP, ENQUEUES)
        yield compared(f"enqueues/s, {CONCURRENT}", ON_LOOP, CONCURRENT)
        yield compared("jobs/s, handlers on the event loop", ON_LOOP, DRAINED)
        yield compared("start latency between two processes, p50", ON_LOOP, P50, "ms")
    if ISOLATED in names:
        yield compared("jobs/s, handlers in child processes", ISOLATED, DRAINED)
        name, cap_s = "recovery after kill -9", plan.recovery_cap_s
        yield queues.recovery_target(name, samples, ISOLATED, peers, cap_s, "ahead of all")
        yield compared("CPU of an idle worker", ISOLATED, IDLE, "%")


def _extra_targets(extra: Answers) -> Iterator[Target]:
    for row, figures in extra.items():
        if latencies := figures.get("one_process"):
            name = f"{row}: start latency in one process, p50"
            yield at_most(name, ONE_PROCESS_TARGET_MS, latencies[0], "ms")
        if store := figures.get("store"):
            ratios = {title: times[2] for title, times in store.items() if "p50" in title}
            worst = max(ratios, key=lambda title: ratios[title])
            name = f"{row}: 1,000,000 stored jobs over 10,000, worst ({worst})"
            yield at_most(name, MANY_JOBS_TARGET, ratios[worst])


if __name__ == "__main__":
    harness.run(main)
