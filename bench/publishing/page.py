"""The page of all benchmarks, and its charts, from what is kept of their last runs."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import charts
import report

from . import remarks as handwritten
from .remarks import Remarks
from .result import Aim, Cell, Chart, Result, Table, read

PAGE, PICTURES = "benchmarks.md", "img"
#: The names of all charts on the page begin with it.
PREFIX = "bench"
OURS = "secretary"
HEAD = """\
# Benchmarks

How fast this project is beside others that do the same, each part measured in one run on one
machine. `make bench` measures and writes this page; only the remarks are written by hand. Compare
rows of one run, not runs: machines differ, and so do their evenings. Each part tells when and where
it ran and how busy the machine was.

Ratios say how many times as good ours is as the best of the others in the same run: above 1 we are
ahead, below 1 behind, also where less is better. "~" stands before a median when the highest of its
rounds was more than 1.5 times the lowest. How the benchmarks work, and how a part is measured by
itself, is told in `bench/README.md`.
"""


def files(results: Path, remarks: Path, parts: Sequence[str]) -> dict[str, str]:
    """The page and its pictures, by their paths in the directory of the documentation."""
    found = {part: read(results, part) for part in parts}
    told = {part: handwritten.read(remarks, part) for part in parts}
    pages = {PAGE: page(found, told)}
    for part, result in found.items():
        for chart in result.charts if result else ():
            pages[_picture(part, chart)] = drawing(chart)
    return pages


def write(pages: Mapping[str, str], docs: Path) -> list[Path]:
    """Those that changed. Pictures that no longer belong to the page go."""
    for old in pictures(docs) - set(pages):
        (docs / old).unlink()
    changed = []
    for name, text in pages.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def pictures(docs: Path) -> set[str]:
    return {str(path.relative_to(docs)) for path in (docs / PICTURES).glob(f"{PREFIX}-*.svg")}


def page(found: Mapping[str, Result | None], told: Mapping[str, Remarks]) -> str:
    parts = [HEAD, "## At a glance\n", _glance(found, told)]
    parts += ["### Every aim\n", *_aims(found, told)]
    for part, result in found.items():
        parts.append(_section(part, told[part], result))
    return "\n".join(parts).rstrip() + "\n"


def _glance(found: Mapping[str, Result | None], told: Mapping[str, Remarks]) -> str:
    lines = [["", "measured", "aims reached", "where we are behind"]]
    for part, result in found.items():
        name = f"[{told[part].title}](#{_anchor(told[part].title)})"
        if result is None or not result.tables:
            lines.append([name, "not yet", "", ""])
            continue
        aims = [aim for aim in result.aims if aim.reached is not None]
        reached = f"{sum(aim.reached is True for aim in aims)} of {len(aims)}" if aims else ""
        behind = "; ".join(aim.what for aim in result.aims if _is_behind(aim))
        lines.append([name, _day(result) + _doubts(result), reached, behind or "nowhere"])
    return _markdown(lines, left=4)


def _doubts(result: Result) -> str:
    doubts = [
        "a quick look" if result.quick else "",
        "parts of it failed" if result.failures else "",
        "a later run failed" if result.failed else "",
    ]
    said = ", ".join(doubt for doubt in doubts if doubt)
    return f" ({said})" if said else ""


def _is_behind(aim: Aim) -> bool:
    if aim.reached is None:
        return aim.ratio is not None and aim.ratio < 1
    return not aim.reached


def _aims(found: Mapping[str, Result | None], told: Mapping[str, Remarks]) -> Iterator[str]:
    for part, result in found.items():
        if result is None or not result.aims:
            continue
        lines = [[f"{told[part].title}:", "wanted", "found", "", "best of the others", "ratio"]]
        for aim in result.aims:
            ratio = "" if aim.ratio is None else report.number(aim.ratio)
            wanted = aim.wanted or "no aim"
            lines.append([aim.what, wanted, _found(aim), _verdict(aim), aim.beside, ratio])
        yield _markdown(lines, left=1)


def _found(aim: Aim) -> str:
    if aim.found is None:
        return "not measured"
    number = report.number(aim.found) if aim.decimals is None else f"{aim.found:.{aim.decimals}f}"
    if aim.unit.startswith(("/", "%")):
        return f"{number}{aim.unit}"
    return f"{number} {aim.unit}".rstrip()


def _verdict(aim: Aim) -> str:
    if aim.reached is None:
        return "**behind**" if _is_behind(aim) else "ahead"
    return "reached" if aim.reached else "**missed**"


def _section(part: str, told: Remarks, result: Result | None) -> str:
    blocks = [f"## {told.title}", told.measured]
    if result is None or not result.tables:
        blocks.append(f"**Not measured by `make bench` yet.** To do it: {_command(part)}.")
        if result and result.failed:
            blocks.append(f"The last attempt failed: {result.failed}")
    else:
        blocks += _measured(result)
    return "\n\n".join([*blocks, *([told.chapters] if told.chapters else [])]) + "\n"


def _measured(result: Result) -> Iterator[str]:
    yield _circumstances(result)
    if result.failed:
        yield f"**A later run failed, so these figures are of the run before:** {result.failed}"
    for chart in result.charts:
        yield f"![{chart.title}]({_picture(result.part, chart)})"
    for table in result.tables:
        if table.title:
            yield f"### {table.title}"
        yield _figures(table)
        if table.notes:
            yield table.notes
    if result.failures:
        yield "**What could not be measured:**"
        yield "\n".join(f"- {failure}" for failure in result.failures)


def _circumstances(result: Result) -> str:
    machine = result.machine
    where = [f"{machine.cores} cores ({machine.cpu})", machine.system]
    if machine.memory_gb is not None:
        where.append(f"{machine.memory_gb:.0f} GB of memory")
    if machine.sync_ms is not None:
        where.append(f"4 kB written and synced in {report.number(machine.sync_ms)} ms")
    loads = [
        f"{f'{load.step}: ' if load.step else ''}{load.before:.1f} before, {load.after:.1f} after"
        for load in result.load
    ]
    took = f" in {result.took_s / 60:.0f} min" if result.took_s and result.took_s >= 60 else ""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    quick = "**A quick look, with few samples: not to be quoted.** " if result.quick else ""
    lines = [
        f"{quick}Measured on {_day(result)}{took}; {', '.join(where)}.",
        f"Load average: {'; '.join(loads)}." if loads else "",
        f"Versions: {versions}." if versions else "",
        f"To repeat it: {_command(result.part)}.",
    ]
    return "\n".join(line for line in lines if line)


def _command(part: str) -> str:
    return f'`make bench ARGS="--only {part}"`'


def _day(result: Result) -> str:
    day = datetime.fromisoformat(result.date)
    return f"{day.day} {day:%B %Y}"


def _anchor(title: str) -> str:
    """As readers of Markdown make it of a heading."""
    return "-".join("".join(c for c in title.lower() if c.isalnum() or c == " ").split())


def _figures(table: Table) -> str:
    lines = [list(table.head), *([_shown(cell) for cell in row] for row in table.rows)]
    return report.table(lines)


def _shown(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        return report.median(cell)
    if isinstance(cell, int):
        return f"{cell:,}"
    return report.number(cell)


def _markdown(lines: Sequence[Sequence[str]], *, left: int) -> str:
    """A table for the page alone: its first columns are words, the others figures."""
    rule = [":--" if number < left else "--:" for number in range(len(lines[0]))]
    rows = [lines[0], rule, *lines[1:]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows) + "\n"


def _picture(part: str, chart: Chart) -> str:
    return f"{PICTURES}/{PREFIX}-{part}-{chart.name}.svg"


def drawing(chart: Chart) -> str:
    if chart.kind == "lines":
        return charts.lines(chart.title, chart.names, chart.rows, unit=chart.unit, axis=chart.axis)
    return charts.bars(
        chart.title, chart.rows, chart.names, unit=chart.unit, aim=chart.aim, ours=OURS
    )
