"""The tables and the chart of the scale benchmark."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import charts
import engine_report
import report
from measure import CALLERS
from scaling.costs import Cost
from scaling.documents import Rate
from scaling.durable import Row
from scaling.plan import SLOTS, Plan, Run
from scaling.throughput import RAMP_S, Throughput

NOTES = """\
Medians of {rounds} round(s) of {window_s:g} s; "~": the highest was more than {unsteady} times the
lowest. Jobs wait in a MongoDB when the worker processes begin together; a job is counted where it
starts, from {ramp_s:g} s after the first start on. "noop": jobs that do nothing, {noop} slots
for each worker; "rest": jobs that wait 0.1 s for somebody else, {rest} slots, so that one worker
could do {ideal:g}/s. Claim: one request of a worker for all its free slots. CPU: milliseconds for
each job, of all workers and of mongod."""
WAKE_NOTES = """\
{probes} jobs, 20 ms between them, from one process to idle workers in others: to the first line of
the job, from when its acceptance was known (journaled by a majority), and from the call."""
DOCUMENT_NOTES = """\
From the first upload to the last text fetched: HTTP, GridFS, worker, results, medians of {rounds}
round(s). One API process, mongod and the workers (one slot, one child process, a data directory of
its own each) share the machine's cores. CPU: seconds for each document."""
DURABLE_NOTES = """\
{durable_jobs:,} jobs that do nothing, by {callers} callers of one client process; medians of
{rounds} round(s). Redis: appendonly yes, appendfsync always, so it syncs before it answers, as the
others do. Drained: jobs that waited, from first start to last. In and out: handed in and worked off
at the same time, from the first call to the last start. After kill -9: the worker's whole process
tree is killed in mid-job and started again at once; "> {recovery_cap_s:g}": not in that time."""
COST_NOTES = """\
For each job. Requests: commands that the server got. Written: documents in MongoDB's oplog, pages
of 4 kB in SQLite's log. Reports: of progress, with a line of the log each. Kept: when the job is
done, in MongoDB before compression."""


def text(run: Run, plan: Plan, machine: str) -> str:
    notes, parts = notes_of(plan), []
    if run.curves:
        parts += [_curves(run.curves), notes["curves"]]
    if run.wake_ups:
        lines = [
            [str(workers), *(report.number(value) for value in asdict(found).values())]
            for workers, found in run.wake_ups.items()
        ]
        head = ["workers", "accepted to start p50 ms", "p99 ms", "called to start p50 ms", "p99 ms"]
        head.append("mongod's CPU ms a job")
        parts += [report.table([head, *lines]), notes["wake_ups"]]
    if run.documents:
        parts += [_documents(run.documents), notes["documents"]]
    if run.durable:
        parts += [_durable(run.durable), notes["durable"]]
        parts.append("\n".join(f"{row.name}: {row.about.runs_as}" for row in run.durable))
    if run.costs:
        parts += [_costs(run.costs), notes["costs"]]
    failures = run.failures + [
        f"{row.name}: {text}" for row in run.durable for text in row.failures
    ]
    if failures:
        parts.append("Failed:\n" + "\n".join(failures))
    return "\n\n".join([*parts, machine])


def notes_of(plan: Plan) -> dict[str, str]:
    """What the figures of each part mean."""
    figures = asdict(plan) | SLOTS | {"ideal": SLOTS["rest"] * 10, "ramp_s": RAMP_S}
    figures |= {"callers": CALLERS, "unsteady": report.UNSTEADY_RATIO}
    texts = {
        "curves": NOTES,
        "wake_ups": WAKE_NOTES,
        "documents": DOCUMENT_NOTES,
        "durable": DURABLE_NOTES,
        "costs": COST_NOTES,
    }
    return {name: text.format(**figures) for name, text in texts.items()}


def _curves(curves: Mapping[str, Mapping[int, Sequence[Throughput]]]) -> str:
    head = ["jobs, workers", "jobs/s", "claim p50 ms", "p99 ms", "jobs a claim"]
    lines = [[*head, "workers' CPU ms", "mongod's CPU ms"]]
    for job_type, curve in curves.items():
        for workers, samples in curve.items():
            columns = zip(*(asdict(sample).values() for sample in samples), strict=True)
            lines.append([f"{job_type}, {workers}", *(report.median(c) for c in columns)])
    return report.table([line for line in lines if len(line) == len(lines[0])])


def _documents(found: Mapping[str, Mapping[int, Sequence[Rate]]]) -> str:
    lines = [["", "1 worker/s", "2 workers/s", "ratio", "workers' CPU s", "others' CPU s"]]
    for kind, rates in found.items():
        if not all(rates.values()):
            continue
        pairs = zip(rates[1], rates[2], strict=True)
        ratio = [two.per_s / one.per_s for one, two in pairs]
        cells = [report.median([rate.per_s for rate in rates[workers]]) for workers in (1, 2)]
        spent = [
            report.median([getattr(rate, name) for rate in rates[2]])
            for name in ("workers_cpu_s", "others_cpu_s")
        ]
        lines.append([kind, *cells, report.number(statistics.median(ratio)), *spent])
    return report.table(lines)


def _durable(rows: Sequence[Row]) -> str:
    head = ["", "version", "enqueues/s", "drained/s", "in and out/s", "after kill -9 s"]
    lines = [
        [
            row.name,
            row.about.version,
            report.median(row.enqueued_per_s),
            report.median(row.drained_per_s),
            report.median(row.sustained_per_s),
            engine_report.recovered(row.recovery),
        ]
        for row in rows
    ]
    return report.table([head, *lines])


def _costs(costs: Mapping[str, Cost]) -> str:
    head = ["", "requests", "written", "bytes of log", "bytes kept", "and indexes"]
    lines = [
        [name, *("" if value is None else report.number(value) for value in asdict(cost).values())]
        for name, cost in sorted(costs.items())
    ]
    return report.table([head, *lines])


def chart(run: Run) -> str:
    names = {"noop": "do nothing", "rest": "wait 0.1 s"}
    series = {
        names[job_type]: [
            statistics.median(sample.per_s for sample in samples) if samples else None
            for samples in curve.values()
        ]
        for job_type, curve in run.curves.items()
    }
    workers = [str(number) for number in next(iter(run.curves.values()))]
    title, axis = "Jobs a second by worker processes", "worker processes"
    return charts.lines(title, workers, series, unit="jobs/s", axis=axis)
