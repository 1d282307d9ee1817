"""How long jobs wait on a day of mixed jobs, by user and type, in virtual time.

    python bench/simulate.py [--seed 1] [--workers 2] [--slots 4] [--per-user N] [--svg FILE]

Not a model of the claim policy but the policy itself: jobs stand in the SQLite store's own lines
and are given out by its own claim (`simulation/office.py`); beside it the same day in one queue,
first in, first out. Deterministic: the same seed gives the same table.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import charts
import report
from simulation.day import CLERKS, Arrival, mixed_day
from simulation.office import Crew, Start, by_user_and_type, first_in_first_out, through_the_store

#: As an operator would set it: recordings take long and must not take all slots.
LIMITS = {"audio": 2}
NOTES = """\
Seconds from when a job was handed in to its start: {jobs:,} jobs of one day, {workers} worker(s)
of {slots} slots, at most {audio} audio jobs at a time{per_user}. Clerks: six users who hand in a
PDF now and then. "Fifo": the same day in one queue. Seed {seed}."""

Waits = Mapping[tuple[str, str], Sequence[float]]


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    crew = Crew(options.workers, options.slots, LIMITS, options.per_user)
    day = mixed_day(options.seed, size=options.size)
    with tempfile.TemporaryDirectory() as directory:
        waits = _waits(through_the_store(day, crew, Path(directory)))
    plain = _waits(first_in_first_out(day, crew))
    print(table(waits, plain))
    limit = f" and {crew.max_per_user} of a user" if crew.max_per_user else ""
    figures = {"workers": crew.workers, "slots": crew.slots, "seed": options.seed} | LIMITS
    print("\n" + NOTES.format(jobs=len(day), per_user=limit, **figures))
    if options.svg:
        options.svg.write_text(chart(waits))
    return 0


def _waits(starts: Sequence[Start]) -> Waits:
    return by_user_and_type(Start(_grouped(start.job), start.waited_s) for start in starts)


def _grouped(job: Arrival) -> Arrival:
    name = "clerks" if job.user in CLERKS else job.user
    return Arrival(job.at_s, name, job.job_type, job.work_s)


def table(waits: Waits, plain: Waits) -> str:
    head = ["user, type", "jobs", "p50 s", "p95 s", "max s", "fifo p50 s", "fifo p95 s"]
    lines = [
        [
            ", ".join(key),
            f"{len(waits[key]):,}",
            *(f"{figure:,.1f}" for figure in _figures(waits[key])),
            *(f"{figure:,.1f}" for figure in _figures(plain[key])[:2]),
        ]
        for key in sorted(waits)
    ]
    return report.table([head, *lines])


def chart(waits: Waits) -> str:
    rows = {", ".join(key): _figures(waits[key]) for key in sorted(waits)}
    names = ("p50", "p95", "max")
    return charts.bars("How long jobs wait", rows, names, unit="seconds", roots=True)


def _figures(waited: Sequence[float]) -> tuple[float, float, float]:
    if len(waited) < 2:
        return waited[0], waited[0], waited[0]
    p95 = statistics.quantiles(waited, n=20, method="inclusive")[-1]
    return statistics.median(waited), p95, max(waited)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulate.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slots", type=int, default=4, help="of each worker")
    parser.add_argument("--per-user", type=int, help="most jobs of a user at a time")
    parser.add_argument("--size", type=float, default=1.0, help="0.1: a tenth of the jobs")
    parser.add_argument("--svg", type=Path, help="file for the chart")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
