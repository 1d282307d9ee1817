"""How well tools convert documents whose Markdown is known, by kind of document.

    python bench/quality.py [--tool secretary,pdftotext] [--split dev|test|real] [--kind book]
                            [--each] [--show DIR]

Tune on `dev` only; `test` is published. `real` has excerpts of manuals by others
(`corpus/manuals.py`): never tune on it. `--show DIR` keeps the expected and the actual Markdown.
"""

import os
import shutil
import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import report
from corpus.corpus import SPLITS, Sample
from corpus.manuals import documents, without_numbers
from corpus.score import MEASURES, Score, average, parsed, score
from harness import WORK, Failed, some_of
from report import Cell, Chart, Table
from service import serving
from tools import PDF_TOOLS, SECRETARY, Readings, Tool, read

from secretary.version import __version__

CHOICES = (*SPLITS, "real")
#: What the charts show.
CHARTED = ("order", "headings", "cells")


@dataclass
class Row:
    tool: str
    version: str = ""
    cpu_s: float = 0
    scores: dict[str, Score] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def main(arguments: Sequence[str]) -> None:
    parser = ArgumentParser(prog="quality.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tool", type=some_of(PDF_TOOLS), default=list(PDF_TOOLS))
    parser.add_argument("--split", choices=CHOICES)
    parser.add_argument("--kind", help="one kind of documents")
    parser.add_argument("--each", action="store_true", help="one line per document, too")
    parser.add_argument("--show", type=Path, help="directory for the Markdown")
    options = parser.parse_args(arguments)
    WORK.mkdir(exist_ok=True)
    corpus = documents(WORK, options.split)
    samples = [sample for sample in corpus.samples if options.kind in (None, sample.kind)]
    rows = [measure(PDF_TOOLS[name], samples, show=options.show) for name in options.tool]
    print(report.markdown(table(rows, samples, "")))
    groups: dict[str, list[Sample]] = defaultdict(list)
    for field_name in ("kind", "producer", *(["name"] if options.each else [])):
        for sample in samples:
            groups[getattr(sample, field_name)].append(sample)
    for row in rows:
        lines = [
            [name, *_cells([row.scores[s.name] for s in these]), str(len(these))]
            for name, these in groups.items()
            if row.scores
        ]
        print("\n" + report.table([[row.tool, *MEASURES, "documents"], *lines]))
    problems = [f"{row.tool}: {failure}" for row in rows for failure in row.failures]
    print("\n".join(["", *(f"not installed: {name}" for name in corpus.missing), *problems]))


def measure(tool: Tool, samples: Sequence[Sample], *, show: Path | None = None) -> Row:
    try:
        readings = read(tool, [sample.pdf for sample in samples])
    except Failed as failure:
        return Row(tool.name, failures=[f"not measured: {failure}"])
    if show:
        show.mkdir(parents=True, exist_ok=True)
        for sample in samples:
            given = readings.texts.get(sample.name, "")
            (show / f"{sample.name}.{tool.name}.md").write_text(given, encoding="utf-8")
            shutil.copy(sample.markdown, show)
            shutil.copy(sample.pdf, show)
    return _scored(tool.name, readings, samples)


def measure_jobs(samples: Sequence[Sample], root: Path) -> Row:
    """Secretary through whole jobs."""
    readings, files = Readings(__version__), [sample.pdf for sample in samples]
    above = Path(os.path.commonpath([file.parent for file in files]))
    with serving(root, above, processes=1) as service:
        for file in files:
            before = service.tree.cpu_seconds()
            try:
                results = service.read(file).job["results"]
                readings.texts[file.stem] = str(results.get("markdown_content") or "")
            except Failed as failure:
                readings.failures[file.stem] = str(failure)
            readings.cpu_s[file.stem] = service.tree.cpu_seconds() - before
    return _scored(SECRETARY.name, readings, samples)


def table(rows: Sequence[Row], samples: Sequence[Sample], title: str) -> Table:
    """Of real documents also the cells of those with tables, and how many of the others got one:
    what a web page sets as a list or as code may look like a table in print."""
    real = bool(samples) and samples[0].split == "real"
    with_tables = {s.name for s in samples if real and parsed(_text(s)).tables}
    head = ["", "version", *MEASURES, "CPU s"]
    head += ["cells, files with tables", "false tables"] if real else []
    lines: list[list[Cell]] = []
    for row in rows:
        cpu: Cell = row.cpu_s if row.scores else None
        line: list[Cell] = [row.tool, row.version, *_cells(list(row.scores.values())), cpu]
        if real:
            others = [mark for name, mark in row.scores.items() if name not in with_tables]
            marks = [mark for name, mark in row.scores.items() if name in with_tables]
            invented = sum(mark.cells is not None for mark in others)
            line += [_cells(marks)[-1], f"{invented} of {len(others)}"]
        lines.append(line)
    columns = [2 + MEASURES.index(name) for name in CHARTED]
    name = "quality-real" if real else "quality"
    chart = Chart(name, title, "F1; order: share in order", columns, list(CHARTED))
    return Table(head, lines, title, charts=[chart])


def _scored(name: str, readings: Readings, samples: Sequence[Sample]) -> Row:
    """A document that a tool could not read counts as empty."""
    row = Row(name, readings.version, sum(readings.cpu_s.values()))
    row.failures = [f"{file}: {error}" for file, error in readings.failures.items()]
    for sample in samples:
        expected, given = _text(sample), readings.texts.get(sample.name) or ""
        if sample.split == "real":
            expected, given = without_numbers(expected), without_numbers(given)
        row.scores[sample.name] = score(expected, given)
    return row


def _text(sample: Sample) -> str:
    return sample.markdown.read_text(encoding="utf-8")


def _cells(scores: Sequence[Score]) -> list[str]:
    return ["" if value is None else f"{value:.3f}" for value in average(scores).values()]


if __name__ == "__main__":
    main(sys.argv[1:])
