"""What is kept of a run of one part: its figures, and all that is needed to judge them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

#: A figure with the lowest and the highest of its rounds around the median, one by itself, a word,
#: or nothing where it could not be measured.
Spread = tuple[float, float, float]
Cell = Spread | float | str | None


@dataclass(frozen=True)
class Table:
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    #: What the columns mean, below it.
    notes: str = ""
    title: str = ""


@dataclass(frozen=True)
class Chart:
    """Bars: a group for each row, one bar for each name. Lines: one for each row, over places with
    these names."""

    name: str
    kind: Literal["bars", "lines"]
    title: str
    unit: str
    names: tuple[str, ...]
    rows: Mapping[str, tuple[float | None, ...]]
    #: What the names of a line's places are.
    axis: str = ""
    #: A mark at what is aimed at.
    aim: float | None = None


@dataclass(frozen=True)
class Aim:
    """`reached` is None where nothing is aimed at; then the ratio alone tells who is ahead."""

    what: str
    wanted: str
    found: float | None
    unit: str
    reached: bool | None
    #: The best of the others in the same run, with its figure.
    beside: str = ""
    #: How many times as good ours is: above 1 it is ahead, also where less is better.
    ratio: float | None = None
    #: How many of the found figure are shown; as with all figures if None.
    decimals: int | None = None


@dataclass(frozen=True)
class Digest:
    """What a part says by itself, before it is told where and when it ran."""

    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    aims: tuple[Aim, ...]
    plan: Mapping[str, Any]
    #: Of ours and of the peers, as far as they told.
    versions: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    cpu: str
    cores: int
    system: str
    memory_gb: float | None = None
    #: To write 4 kB and wait for the disk.
    sync_ms: float | None = None


@dataclass(frozen=True)
class Load:
    """The load average of a minute, before and after a step."""

    step: str
    before: float
    after: float


@dataclass(frozen=True)
class Result:
    part: str
    #: When it ended: ISO 8601, UTC.
    date: str
    took_s: float | None
    command: str
    machine: Machine
    versions: Mapping[str, str]
    load: tuple[Load, ...]
    quick: bool
    plan: Mapping[str, Any]
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    aims: tuple[Aim, ...] = ()
    #: What could not be measured in this run.
    failures: tuple[str, ...] = ()
    #: Why a later attempt gave nothing at all, if there was one.
    failed: str | None = None


def write(result: Result, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{result.part}.json"
    path.write_text(json.dumps(_outer(result), indent=1, ensure_ascii=False) + "\n")
    return path


def read(directory: Path, part: str) -> Result | None:
    path = directory / f"{part}.json"
    return _result(json.loads(path.read_text())) if path.exists() else None


def ended(result: Result) -> float:
    """When, in seconds since the epoch."""
    return datetime.fromisoformat(result.date).timestamp()


def _outer(result: Result) -> dict[str, Any]:
    given = asdict(result)
    figures = {name: given.pop(name) for name in ("tables", "charts")}
    return _rounded({**given, "figures": figures})  # type: ignore[no-any-return]  # it was a dict


def _rounded(value: Any) -> Any:
    """Four figures are more than any of these measurements is worth."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return value


def _result(given: dict[str, Any]) -> Result:
    figures = given.pop("figures")
    aims = tuple(Aim(**aim) for aim in given.pop("aims"))
    load = tuple(Load(**one) for one in given.pop("load"))
    return Result(
        machine=Machine(**given.pop("machine")),
        tables=tuple(_table(table) for table in figures["tables"]),
        charts=tuple(_chart(chart) for chart in figures["charts"]),
        aims=aims,
        load=load,
        failures=tuple(given.pop("failures")),
        **given,
    )


def _table(given: dict[str, Any]) -> Table:
    rows = tuple(tuple(_cell(cell) for cell in row) for row in given.pop("rows"))
    return Table(head=tuple(given.pop("head")), rows=rows, **given)


def _cell(cell: Any) -> Cell:
    return tuple(cell) if isinstance(cell, Sequence) and not isinstance(cell, str) else cell


def _chart(given: dict[str, Any]) -> Chart:
    rows = {name: tuple(values) for name, values in given.pop("rows").items()}
    return Chart(names=tuple(given.pop("names")), rows=rows, **given)
