"""How well tools read documents whose Markdown is known: a table by tool and by kind of document.

    python bench/quality.py [--tool secretary,pdftotext] [--split dev|test|real] [--kind book]
                            [--each] [--show DIR] [--json FILE]

Tune on `dev` only; `test` is for what is published. `real` has pieces of manuals that others wrote
and set (`documents/real.py`): tune on it never. `--show DIR` keeps the Markdown of each
document and what each tool gave for it.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import program
import report
from arena import Failed
from documents.corpus import SPLITS, Sample
from documents.found import found
from documents.reading import Readings, read
from documents.real import documents, unnumbered
from documents.score import MEASURES, Score, average, score
from documents.tools import TOOLS, Tool
from program import WORK

CHOICES = (*SPLITS, "real")


@dataclass
class Row:
    tool: str
    version: str = ""
    cpu_s: float = 0
    scores: dict[str, Score] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    WORK.mkdir(exist_ok=True)
    made = documents(WORK, options.split)
    samples = [sample for sample in made.samples if options.kind in (None, sample.kind)]
    rows = [measure(tool, samples, show=options.show) for tool in _chosen(options.tool)]
    print(text(rows, samples, made.missing, each=options.each))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0


def measure(tool: Tool, samples: Sequence[Sample], *, show: Path | None = None) -> Row:
    try:
        readings = read(tool, [sample.pdf for sample in samples], WORK)
    except Failed as failure:
        return Row(tool.name, failures=[f"not measured, {failure}"])
    if show:
        for sample in samples:
            _keep(show, sample, tool, readings.texts.get(sample.name, ""))
    return scored(tool.name, readings, samples)


def scored(name: str, readings: Readings, samples: Sequence[Sample]) -> Row:
    """A document that a tool could not read counts as one of which it read nothing."""
    row = Row(name, readings.version, sum(readings.cpu_s.values()))
    row.failures = [f"{file}: {error}" for file, error in readings.failures.items()]
    for sample in samples:
        truth = sample.markdown.read_text(encoding="utf-8")
        given = readings.texts.get(sample.name) or ""
        if sample.split == "real":
            truth, given = unnumbered(truth), unnumbered(given)
        row.scores[sample.name] = score(truth, given)
    return row


def text(
    rows: Sequence[Row], samples: Sequence[Sample], missing: Sequence[str], *, each: bool = False
) -> str:
    parts = [
        by_tool(rows),
        *tables_alone(rows, samples),
        *(_by_kind(row, samples) for row in rows if row.scores),
    ]
    if each:
        parts += [_by_document(row, samples) for row in rows if row.scores]
    return "\n\n".join([*parts, *lacking(rows, missing)])


def lacking(rows: Sequence[Row], missing: Sequence[str]) -> list[str]:
    parts = []
    if missing:
        parts.append(f"Producers that are missing here: {', '.join(missing)}")
    if failures := [f"{row.tool}: {failure}" for row in rows for failure in row.failures]:
        parts.append("Failed:\n" + "\n".join(failures))
    return parts


def by_tool(rows: Sequence[Row]) -> str:
    lines = [["", "version", *MEASURES, "CPU s"]]
    for row in rows:
        cells = _cells(list(row.scores.values()))
        spent = report.number(row.cpu_s) if row.scores else "missing"
        lines.append([row.tool, row.version, *cells, spent])
    return report.table(lines)


def tables_alone(rows: Sequence[Row], samples: Sequence[Sample]) -> list[str]:
    """Of real documents: web pages set as lists or code what looks like a table in print, so that
    the figures of documents with tables are given apart from those of documents without."""
    if not samples or samples[0].split != "real":
        return []
    truths = {s.name: found(s.markdown.read_text(encoding="utf-8")) for s in samples}
    lines = [["", "cells, where there are tables", "tables where there are none"]]
    for row in rows:
        with_tables = [mark for name, mark in row.scores.items() if truths[name].tables]
        without = [mark for name, mark in row.scores.items() if not truths[name].tables]
        invented = sum(mark.cells is not None for mark in without)
        lines.append([row.tool, _cells(with_tables)[-1], f"{invented} of {len(without)}"])
    headings = sum(len(truth.headings) for truth in truths.values())
    cells = sum(len(r) for truth in truths.values() for table in truth.tables for r in table)
    tables = sum(len(truth.tables) for truth in truths.values())
    told = f"{len(samples)} pieces of {len({s.kind for s in samples})} manuals: "
    told += f"{headings} headings, {tables} tables of {cells} cells."
    return [report.table(lines), told]


def _by_kind(row: Row, samples: Sequence[Sample]) -> str:
    lines = [[row.tool, *MEASURES, "documents"]]
    for what in ("kind", "producer"):
        for name in dict.fromkeys(getattr(sample, what) for sample in samples):
            these = [s for s in samples if getattr(s, what) == name]
            scores = [row.scores[sample.name] for sample in these]
            lines.append([name, *_cells(scores), str(len(these))])
    return report.table(lines)


def _by_document(row: Row, samples: Sequence[Sample]) -> str:
    lines = [[row.tool, *MEASURES]]
    lines += [[sample.name, *_cells([row.scores[sample.name]])] for sample in samples]
    return report.table(lines)


def _cells(scores: Sequence[Score]) -> list[str]:
    return ["" if value is None else f"{value:.3f}" for value in average(scores).values()]


def _keep(directory: Path, sample: Sample, tool: Tool, given: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{sample.name}.{tool.name}.md").write_text(given, encoding="utf-8")
    shutil.copy(sample.markdown, directory)
    shutil.copy(sample.pdf, directory)


def _chosen(names: str | None) -> list[Tool]:
    if not names:
        return list(TOOLS)
    wanted = names.split(",")
    if unknown := set(wanted) - {tool.name for tool in TOOLS}:
        sys.exit(f"no such tool: {', '.join(sorted(unknown))}")
    return [tool for tool in TOOLS if tool.name in wanted]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="quality.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tool", help="names of tools, with commas between them")
    parser.add_argument("--split", choices=CHOICES, help="one half of the documents, or real")
    parser.add_argument("--kind", help="one kind of documents")
    parser.add_argument("--each", action="store_true", help="a line for each document, too")
    parser.add_argument("--show", type=Path, help="directory for what was given")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    program.run(main)
