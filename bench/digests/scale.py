"""Many workers on MongoDB, beside Celery and RQ on a Redis that syncs."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

import scale_report
from publishing.result import Aim, Cell, Chart, Digest, Table
from scaling.plan import Plan

from .figures import (
    Found,
    ahead,
    at_least,
    failures_of,
    middle,
    recovered,
    sooner,
    spread,
    text_of,
    told_of,
    versions_of,
)

#: How many times as many documents two workers have to read as one.
DOCUMENTS_AIM = 1.8
OURS, WANTED = "secretary", "ahead of Celery and RQ"
KINDS = {"noop": "do nothing", "rest": "wait 0.1 s"}
THROUGHPUT = {
    "jobs/s": "per_s",
    "claim p50 ms": "claim_p50_ms",
    "p99 ms": "claim_p99_ms",
    "jobs a claim": "jobs_per_claim",
    "workers' CPU ms": "workers_cpu_ms",
    "mongod's CPU ms": "server_cpu_ms",
}
WAKE_UP = (
    "workers", "accepted to start p50 ms", "p99 ms", "called to start p50 ms", "p99 ms",
    "mongod's CPU ms a job",
)  # fmt: skip
DURABLE = {
    "enqueues/s": "enqueued_per_s",
    "drained/s": "drained_per_s",
    "in and out/s": "sustained_per_s",
}
COSTS = ("", "requests", "written", "bytes of log", "bytes kept", "and indexes")


def digest(found: Mapping[str, Found]) -> Digest:
    (run,) = found.values()
    notes = scale_report.notes_of(Plan(**run["plan"]))
    tables = [table for table in _tables(run, notes) if table.rows]
    charts = [chart for chart in _charts(run) if chart.rows]
    durable = run["durable"]
    return Digest(
        tables=tuple(tables),
        charts=tuple(charts),
        aims=(*_documents_aims(run["documents"]), *_durable_aims(durable)),
        plan=run["plan"],
        versions=versions_of(row for row in durable if not _ours(row)),
        failures=(*run["failures"], *failures_of(durable)),
    )


def _ours(row: Found) -> bool:
    return str(row["name"]).startswith(OURS)


def _tables(run: Found, notes: Mapping[str, str]) -> Iterator[Table]:
    yield Table(
        ("jobs, workers", *THROUGHPUT),
        tuple(_curves(run["curves"])),
        text_of(notes["curves"]),
        title="Worker processes",
    )
    woken = tuple((workers, *times.values()) for workers, times in run["wake_ups"].items())
    yield Table(WAKE_UP, woken, text_of(notes["wake_ups"]), title="Until a job starts elsewhere")
    yield Table(
        ("", "1 worker/s", "2 workers/s", "ratio", "workers' CPU s", "others' CPU s"),
        tuple(_documents(run["documents"])),
        text_of(notes["documents"]),
        title="Documents from end to end",
    )
    yield Table(
        ("", "version", *DURABLE, "after kill -9 s"),
        tuple(map(_durable, run["durable"])),
        f"{text_of(notes['durable'])}\n\n{told_of(run['durable'])}",
        title="Beside Celery and RQ, all waiting for the disk",
    )
    costs = sorted(run["costs"].items())
    lines = tuple(
        (name, *("" if value is None else value for value in cost.values())) for name, cost in costs
    )
    yield Table(COSTS, lines, text_of(notes["costs"]), title="One job at the store")


def _curves(curves: Found) -> Iterator[tuple[Cell, ...]]:
    for job_type, curve in curves.items():
        for workers, samples in curve.items():
            if samples:
                columns = ([sample[key] for sample in samples] for key in THROUGHPUT.values())
                yield (f"{job_type}, {workers}", *map(spread, columns))


def _documents(found: Found) -> Iterator[tuple[Cell, ...]]:
    for kind, rates in found.items():
        if all(rates.values()):
            paces = (spread([rate["per_s"] for rate in rates[workers]]) for workers in ("1", "2"))
            spent = (
                spread([rate[key] for rate in rates["2"]])
                for key in ("workers_cpu_s", "others_cpu_s")
            )
            yield (kind, *paces, _ratio(rates), *spent)


def _ratio(rates: Found) -> float:
    """Of two workers to one, round by round."""
    pairs = zip(rates["1"], rates["2"], strict=True)
    return statistics.median(float(two["per_s"] / one["per_s"]) for one, two in pairs)


def _durable(row: Found) -> tuple[Cell, ...]:
    figures = (spread(row[key]) for key in DURABLE.values())
    return (row["name"], row["about"]["version"], *figures, recovered(row["recovery"]))


def _charts(run: Found) -> Iterator[Chart]:
    curves = run["curves"]
    workers = tuple(next(iter(curves.values()))) if curves else ()
    lines = {
        KINDS[kind]: tuple(middle([one["per_s"] for one in samples]) for samples in curve.values())
        for kind, curve in curves.items()
    }
    title, axis = "Jobs a second by worker processes", "worker processes"
    yield Chart("workers", "lines", title, "jobs/s", workers, lines, axis)
    rows = {
        row["name"]: tuple(middle(row[key]) for key in DURABLE.values()) for row in run["durable"]
    }
    title = "Jobs a second, all waiting for the disk"
    yield Chart("durable", "bars", title, "jobs/s", tuple(n.split("/")[0] for n in DURABLE), rows)


def _documents_aims(found: Found) -> Iterator[Aim]:
    for kind, rates in found.items():
        ratio = _ratio(rates) if all(rates.values()) else None
        what = f"documents with two workers over one, {kind}"
        yield at_least(what, DOCUMENTS_AIM, ratio, unit="times")


def _durable_aims(rows: Sequence[Found]) -> Iterator[Aim]:
    peers = [row for row in rows if not _ours(row)]
    for row in rows:
        if _ours(row):
            for what, key in DURABLE.items():
                others = {peer["name"]: middle(peer[key]) for peer in peers}
                told, ours = f"{row['name']}: {what}", middle(row[key])
                yield ahead(told, ours, others, unit="/s", wanted=WANTED)
    for row in rows:
        if _ours(row):
            yield sooner(f"{row['name']}: kill -9 to the next start", row, peers, wanted=WANTED)
