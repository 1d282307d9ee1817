"""The HTTP API beside a bare route."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

import api
from publishing.result import Aim, Cell, Chart, Digest, Table

from .figures import Found, at_most, failures_of, middle, spread, text_of

#: How much longer than a bare route an accepted job may take.
AIM = 2.0
STREAMS = {
    "open streams": "count",
    "kB each": "kilobytes_each",
    "threads": "threads",
    "CPU % while they wait": "idle_cpu_percent",
    "opened in s": "opened_s",
    "all told of the end in s": "all_told_s",
}
Loads = Sequence[Found]


def digest(found: Mapping[str, Found]) -> Digest:
    (run,) = found.values()
    rows = run["rows"]
    tables = [
        Table(_head(rows), tuple(map(_cells, rows)), text_of(api.notes_of(run["plan"]))),
        _costs(rows),
    ]
    if opened := run["streams"]:
        figures = tuple(opened[key] for key in STREAMS.values())
        tables.append(Table(tuple(STREAMS), (figures,), title="Open streams"))
    return Digest(
        tables=tuple(tables),
        charts=(_accepted_chart(rows),),
        aims=tuple(_aims(rows)),
        plan=run["plan"],
        failures=failures_of(rows),
    )


def _head(rows: Sequence[Found]) -> tuple[str, ...]:
    columns = [(f"{number} conn: accepted/s", "p50 ms", "p99 ms") for number in rows[0]["accepted"]]
    return ("", *(title for column in columns for title in column), "polls/s", "memory MB")


def _cells(row: Found) -> tuple[Cell, ...]:
    loads = (
        spread([sample[figure] for sample in samples])
        for samples in row["accepted"].values()
        for figure in ("per_s", "p50_ms", "p99_ms")
    )
    polls = spread([sample["per_s"] for sample in row["polls"]])
    return (row["name"], *loads, polls, spread(row["memory_mb"]))


def _costs(rows: Sequence[Found]) -> Table:
    connections = list(rows[0]["accepted"])
    head = ("", *(f"CPU µs, {n} conn" for n in connections), "a poll")
    head += (*(f"times bare, {n} conn" for n in connections), "polls")
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        costs = [spread([load["cpu_us"] for load in loads]) for _, loads in _columns(row)]
        ratios: list[Cell] = ["" if row["bare"] else ratio for _, ratio in _times_bare(row, rows)]
        lines.append((row["name"], *costs, *ratios))
    return Table(head, tuple(lines), title="What a request costs")


def _columns(row: Found) -> Iterator[tuple[str, Loads]]:
    yield from row["accepted"].items()
    yield "polls", row["polls"]


def _times_bare(row: Found, rows: Sequence[Found]) -> Iterator[tuple[str, float | None]]:
    """How much longer it takes than the faster of the bare ones, round by round."""
    bare = [dict(_columns(other)) for other in rows if other["bare"]]
    for name, mine in _columns(row):
        theirs = [columns[name] for columns in bare]
        if not mine or not theirs or not all(theirs):
            yield name, None
            continue
        rounds = zip(mine, *theirs, strict=False)
        ratios = [max(b["per_s"] for b in others) / own["per_s"] for own, *others in rounds]
        yield name, statistics.median(ratios)


def _accepted_chart(rows: Sequence[Found]) -> Chart:
    connections = list(rows[0]["accepted"])
    drawn = {
        row["name"]: tuple(
            middle([load["per_s"] for load in row["accepted"][n]]) for n in connections
        )
        for row in rows
    }
    names = tuple(f"{n} connection{'s' if n != '1' else ''}" for n in connections)
    return Chart("accepted", "bars", "Jobs accepted a second", "jobs/s", names, drawn)


def _aims(rows: Sequence[Found]) -> Iterator[Aim]:
    ours, at_work = (row for row in rows if not row["bare"])
    bare = {"unit": "times", "beside": "the faster bare route"}
    for name, ratio in _times_bare(ours, rows):
        if name == "polls":
            yield at_most("time of a poll over a bare route's", None, ratio, **bare)
        else:
            what = f"time to accept over a bare route's, {name} connection(s)"
            yield at_most(what, AIM, ratio, **bare)
    worst = max((ratio for _, ratio in _times_bare(at_work, rows) if ratio), default=None)
    yield at_most("the same while the worker works, worst", None, worst, **bare)
