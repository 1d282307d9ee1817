"""The figures of the engine benchmark as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from measure import CALLERS, Idle, Latency
from report import median, number, table

HEAD = [
    "",
    "version",
    "synced",
    "enqueues/s, 1 caller",
    f"{CALLERS} callers",
    "drained/s",
    "to start p50 ms",
    "p95 ms",
    "after kill -9 s",
    "idle CPU %",
    "its server %",
]


@dataclass(frozen=True)
class About:
    version: str = "?"
    runs_as: str = "?"
    durable: bool = False
    extra: bool = False
    """Whether the row has figures of its own for the second table."""


@dataclass(frozen=True)
class Recovery:
    cap_s: float
    seconds: float | None
    """None if the job was not started again within the cap."""


@dataclass
class Row:
    """What was measured of one system; what is missing has failed, and `failures` says why."""

    name: str
    about: About = About()
    enqueued_per_s: list[float] = field(default_factory=list)
    enqueued_by_many_per_s: list[float] = field(default_factory=list)
    drained_per_s: list[float] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    idle: Idle | None = None
    recovery: Recovery | None = None
    extra: Mapping[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def text(rows: Sequence[Row], *, machine: str, notes: str) -> str:
    parts = [table([HEAD, *map(_cells, rows)]), notes]
    parts.append("\n".join(f"{row.name}: {row.about.runs_as}" for row in rows))
    if any(row.extra for row in rows):
        parts.append(_extra_table([row for row in rows if row.extra]))
    if failures := [f"{row.name}: {failure}" for row in rows for failure in row.failures]:
        parts.append("Failed:\n" + "\n".join(failures))
    return "\n\n".join([*parts, machine])


def _cells(row: Row) -> list[str]:
    return [
        row.name,
        row.about.version,
        "yes" if row.about.durable else "no",
        median(row.enqueued_per_s),
        median(row.enqueued_by_many_per_s),
        median(row.drained_per_s),
        median([sample.p50_ms for sample in row.latency]),
        median([sample.p95_ms for sample in row.latency]),
        recovered(row.recovery),
        number(row.idle.worker if row.idle else None),
        number(row.idle.service) if row.idle and row.idle.service is not None else "",
    ]


def _extra_table(rows: Sequence[Row]) -> str:
    titles = dict.fromkeys(title for row in rows for title in row.extra)
    lines = [
        [title, *(number(row.extra[title]) if title in row.extra else "" for row in rows)]
        for title in titles
    ]
    return table([["", *(row.name for row in rows)], *lines])


def recovered(after: Recovery | None) -> str:
    if after and after.seconds is None:
        return f"> {after.cap_s:.0f}"
    return number(after.seconds if after else None)
