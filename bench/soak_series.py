"""The series that a soak test measures, and whether they stay flat."""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import charts
import numpy as np
import pymongo
import report
from processes import proc_kilobytes

from secretary.core import processes

MEBIBYTE = 1024 * 1024

#: What the command line of each role contains; the first match counts.
ROLES = {
    "watchdog": b"processes.py",
    "service": b"soak.py",
    "sandbox": b"\0-c\0",
}


@dataclass(frozen=True)
class Sample:
    #: Seconds since the start.
    at: float
    values: dict[str, float]


#: The first third is for warming up: engines are loaded, the first jobs are stored.
WARM_UP = 1 / 3
#: With fewer samples a trend means nothing.
FEWEST = 10


@dataclass(frozen=True)
class Tolerance:
    """How much a series may grow: a share of its level, or an absolute amount if that is more."""

    share: float
    absolute: float


@dataclass(frozen=True)
class Verdict:
    #: The median of the last two thirds.
    level: float
    #: How much the trend rises over the last two thirds.
    growth: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.allowed


#: By the first word of a series: its unit, and how much it may grow.
KINDS: Mapping[str, tuple[str, Tolerance]] = {
    "memory": ("MB", Tolerance(0.10, 15)),
    "open files": ("", Tolerance(0.10, 10)),
    "threads": ("", Tolerance(0.10, 4)),
    "processes": ("", Tolerance(0.10, 2)),
    "directories": ("", Tolerance(0.25, 20)),
    "size": ("MB", Tolerance(0.25, 4)),
}
#: Programs that come and go with jobs (ffmpeg): shown, not judged.
UNJUDGED = "other"

Columns = Mapping[str, Sequence[float]]


def take_sample(
    leader: int, data: Path, temporary: Path, mongodb: str | None = None
) -> dict[str, float]:
    """Of a process with its children, and of its files or its MongoDB database."""
    values: defaultdict[str, float] = defaultdict(float)
    for pid, *_ in processes.tree(leader):
        with suppress(OSError):  # exited meanwhile
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            role = next((role for role, mark in ROLES.items() if mark in command), UNJUDGED)
            values[f"memory: {role}"] += proc_kilobytes(pid, "smaps_rollup", "Pss:") / 1024
            values[f"open files: {role}"] += len(os.listdir(f"/proc/{pid}/fd"))
            values[f"threads: {role}"] += len(os.listdir(f"/proc/{pid}/task"))
            values[f"processes: {role}"] += 1
    places = {"jobs": data / "jobs", "uploads": data / "uploads", "temporary": temporary}
    for name, directory in places.items():
        entries = os.listdir(directory) if directory.exists() else ()
        values[f"directories: {name}"] = len(entries)
    scratch = [path for path, *_ in os.walk(data / "jobs") if path.endswith(".scratch")]
    values["directories: scratch"] = len(scratch)
    for name, directory in (places | {"cache": data / "cache"}).items():
        files = (Path(path, file) for path, _, names in os.walk(directory) for file in names)
        values[f"size: {name}"] = _megabytes(files)
    values["size: database"] = _megabytes(data.glob("secretary.db*"))
    if mongodb:  # documents, files and indexes, without free space
        with pymongo.MongoClient[dict[str, Any]](mongodb) as client:
            stats = client.get_default_database().command("dbStats")
        values["size: database"] = float(stats["dataSize"] + stats["indexSize"]) / MEBIBYTE
    return dict(values)


def _megabytes(files: Iterable[Path]) -> float:
    total = 0
    for file in files:
        with suppress(OSError):  # removed meanwhile
            total += file.lstat().st_size
    return total / MEBIBYTE


def judge(at: Sequence[float], values: Sequence[float], tolerance: Tolerance) -> Verdict:
    """The trend is the Theil-Sen estimator, which single peaks do not affect."""
    start = at[0] + (at[-1] - at[0]) * WARM_UP
    late = [(moment, value) for moment, value in zip(at, values, strict=True) if moment >= start]
    if len(late) < FEWEST:
        raise ValueError(f"{len(late)} samples are too few for a trend")
    moments, levels = (np.array(each, float) for each in zip(*late, strict=True))
    first, second = np.triu_indices(len(moments), k=1)
    slopes = (levels[second] - levels[first]) / (moments[second] - moments[first])
    growth = float(np.median(slopes)) * float(moments[-1] - moments[0])
    level = float(np.median(levels))
    return Verdict(level, growth, max(tolerance.share * level, tolerance.absolute))


def columns(samples: Sequence[Sample]) -> dict[str, list[float]]:
    """Each series, with 0 where a sample does not have it."""
    names = sorted({name for sample in samples for name in sample.values})
    return {name: [sample.values.get(name, 0.0) for sample in samples] for name in names}


def verdicts(at: Sequence[float], series: Columns) -> dict[str, Verdict]:
    return {
        name: judge(at, values, KINDS[name.partition(":")[0]][1])
        for name, values in series.items()
        if not name.endswith(UNJUDGED)
    }


def table(series: Columns, judged: Mapping[str, Verdict]) -> str:
    head = ["series", "first", "median", "max", "last", "growth", "allowed", "flat"]
    lines = []
    for name, values in series.items():
        verdict = judged.get(name)
        judgement = ["", "", "not judged"]
        if verdict:
            flat = "yes" if verdict.is_flat else "NO"
            judgement = [f"{verdict.growth:+,.1f}", f"{verdict.allowed:,.1f}", flat]
        level = verdict.level if verdict else sorted(values)[len(values) // 2]
        figures = [f"{value:,.1f}" for value in (values[0], level, max(values), values[-1])]
        unit = KINDS[name.partition(":")[0]][0]
        lines.append([f"{name}{f' ({unit})' if unit else ''}", *figures, *judgement])
    return report.table([head, *lines])


def drawing(title: str, at: Sequence[float], series: Columns) -> str:
    """One chart per kind, over minutes."""
    minutes = [moment / 60 for moment in at]
    drawn = []
    for kind, (unit, _) in KINDS.items():
        lines = {
            name.partition(": ")[2]: values
            for name, values in series.items()
            if name.startswith(f"{kind}:")
        }
        if lines:
            shown = f"{kind[0].upper()}{kind[1:]}"
            drawn.append(charts.lines(shown, minutes, lines, unit=unit, axis="minutes"))
    return charts.stacked(title, drawn)


def growing(judged: Mapping[str, Verdict]) -> list[str]:
    return [
        f"{name} grew by {verdict.growth:,.1f} in the last {1 - WARM_UP:.0%} of the run "
        f"(allowed: {verdict.allowed:,.1f})"
        for name, verdict in judged.items()
        if not verdict.is_flat
    ]
