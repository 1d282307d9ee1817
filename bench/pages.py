"""Documents: how well and how fast they are read, beside other tools, in one run on one machine.

    python bench/pages.py [--quick] [--only quality,speed,ocr,memory] [--json FILE]

Tools are measured in turn, round after round, so that noise hits all alike; each has an environment
of its own. Ours is measured through whole jobs: handed in by HTTP, queued, read in child processes,
results written, the end told by the stream. What is compared is told in `documents/score.py`,
`documents/speed.py`, `documents/ocr_speed.py` and `documents/memory.py`.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import page_report
import program
import quality
import report
from arena import noting_failure
from documents import speed
from documents.long_files import mixed_pages, plain_pages
from documents.memory import Peak, measure_memory
from documents.ocr_speed import SCANS, Recognition, measure_ocr
from documents.reading import read_as_jobs
from documents.real import documents
from documents.speed import Speed
from documents.tools import SECRETARY, TOOLS
from program import WORK, say

#: A first look goes without them.
SLOW = ("pymupdf4llm", "markitdown")
PARTS = ("quality", "speed", "ocr", "memory")


@dataclass(frozen=True)
class Plan:
    """`every_tool`: also those that take a minute for the documents."""

    pages: int = 200
    rounds: int = 7
    mixed_rounds: int = 3
    every_tool: bool = True
    scans: tuple[tuple[str, int], ...] = SCANS
    scanned_pages: int = 4
    ocr_rounds: int = 2
    native_pages: tuple[int, ...] = (10, 100, 1_000)
    ocr_pages: tuple[int, ...] = (10, 100)


QUICK = Plan(
    rounds=2,
    mixed_rounds=1,
    every_tool=False,
    scans=SCANS[:2],
    scanned_pages=2,
    ocr_rounds=1,
    native_pages=(10, 100),
    ocr_pages=(4,),
)


@dataclass
class Run:
    scores: list[quality.Row] = field(default_factory=list)
    missing: tuple[str, ...] = ()
    tables: list[str] = field(default_factory=list)
    speed: Speed | None = None
    mixed: Speed | None = None
    ocr: dict[str, Recognition] = field(default_factory=dict)
    memory: list[Peak] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    plan = QUICK if options.quick else Plan()
    run = Run()
    with program.workplace() as place:
        for part in options.only:
            say(part)
            with noting_failure(run.failures, part):
                _measure(part, run, plan, place.root, options.split)
        machine = place.machine()
    print(_text(run, plan, machine, options.split))
    program.keep(options.json, machine, plan, **asdict(run))
    return 1 if run.failures else 0


def _measure(part: str, run: Run, plan: Plan, root: Path, split: Any) -> None:
    match part:
        case "quality":
            made = documents(WORK, split)
            run.missing, samples = made.missing, made.samples
            as_jobs = read_as_jobs([sample.pdf for sample in samples], root)
            run.scores = [quality.scored(SECRETARY.name, as_jobs, samples)]
            for tool in TOOLS:
                if tool != SECRETARY and (plan.every_tool or tool.name not in SLOW):
                    say(f"quality: {tool.name}")
                    run.scores.append(quality.measure(tool, samples))
            run.tables = quality.tables_alone(run.scores, samples)
        case "speed":
            plain, slowest = plain_pages(root, plan.pages), speed.SLOWEST if plan.every_tool else ()
            once = (*speed.SLOW, *slowest)
            run.speed = speed.measure_speed(WORK, root, plain, rounds=plan.rounds, once=once)
            say("speed: mixed pages")
            made = documents(WORK, split)
            mixed = mixed_pages(root, plan.pages, [sample.pdf for sample in made.samples])
            once, rounds = speed.SLOW if plan.every_tool else (), plan.mixed_rounds
            run.mixed = speed.measure_speed(WORK, root, mixed, rounds=rounds, once=once)
        case "ocr":
            pages, rounds = plan.scanned_pages, plan.ocr_rounds
            run.ocr = measure_ocr(WORK, root, pages=pages, rounds=rounds, scans=plan.scans)
        case "memory":
            run.memory = measure_memory(root, plan.native_pages, plan.ocr_pages)


def _text(run: Run, plan: Plan, machine: str, split: str) -> str:
    parts = []
    if run.scores:
        parts += [
            quality.by_tool(run.scores),
            *run.tables,
            page_report.QUALITY_NOTES.format(split=split),
        ]
        if not plan.every_tool:
            parts.append(f"Left out for being slow: {', '.join(SLOW)}")
        parts += quality.lacking(run.scores, run.missing)
    if run.speed and run.mixed:
        parts += [page_report.speed_table(run.speed, run.mixed)]
        parts += [page_report.cached_table(run.speed)]
        notes = {"pages": plan.pages, "rounds": plan.rounds, "mixed": plan.mixed_rounds}
        parts.append(page_report.SPEED_NOTES.format(**notes))
    if run.ocr:
        parts.append(page_report.ocr_table(run.ocr.values()))
        notes = {"pages": plan.scanned_pages, "rounds": plan.ocr_rounds}
        parts.append(page_report.OCR_NOTES.format(**notes))
    if run.memory:
        parts += [page_report.memory_table(run.memory), page_report.MEMORY_NOTES]
    if aims := page_report.aims(run.speed, run.ocr):
        parts.append(report.table(aims))
    if failures := [
        *run.failures,
        *page_report.failures((run.speed, run.mixed), run.ocr, run.memory),
    ]:
        parts.append("Failed:\n" + "\n".join(failures))
    return "\n\n".join([*parts, machine])


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = program.parser("pages.py", __doc__)
    parser.add_argument("--only", type=program.some_of(PARTS), default=PARTS, help=program.ONLY)
    parser.add_argument(
        "--split", choices=quality.CHOICES, default="test", help="of the quality documents"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    program.run(main)
