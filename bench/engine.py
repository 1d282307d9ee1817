"""The job queue next to Celery, RQ, Dramatiq, Huey and SAQ.

    python bench/engine.py [--only celery,rq] [--jobs N] [--quick] [--json FILE]

Rows take turns, round after round, so that noise hits all alike; every measurement starts in an
empty directory with its own broker and worker. See `peers/peer.py` and `peers/verbs.py` for what a
row consists of.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import harness
import queues
from harness import log, recording_failure
from queues import About, Adapter, Row, open_testbed
from report import Cell, Chart, Result, Table, Target, ahead, at_most, median, spread

ISOLATED, ON_LOOP = "secretary-sqlite", "secretary-loop"
EXTRA_LIMIT_S = 600
MANY_JOBS_TARGET = 1.5
ONE_PROCESS_TARGET_MS = 1.0
HEAD = [
    "", "version", "durable", "enqueues/s, 1 caller", f"{queues.CALLERS} callers", "jobs/s",
    "start latency p50 ms", "p95 ms", "recovery s", "idle CPU %", "broker CPU %",
]  # fmt: skip
CHARTS = [
    Chart("enqueued", f"Enqueues per second, {queues.CALLERS} callers", "jobs/s", [4]),
    Chart("drained", "Throughput of waiting jobs", "jobs/s", [5]),
    Chart("start", "Start latency in another process, median (lower is better)", "ms", [6]),
]
NOTES = """\
Medians of {rounds} rounds. Durable: the enqueue waits for fsync; Redis runs with its default \
persistence. Enqueues: {jobs:,} jobs from one client process, without a bulk API. Throughput: \
{jobs:,} waiting jobs, at most {drain_window_s:g} s. Start latency: from the client's call to the \
job's first line, idle worker. Recovery: from `kill -9` in mid-job to the job's next start; "> \
{recovery_cap_s:g}": not within {recovery_cap_s:g} s. CPU: percent of one core."""


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
    return [
        Adapter(ISOLATED, "secretary_peer"),
        Adapter(ON_LOOP, "secretary_loop_peer"),
        Adapter("secretary-mongodb", "secretary_peer", service="mongodb"),
        *(Adapter(name, f"{name.split('-')[0]}_peer", python, "redis") for name in peers),
        Adapter("huey-sqlite", "huey_peer", python),
    ]


def main(arguments: Sequence[str]) -> Result:
    parser = harness.parser(__doc__)
    parser.add_argument("--only", help="comma-separated names of rows")
    parser.add_argument("--jobs", type=int, help="how many jobs are enqueued and drained")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    plan = replace(plan, jobs=options.jobs or plan.jobs)
    rows = [Row(adapter) for adapter in _chosen(options.only)]
    with harness.benchmark("engine", options, plan, "mongod", "redis-server") as (result, root):
        measure(rows, plan, root, result.failures)
        result.versions = queues.peer_versions(rows)
        notes = f"{NOTES.format(**result.plan)}\n\n{queues.descriptions(rows)}"
        result.tables = [Table(HEAD, [_cells(row) for row in rows], notes=notes, charts=CHARTS)]
        result.tables += _extra_tables(rows)
        result.targets = [*_targets(rows)]
    return result


def measure(rows: Sequence[Row], plan: Plan, root: Path, failures: list[str]) -> None:
    for row in rows:
        with recording_failure(failures, row.name), open_testbed(row.adapter, root) as testbed:
            row.about = About(**testbed.client("about"))
    for number in range(plan.rounds):
        turn = number % len(rows)
        for row in [*rows[turn:], *rows[:turn]]:
            log(f"round {number + 1} of {plan.rounds}: {row.name}")
            with recording_failure(failures, row.name), open_testbed(row.adapter, root) as testbed:
                row.enqueue_rates.append(queues.enqueue_rate(testbed, plan.jobs))
                rate = queues.drain_rate(testbed, plan.jobs, window_s=plan.drain_window_s)
                row.drain_rates.append(rate)
            with recording_failure(failures, row.name), open_testbed(row.adapter, root) as testbed:
                rate = queues.enqueue_rate(testbed, plan.jobs, callers=queues.CALLERS)
                row.concurrent_enqueue_rates.append(rate)
            with recording_failure(failures, row.name), open_testbed(row.adapter, root) as testbed:
                row.latencies.append(queues.start_latency(testbed, plan.probes))
    with queues.idle_workers(rows, root, failures) as idle:
        usages = queues.idle_cpu([testbed for _, testbed in idle], seconds=plan.idle_s)
        for (row, _), usage in zip(idle, usages, strict=True):
            row.idle_cpu = usage
        queues.measure_recovery(idle, plan.recovery_cap_s, failures)
    for row in rows:
        if row.about.extra:
            log(f"figures of its own: {row.name}")
            with recording_failure(failures, row.name), open_testbed(row.adapter, root) as testbed:
                row.extra = testbed.client("extra", limit_s=EXTRA_LIMIT_S)


