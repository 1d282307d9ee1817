"""The figures of a run as tables for people and as JSON for programs."""

import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure import CALLERS, Idle, Latency

FSYNC_PROBES = 50
UNSTEADY_RATIO = 1.5
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


def machine(directory: Path) -> str:
    return (
        f"{cpu_model()}, {os.cpu_count()} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}; 4 kB written and synced in "
        f"{fsync_ms(directory):.2f} ms"
    )


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


def table(lines: Sequence[Sequence[str]]) -> str:
    """Markdown that is aligned as plain text too: names to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    first, *others = widths
    rule = [":" + "-" * (first - 1), *("-" * (width - 1) + ":" for width in others)]
    aligned = [
        [name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))]
        for name, *cells in lines
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [aligned[0], rule, *aligned[1:]])


def median(samples: Sequence[float]) -> str:
    if not samples:
        return number(None)
    unsteady = max(samples) > UNSTEADY_RATIO * min(samples)
    return ("~" if unsteady else "") + number(statistics.median(samples))


def recovered(after: Recovery | None) -> str:
    if after and after.seconds is None:
        return f"> {after.cap_s:.0f}"
    return number(after.seconds if after else None)


def number(value: float | None) -> str:
    if value is None:
        return "failed"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def fsync_ms(directory: Path) -> float:
    path, times = directory / "fsync", []
    with path.open("wb", buffering=0) as file:
        for _ in range(FSYNC_PROBES):
            started = time.perf_counter()
            file.write(b"\0" * 4096)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    path.unlink()
    return statistics.median(times) * 1000
