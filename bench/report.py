"""The result of a benchmark in one shape: stored as JSON, printed as text, rendered on the page."""

import json
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import charts

#: A list is [lowest, median, highest] of the rounds; None: the measurement failed.
Cell = float | str | list[float] | None
#: A median is marked with "~" if the highest sample is more than this many times the lowest.
UNSTEADY_RATIO = 1.5
OURS = "secretary"
#: Longer values are spread over several lines of the JSON file.
LINE = 400
PAGE, IMAGES = "benchmarks.md", "img/bench-"
NOTES = Path(__file__).with_name("notes.toml")
INTRODUCTION = """\
# Benchmarks

Secretary next to its peers. Each benchmark measures all rows in one run on one machine, in turn:
compare rows, not runs. `make bench` takes the measurements and writes this page; the methods are
described in `bench/README.md`.

A ratio above 1 means that Secretary is better than the best peer, also where lower is better. "~"
marks a median whose rounds differ by more than a factor of 1.5.
"""


@dataclass
class Chart:
    """Columns of a table as a chart; one series per column, or per prefix of the row names
    ("noop, 4" is the value at 4 of the series "noop")."""

    name: str
    title: str
    unit: str
    columns: list[int]
    series: list[str] = field(default_factory=list)
    kind: Literal["bars", "lines"] = "bars"
    axis: str = ""
    target: float | None = None
    #: Show only this many rows, those with the highest values.
    top: int | None = None


@dataclass
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    notes: str = ""
    charts: list[Chart] = field(default_factory=list)


@dataclass
class Target:
    """A figure with a target, or without one (`met` is None) if it is only compared with peers."""

    name: str
    value: float | None
    unit: str = ""
    target: str = ""
    met: bool | None = None
    #: The best peer of the same run, with its figure.
    peer: str = ""
    #: How many times better than the peer; above 1 also where lower is better.
    ratio: float | None = None
    decimals: int | None = None

    @property
    def verdict(self) -> str:
        if self.met is None:
            return "**behind**" if self.is_behind else "ahead"
        return "met" if self.met else "**missed**"

    @property
    def is_behind(self) -> bool:
        return (self.ratio or 1) < 1 if self.met is None else not self.met


@dataclass
class Result:
    benchmark: str
    date: str
    quick: bool
    machine: str
    #: Load average before and after the run.
    load: list[float]
    versions: dict[str, str] = field(default_factory=dict)
    duration_s: float | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(
        self,
        title: str,
        head: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        *charts: Chart,
        more: str = "",
        **figures: object,
    ) -> None:
        """Adds a table with its notes in `notes.toml`, which show the plan and these figures."""
        texts = tomllib.loads(NOTES.read_text(encoding="utf-8"))[self.benchmark]
        notes = texts.get(title, "").format(**self.plan, **figures)
        notes = "\n\n".join(filter(None, (notes, more)))
        self.tables.append(Table(head, rows, title, notes, list(charts)))


class Samples(defaultdict[tuple[str, str], list[float]]):
    """Figures by row and column, one per round; a row without figures has failed."""

    def __init__(self) -> None:
        super().__init__(list)

    def add(self, row: str, figures: Mapping[str, float]) -> None:
        for column, figure in figures.items():
            self[row, column].append(figure)

    def median(self, row: str, column: str) -> float | None:
        return median(self.get((row, column), ()))

    def medians(self, rows: Iterable[str], column: str) -> dict[str, float | None]:
        return {row: self.median(row, column) for row in rows}

    def ratios(self, row: str, peer: str, column: str) -> list[float]:
        """Of the row to the peer, round by round."""
        pairs = zip(self.get((row, column), ()), self.get((peer, column), ()), strict=False)
        return [ours / theirs for ours, theirs in pairs]

    def line(self, row: str, columns: Iterable[str]) -> list[Cell]:
        return [row, *(spread(self.get((row, column), ())) for column in columns)]


def spread(samples: Sequence[float]) -> list[float] | None:
    return [min(samples), statistics.median(samples), max(samples)] if samples else None


