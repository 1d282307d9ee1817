"""The engine beside its peers."""

from collections.abc import Mapping

import engine
import engine_report
from publishing.result import Aim, Cell, Chart, Digest, Table

from .figures import (
    Found,
    ahead,
    at_most,
    failures_of,
    middle,
    recovered,
    sooner,
    spread,
    text_of,
    told_of,
    versions_of,
)

OURS = "secretary"
#: The default, and handlers on the loop of the worker.
ISOLATED, ON_LOOP = "secretary-sqlite", "secretary-loop"
MANY_JOBS_AIM = 1.5
IN_ONE_PROCESS, IN_ONE_PROCESS_AIM_MS = "in one process, call to start, p50 ms", 1.0
RATIO = ", p50: ratio"


def digest(found: Mapping[str, Found]) -> Digest:
    (run,) = found.values()
    rows = run["rows"]
    notes = f"{text_of(engine.notes_of(run['plan']))}\n\n{told_of(rows)}"
    tables = [Table(tuple(engine_report.HEAD), tuple(map(_cells, rows)), notes)]
    if any(row["extra"] for row in rows):
        tables.append(_of_ours([row for row in rows if row["extra"]]))
    return Digest(
        tables=tuple(tables),
        charts=tuple(_charts(rows)),
        aims=tuple([*_beside_peers(rows), *_by_ourselves(rows)]),
        plan=run["plan"],
        versions=versions_of(row for row in rows if not _ours(row)),
        failures=failures_of(rows),
    )


def _ours(row: Found) -> bool:
    return str(row["name"]).startswith(OURS)


def _cells(row: Found) -> tuple[Cell, ...]:
    idle = row["idle"] or {"worker": None, "service": ""}
    return (
        row["name"],
        row["about"]["version"],
        "yes" if row["about"]["durable"] else "no",
        spread(row["enqueued_per_s"]),
        spread(row["enqueued_by_many_per_s"]),
        spread(row["drained_per_s"]),
        spread([sample["p50_ms"] for sample in row["latency"]]),
        spread([sample["p95_ms"] for sample in row["latency"]]),
        recovered(row["recovery"]),
        idle["worker"],
        "" if idle["service"] is None else idle["service"],
    )


def _of_ours(rows: list[Found]) -> Table:
    titles = list(dict.fromkeys(title for row in rows for title in row["extra"]))
    lines = tuple((title, *(row["extra"].get(title, "") for row in rows)) for title in titles)
    return Table(("", *(row["name"] for row in rows)), lines, title="Figures of ours alone")


def _charts(rows: list[Found]) -> list[Chart]:
    drawn = {
        "enqueued": ("Enqueues a second, 32 callers", "jobs/s", "enqueued_by_many_per_s"),
        "drained": ("Waiting jobs worked off, a second", "jobs/s", "drained_per_s"),
    }
    charts = [
        Chart(name, "bars", title, unit, (unit,), {r["name"]: (middle(r[key]),) for r in rows})
        for name, (title, unit, key) in drawn.items()
    ]
    starts = {row["name"]: (_start_ms(row),) for row in rows}
    title = "From enqueue to start in another process, median (less is better)"
    return [*charts, Chart("start", "bars", title, "ms", ("ms",), starts)]


def _start_ms(row: Found) -> float | None:
    return middle([sample["p50_ms"] for sample in row["latency"]])


def _beside_peers(rows: list[Found]) -> list[Aim]:
    by_name = {row["name"]: row for row in rows}
    peers = [row for row in rows if not _ours(row)]
    aims = []
    for what, ours, key in (
        ("enqueues/s, one caller", ON_LOOP, "enqueued_per_s"),
        ("enqueues/s, 32 callers", ON_LOOP, "enqueued_by_many_per_s"),
        ("drained/s, handlers on the loop", ON_LOOP, "drained_per_s"),
        ("drained/s, handlers in child processes", ISOLATED, "drained_per_s"),
    ):
        if ours in by_name:
            others = {row["name"]: middle(row[key]) for row in peers}
            aims.append(ahead(what, middle(by_name[ours][key]), others, unit="/s"))
    if row := by_name.get(ON_LOOP):
        starts = {row["name"]: _start_ms(row) for row in peers}
        what, found = "enqueue to start between two processes, p50", _start_ms(row)
        aims.append(ahead(what, found, starts, unit="ms", wanted="", less_is_better=True))
    if row := by_name.get(ISOLATED):
        what = "kill -9 in mid-job to its next start"
        aims.append(sooner(what, row, peers, wanted="ahead of all"))
        idle = {row["name"]: row["idle"]["worker"] for row in peers if row["idle"]}
        found, what = (
            row["idle"]["worker"] if row["idle"] else None,
            "CPU of an idle worker, % of one core",
        )
        aims.append(ahead(what, found, idle, unit="%", wanted="", less_is_better=True))
    return aims


def _by_ourselves(rows: list[Found]) -> list[Aim]:
    aims = []
    for row in rows:
        ratios = {name: n for name, n in row["extra"].items() if name.endswith(RATIO)}
        if IN_ONE_PROCESS in row["extra"]:
            what = f"{row['name']}: enqueue to start in one process, p50"
            aims.append(
                at_most(what, IN_ONE_PROCESS_AIM_MS, row["extra"][IN_ONE_PROCESS], unit="ms")
            )
        if ratios:
            worst = max(ratios, key=lambda name: ratios[name])
            what = f"{row['name']}: 1,000,000 stored jobs over 10,000, worst p50"
            what += f" ({worst.removesuffix(RATIO)})"
            aims.append(at_most(what, MANY_JOBS_AIM, ratios[worst]))
    return aims
