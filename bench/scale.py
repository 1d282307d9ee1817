"""Many worker processes on MongoDB, beside Celery and RQ on Redis, in one run on one machine.

    python bench/scale.py [--quick] [--only workers,wakeup,documents,durable,costs] [--json FILE]
                          [--svg FILE]

Every measurement starts from an empty directory with a mongod (a replica set of one) or a Redis of
its own; rows take turns, round after round. The parts stand in `scaling/`.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import install
import program
import scale_report
from arena import Failed, noting_failure
from program import WORK, say
from scaling import costs, documents, durable, throughput
from scaling.documents import Rate
from scaling.plan import KINDS, QUICK, SLOTS, WORKERS, Plan, Run

PARTS = ("workers", "wakeup", "documents", "durable", "costs")


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    plan = QUICK if options.quick else Plan()
    plan = replace(plan, rounds=options.rounds or plan.rounds)
    run = Run(plan.rounds)
    with program.workplace() as place:
        for part in options.only:
            say(part)
            with noting_failure(run.failures, part):
                _measure(part, run, plan, place.root)
        machine = place.machine()
    print(scale_report.text(run, plan, machine))
    program.keep(options.json, machine, plan, **asdict(run))
    if options.svg and run.curves:
        options.svg.write_text(scale_report.chart(run))
    return 1 if run.failures or any(row.failures for row in run.durable) else 0


def _measure(part: str, run: Run, plan: Plan, root: Path) -> None:
    match part:
        case "workers":
            _workers(run, plan, root)
        case "wakeup":
            for workers in WORKERS:
                run.wake_ups[workers] = throughput.wake_up(root, workers, jobs=plan.probes)
        case "documents":
            _documents(run, plan, root)
        case "durable":
            _durable(run, plan, root)
        case "costs":
            _costs(run, plan, root)


def _workers(run: Run, plan: Plan, root: Path) -> None:
    for number in range(plan.rounds):
        for job_type, slots in SLOTS.items():
            curve = run.curves.setdefault(job_type, {workers: [] for workers in WORKERS})
            for workers in WORKERS:
                say(f"round {number + 1}: {job_type}, {workers} workers")
                found = throughput.throughput(
                    root,
                    workers,
                    job_type=job_type,
                    slots=slots,
                    jobs=plan.jobs,
                    window_s=plan.window_s,
                )
                curve[workers].append(found)


def _documents(run: Run, plan: Plan, root: Path) -> None:
    for name, count in (("scans", plan.scans), ("texts", plan.texts)):
        kind = KINDS[name]
        files = documents.files_of(kind, count + documents.WARM_UP, root)
        rates: dict[int, list[Rate]] = {1: [], 2: []}
        run.documents[kind.name] = rates
        for number in range(plan.rounds):
            for workers in rates:
                say(f"round {number + 1}: {kind.name}, {workers} workers")
                rates[workers].append(documents.documents_rate(root, kind, files, workers=workers))


def _durable(run: Run, plan: Plan, root: Path) -> None:
    if not install.has("redis-server"):
        raise Failed("no redis-server here")
    chosen = durable.adapters(install.peers_python(WORK / "peers"))
    run.durable = [durable.Row(adapter.name) for adapter in chosen]
    for number in range(plan.rounds):
        for row, adapter in zip(run.durable, chosen, strict=True):
            say(f"round {number + 1}: {row.name}")
            jobs, window_s = plan.durable_jobs, plan.window_s
            durable.measure_row(row, adapter, root, jobs=jobs, window_s=window_s)
    say("kill -9")
    durable.measure_recovery(run.durable, chosen, root, cap_s=plan.recovery_cap_s)


def _costs(run: Run, plan: Plan, root: Path) -> None:
    for at_once in (1, 32):
        together = "one by one" if at_once == 1 else f"{at_once} at a time"
        jobs = plan.cost_jobs if at_once > 1 else plan.cost_jobs // 4
        for reports in (0, costs.REPORTS):
            what = f"{reports} reports, {together}"
            given = {"jobs": jobs, "at_once": at_once, "reports": reports}
            run.costs[f"MongoDB, {what}"] = costs.mongodb_cost(root, **given)
            run.costs[f"SQLite, {what}"] = costs.sqlite_cost(root, **given)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = program.parser("scale.py", __doc__)
    parser.add_argument("--rounds", type=int, help="how often each figure is taken")
    parser.add_argument("--only", type=program.some_of(PARTS), default=PARTS, help=program.ONLY)
    parser.add_argument("--svg", type=Path, help="file for the curves")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    program.run(main)