def median(samples: Sequence[float]) -> float | None:
    return statistics.median(samples) if samples else None


def at_least(
    name: str, target: float, value: float | None, unit: str = "", peer: str = ""
) -> Target:
    met = value is not None and value >= target
    return Target(name, value, unit, f"≥ {target:g}", met, peer, value if peer else None)


def at_most(
    name: str, target: float | None, value: float | None, unit: str = "", peer: str = ""
) -> Target:
    """With a `peer`, the value is how many times longer ours takes than the peer."""
    met = None if target is None else value is not None and value <= target
    limit = "" if target is None else f"≤ {target:,g} {unit}".rstrip()
    return Target(name, value, unit, limit, met, peer, 1 / value if peer and value else None)


def ahead(
    name: str,
    value: float | None,
    peers: Mapping[str, float | None],
    unit: str = "",
    *,
    target: str = "ahead of all",
    lower_is_better: bool = False,
    decimals: int | None = None,
) -> Target:
    """Compared with the best peer; without a `target` it is only reported."""
    measured = {peer: figure for peer, figure in peers.items() if figure}
    if value is None or not measured:
        return Target(name, value, unit, target, False if target else None)
    best = (min if lower_is_better else max)(measured, key=lambda peer: measured[peer])
    ratio = measured[best] / value if lower_is_better else value / measured[best]
    met = ratio > 1 if target else None
    peer = f"{best}: {number(measured[best], decimals)}"
    return Target(name, value, unit, target, met, peer, ratio, decimals)


def number(value: float | None, decimals: int | None = None) -> str:
    if value is None:
        return "failed"
    if decimals is None:
        decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{decimals}f}"


def shown(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, list):
        return ("~" if cell[2] > UNSTEADY_RATIO * cell[0] else "") + number(cell[1])
    return f"{cell:,}" if isinstance(cell, int) else number(cell)


