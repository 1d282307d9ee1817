"""Our HTTP API beside a bare FastAPI route that writes one row, in one run on one machine.

    python bench/api.py [--quick] [--json FILE]

The rows are measured in turn, round after round, so that noise hits all alike; each measurement
starts a server of its own in an empty directory. The load comes from wrk, over loopback.
"""

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import install
import load
import program
import report
import streams
from arena import noting_failure
from load import Load
from program import say
from servers import JOB, SERVERS, Running, running
from streams import Streams

JOBS = "/api/jobs"
CONNECTIONS = (1, 16, 64)
#: With so many connections the status of a job is asked for.
POLLING = 16
NOTES = """\
Medians of {rounds} round(s) of {seconds} s each; "~": the highest was more than {unsteady} times
the lowest. Accepted: POST /api/jobs, answered with 202 once the job is synced to disk, over 1, 16
and 64 connections. Polls: GET /api/jobs/{{id}} of one job over {polling} connections. Memory: of
all processes, at the end. "at work": with the worker, which runs the jobs in the same process
meanwhile; they do nothing. "bare": FastAPI, pydantic and one INSERT into SQLite (WAL, synchronous
= FULL), on the event loop or in one thread beside it, with the same loop, parser and settings of
uvicorn. Times bare: how much longer ours takes than the faster of the two, round by round."""


@dataclass(frozen=True)
class Plan:
    rounds: int = 3
    seconds: int = 3
    warm_up_s: int = 1
    streams: int = 2_000
    idle_s: float = 15  # a heartbeat goes out every 15 s, so each stream has one


QUICK = Plan(rounds=1, seconds=1, warm_up_s=0, streams=500, idle_s=5)


@dataclass
class Row:
    name: str
    bare: bool
    accepted: dict[int, list[Load]] = field(default_factory=lambda: {n: [] for n in CONNECTIONS})
    polls: list[Load] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    options = program.parser("api.py", __doc__).parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    if not install.has("wrk"):
        sys.exit("wrk is needed and could not be installed: apt-get install wrk")
    rows = [Row(server.name, server.bare) for server in SERVERS]
    with program.workplace() as place:
        for number in range(plan.rounds):
            say(f"round {number + 1} of {plan.rounds}")
            _measure_round(rows, plan, place.root)
        say(f"{plan.streams:,} streams")
        opened = _measure_streams(rows[0], plan, place.root)
        machine = place.machine()
    print(_text(rows, opened, plan, machine))
    figures = {"rows": [asdict(row) for row in rows], "streams": asdict(opened) if opened else None}
    program.keep(options.json, machine, plan, **figures)
    return 1 if any(row.failures for row in rows) else 0


def _measure_round(rows: Sequence[Row], plan: Plan, root: Path) -> None:
    for connections in CONNECTIONS:
        for server, row in zip(SERVERS, rows, strict=True):
            what = f"{connections} connection(s)"
            with noting_failure(row.failures, what), running(server, root) as started:
                _measure(started, row, connections, plan)


def _measure(server: Running, row: Row, connections: int, plan: Plan) -> None:
    if plan.warm_up_s:
        load.post(server, JOBS, JOB, connections=connections, seconds=plan.warm_up_s)
    found = load.post(server, JOBS, JOB, connections=connections, seconds=plan.seconds)
    row.accepted[connections].append(found)
    if connections == POLLING:
        one = f"{JOBS}/{server.post(JOBS, json.loads(JOB))['data']['job_id']}"
        row.polls.append(load.get(server, one, connections=connections, seconds=plan.seconds))
    if connections == CONNECTIONS[-1]:
        row.memory_mb.append(server.tree.memory_bytes() / 1e6)


def _measure_streams(row: Row, plan: Plan, root: Path) -> Streams | None:
    with noting_failure(row.failures, "streams"):
        return streams.measure(plan.streams, idle_s=plan.idle_s, root=root)
    return None


def _text(rows: Sequence[Row], opened: Streams | None, plan: Plan, machine: str) -> str:
    head = ["", *(f"{n} conn: accepted/s | p50 ms | p99 ms" for n in CONNECTIONS)]
    head = [part for title in head for part in title.split(" | ")] + ["polls/s", "memory MB"]
    parts = [
        report.table([head, *map(_cells, rows)]),
        notes_of(asdict(plan)),
        _comparison(rows),
    ]
    if opened is not None:
        parts.append(_streams_text(opened))
    if failures := [f"{row.name}: {failure}" for row in rows for failure in row.failures]:
        parts.append("Failed:\n" + "\n".join(failures))
    return "\n\n".join([*parts, machine])


def notes_of(plan: Mapping[str, Any]) -> str:
    return NOTES.format(polling=POLLING, unsteady=report.UNSTEADY_RATIO, **plan)


def _cells(row: Row) -> list[str]:
    loads = [
        report.median([getattr(sample, figure) for sample in samples])
        for samples in row.accepted.values()
        for figure in ("per_s", "p50_ms", "p99_ms")
    ]
    polls = report.median([sample.per_s for sample in row.polls])
    return [row.name, *loads, polls, report.median(row.memory_mb)]


def _comparison(rows: Sequence[Row]) -> str:
    """What a request costs, and how much longer ours take than the faster of the bare ones."""
    bare = [row for row in rows if row.bare]
    lines = [["", *(f"CPU µs, {n} conn" for n in CONNECTIONS), "a poll"]]
    lines[0] += [*(f"times bare, {n} conn" for n in CONNECTIONS), "polls"]
    for row in rows:
        columns = [*row.accepted.values(), row.polls]
        costs = [report.median([sample.cpu_us for sample in column]) for column in columns]
        others = zip(*([*other.accepted.values(), other.polls] for other in bare), strict=True)
        ratios = [_ratio(mine, theirs) for mine, theirs in zip(columns, others, strict=True)]
        lines.append([row.name, *costs, *([""] * len(ratios) if row.bare else ratios)])
    return report.table(lines)


def _ratio(ours: Sequence[Load], bare: Sequence[Sequence[Load]]) -> str:
    if not ours or not all(bare):
        return report.number(None)
    rounds = zip(ours, *bare, strict=False)
    ratios = [max(b.per_s for b in others) / mine.per_s for mine, *others in rounds]
    return report.number(statistics.median(ratios))


def _streams_text(found: Streams) -> str:
    figures = {
        "kB each": found.kilobytes_each,
        "threads": found.threads,
        "CPU % while they wait": found.idle_cpu_percent,
        "opened in s": found.opened_s,
        "all told of the end in s": found.all_told_s,
    }
    cells = [f"{found.count:,}", *map(report.number, figures.values())]
    return report.table([["open streams", *figures], cells])


if __name__ == "__main__":
    program.run(main)