def _chosen(only: str | None) -> list[Adapter]:
    rows = adapters()
    names = only.split(",") if only else [row.name for row in rows]
    if unknown := set(names) - {row.name for row in rows}:
        sys.exit(f"no such row: {', '.join(sorted(unknown))}")
    chosen = [row for row in rows if row.name in names]
    if any(row.service == "redis" for row in chosen) and not harness.has_program("redis-server"):
        log("without redis-server only the rows that do not need it are measured")
        chosen = [row for row in chosen if row.service != "redis"]
    return chosen or sys.exit("no row can be measured here")


def _cells(row: Row) -> list[Cell]:
    worker, broker = row.idle_cpu
    return [
        row.name,
        row.about.version,
        "yes" if row.about.durable else "no",
        spread(row.enqueue_rates),
        spread(row.concurrent_enqueue_rates),
        spread(row.drain_rates),
        spread([p50 for p50, _ in row.latencies]),
        spread([p95 for _, p95 in row.latencies]),
        row.recovery_cell(),
        worker,
        "" if worker is not None and broker is None else broker,
    ]


def _extra_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """Few stored jobs next to many, and the start latency within one process."""
    stores = [row for row in rows if "store" in row.extra]
    if stores:
        head = [
            f"{row.name.removeprefix('secretary-')}: {n}"
            for row in stores
            for n in ("10k jobs", "1M jobs", "ratio")
        ]
        titles = list(stores[0].extra["store"])
        lines = [[t, *(f for row in stores for f in row.extra["store"][t])] for t in titles]
        title = "The store with 10,000 and with 1,000,000 jobs, ms"
        yield Table(["", *head], lines, title)
    for row in rows:
        if latencies := row.extra.get("one_process"):
            head = ["", "start latency p50 ms", "p95 ms"]
            yield Table(head, [[row.name, *latencies]], "API, store and worker in one process")


def _targets(rows: Sequence[Row]) -> Iterator[Target]:
    by_name = {row.name: row for row in rows}
    peers = [row for row in rows if not row.ours]

    def rate(name: str, ours: Row, samples: str) -> Target:
        figures = {peer.name: median(getattr(peer, samples)) for peer in peers}
        return ahead(name, median(getattr(ours, samples)), figures, "/s")

    if row := by_name.get(ON_LOOP):
        yield rate("enqueues/s, 1 caller", row, "enqueue_rates")
        yield rate(f"enqueues/s, {queues.CALLERS} callers", row, "concurrent_enqueue_rates")
        yield rate("jobs/s, handlers on the event loop", row, "drain_rates")
        p50s = {one.name: median([p50 for p50, _ in one.latencies]) for one in [row, *peers]}
        p50 = p50s.pop(row.name)
        name = "start latency between two processes, p50"
        yield ahead(name, p50, p50s, "ms", target="", lower_is_better=True)
    if row := by_name.get(ISOLATED):
        yield rate("jobs/s, handlers in child processes", row, "drain_rates")
        yield queues.recovery_target("recovery after kill -9", row, peers, "ahead of all")
        idle = {peer.name: peer.idle_cpu[0] for peer in peers}
        yield ahead(
            "CPU of an idle worker", row.idle_cpu[0], idle, "%", target="", lower_is_better=True
        )
    for row in rows:
        if latencies := row.extra.get("one_process"):
            name = f"{row.name}: start latency in one process, p50"
            yield at_most(name, ONE_PROCESS_TARGET_MS, latencies[0], "ms")
        if store := row.extra.get("store"):
            ratios = {title: times[2] for title, times in store.items() if "p50" in title}
            worst = max(ratios, key=lambda title: ratios[title])
            name = f"{row.name}: 1,000,000 stored jobs over 10,000, worst ({worst})"
            yield at_most(name, MANY_JOBS_TARGET, ratios[worst])


if __name__ == "__main__":
    harness.run(main)