def table(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table that is aligned as plain text, too."""
    first, *others = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = [":" + "-" * max(first - 1, 1), *("-" * (width - 1) + ":" for width in others)]
    aligned = [
        [name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))]
        for name, *cells in lines
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [aligned[0], rule, *aligned[1:]])


def markdown(one: Table) -> str:
    return table([one.head, *([shown(cell) for cell in row] for row in one.rows)])


def write(result: Result, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_json(_compact(asdict(result))) + "\n")


def read(path: Path) -> Result:
    document = json.loads(path.read_text())
    tables = [
        Table(**{**one, "charts": [Chart(**chart) for chart in one.get("charts", ())]})
        for one in document.pop("tables", ())
    ]
    targets = [Target(**one) for one in document.pop("targets", ())]
    return Result(**document, tables=tables, targets=targets)


def text(result: Result) -> str:
    """What a run prints."""
    failed = ["Failed:\n" + "\n".join(result.failures)] if result.failures else []
    targets = [_targets(result.targets)] if result.targets else []
    return "\n\n".join([*_tables(result), *targets, *failed, _circumstances(result)])


def page(results: Path, remarks: Path, benchmarks: Sequence[str]) -> dict[str, str]:
    """The page and its charts, by their paths below docs/."""
    summary = ["| Benchmark | Date | Targets met | Behind |", "| :-- | :-- | :-- | :-- |"]
    sections: list[str] = []
    files: dict[str, str] = {}
    for name in benchmarks:
        result = read(results / f"{name}.json")
        heading, _, rest = (remarks / f"{name}.md").read_text(encoding="utf-8").partition("\n")
        title = heading.removeprefix("# ").strip()
        description, _, comments = rest.strip().partition("\n## Remarks\n")
        blocks = [f"## {title}", description.strip(), _circumstances(result)]
        blocks += _tables(result, images=True)
        if result.targets:
            blocks += ["### Targets", _targets(result.targets)]
        if result.failures:
            blocks.append("Not measured: " + "; ".join(result.failures))
        sections.append("\n\n".join([*blocks, "### Remarks", comments.strip()]) + "\n")
        for one in result.tables:
            files |= {f"{IMAGES}{name}-{c.name}.svg": drawing(c, one) for c in one.charts}
        judged = [target for target in result.targets if target.met is not None]
        behind = "; ".join(target.name for target in result.targets if target.is_behind)
        met = f"{sum(target.met is True for target in judged)} of {len(judged)}"
        link = f"[{title}](#{title.lower().replace(' ', '-')})"
        summary.append(f"| {link} | {_day(result)} | {met} | {behind or '-'} |")
    head = "\n".join([INTRODUCTION, *summary, ""])
    return {PAGE: "\n".join([head, *sections]), **files}


def drawing(chart: Chart, source: Table) -> str:
    rows = {str(row[0]): [_value(row[column]) for column in chart.columns] for row in source.rows}
    if chart.kind == "lines":
        series: dict[str, list[float | None]] = {}
        for name, values in rows.items():
            prefix = name.rpartition(", ")[0]
            for label, value in zip([prefix] if prefix else chart.series, values, strict=True):
                series.setdefault(label, []).append(value)
        x = list(dict.fromkeys(name.rpartition(", ")[2] for name in rows))
        return charts.lines(chart.title, x, series, unit=chart.unit, axis=chart.axis)
    if chart.top:
        highest = sorted(rows, key=lambda name: -max(value or 0 for value in rows[name]))
        rows = {name: rows[name] for name in highest[: chart.top]}
    names = chart.series or [chart.unit]
    return charts.bars(chart.title, rows, names, unit=chart.unit, target=chart.target, ours=OURS)


def _compact(value: Any) -> Any:
    """Without empty fields, with four significant digits: more than the measurements are worth."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        # `met: false` and empty cells are information, empty fields are not.
        fields = {name: inner for name, inner in value.items() if inner not in (None, "", [], {})}
        return {name: _compact(inner) for name, inner in fields.items()}
    return [_compact(inner) for inner in value] if isinstance(value, list | tuple) else value


def _json(value: Any, line: str = "\n") -> str:
    """A table row or anything else that is short on one line."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= LINE or not isinstance(value, list | Mapping):
        return text
    inner = line + " "
    if isinstance(value, Mapping):
        fields = [f"{json.dumps(name)}: {_json(v, inner)}" for name, v in value.items()]
        return "{" + inner + ("," + inner).join(fields) + line + "}"
    return "[" + inner + ("," + inner).join(_json(v, inner) for v in value) + line + "]"


def _value(cell: Cell) -> float | None:
    if isinstance(cell, list):
        return cell[1]
    return float(cell) if cell not in (None, "") else None


def _tables(result: Result, *, images: bool = False) -> Iterator[str]:
    for one in result.tables:
        if one.title:
            yield f"### {one.title}"
        for chart in one.charts if images else ():
            yield f"![{chart.title}]({IMAGES}{result.benchmark}-{chart.name}.svg)"
        yield markdown(one)
        if one.notes:
            yield one.notes


def _targets(targets: Sequence[Target]) -> str:
    lines = [["", "target", "measured", "", "best peer", "ratio"]]
    for one in targets:
        unit = one.unit if one.unit.startswith(("/", "%")) else f" {one.unit}".rstrip()
        value = "not measured" if one.value is None else number(one.value, one.decimals) + unit
        ratio = "" if one.ratio is None else number(one.ratio)
        lines.append([one.name, one.target or "-", value, one.verdict, one.peer, ratio])
    return table(lines)


def _circumstances(result: Result) -> str:
    minutes = (result.duration_s or 0) / 60
    took = f" in {minutes:.0f} min" if minutes >= 1 else ""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    quick = "**Quick run with few samples.** " if result.quick else ""
    before, after = result.load
    return (
        f"{quick}Measured on {_day(result)}{took}: {result.machine}; load average {before:.1f} "
        f"before, {after:.1f} after. {versions}."
    )


def _day(result: Result) -> str:
    day = datetime.fromisoformat(result.date)
    return f"{day.day} {day:%B %Y}"
