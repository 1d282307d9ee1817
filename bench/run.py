"""All benchmarks one after the other, and the page that shows what they found.

    python bench/run.py [--only engine,scale] [--quick] [--resume]
    python bench/run.py --page
    python bench/run.py --take PART[:STEP]=FILE

Each part runs in processes of its own; what is kept of it goes to `bench/results/`, and from there
to `docs/benchmarks.md`. A part that fails does not stop the others. With `--quick` both go to
`.bench/quick/`: few samples are for a first look, not for others to read.
"""

import argparse
import math
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import program
from program import WORK, say
from publishing import page, result, taking
from publishing.parts import NAMES, PARTS, Part
from publishing.result import Result
from publishing.running import measured

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
REMARKS = BENCH / "remarks"
#: So old a result may be to be left alone by `--resume`.
FRESH_S = 24 * 60 * 60


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    docs, results = options.docs or ROOT / "docs", options.results or BENCH / "results"
    if options.quick and not options.docs:
        docs, results = WORK / "quick" / "docs", WORK / "quick" / "results"
    WORK.mkdir(exist_ok=True)
    failed: list[str] = []
    if options.take:
        for found in taking.taken(options.take, quick=options.quick):
            result.write(found, results)
    elif not options.page:
        chosen = [part for part in PARTS if part.name in options.only]
        if options.resume:
            chosen = [part for part in chosen if not _is_fresh(part, results, options.quick)]
        failed = measure_all(chosen, results, WORK, quick=options.quick)
    pages = page.files(results, REMARKS, NAMES)
    if options.check:
        return _compared(pages, docs)
    page.write(pages, docs)
    say(f"written: {docs / page.PAGE}")
    for name in failed:
        say(f"failed, in whole or in part: {name}")
    return 1 if failed else 0


def measure_all(parts: Sequence[Part], results: Path, work: Path, *, quick: bool) -> list[str]:
    """The names of those that could not be measured, or not all of them."""
    failed = []
    for number, part in enumerate(parts):
        left = sum(_minutes(one, results, quick=quick) for one in parts[number:])
        say(f"{number + 1} of {len(parts)}: {part.name}; about {math.ceil(left)} min left")
        before = result.read(results, part.name)
        try:
            found = measured(part, work, quick=quick, before=before)
        except Exception:  # the others have hours of measuring before or behind them
            traceback.print_exc()
            failed.append(part.name)
            continue
        path = result.write(found, results)
        if found.failed or found.failures:
            failed.append(part.name)
        say(f"{part.name}: {found.failed or _counted(found)}; kept in {path}")
    return failed


def _counted(found: Result) -> str:
    aims = [aim for aim in found.aims if aim.reached is not None]
    return f"{sum(aim.reached is True for aim in aims)} of {len(aims)} aims reached"


def _minutes(part: Part, results: Path, *, quick: bool) -> float:
    """As long as it took the last time, else what it takes elsewhere."""
    before = result.read(results, part.name)
    if before and before.took_s and before.quick == quick:
        return before.took_s / 60
    return part.quick_minutes if quick else part.minutes


def _is_fresh(part: Part, results: Path, quick: bool) -> bool:
    found = result.read(results, part.name)
    if found is None or found.failed or found.failures or found.quick != quick:
        return False
    fresh = time.time() - result.ended(found) < FRESH_S
    if fresh:
        say(f"{part.name} was measured on {found.date}: left alone")
    return fresh


def _compared(pages: dict[str, str], docs: Path) -> int:
    stale = [
        name
        for name, text in pages.items()
        if not (docs / name).exists() or (docs / name).read_text(encoding="utf-8") != text
    ]
    stale += sorted(page.pictures(docs) - set(pages))
    if stale:
        say(f"Out of date: {', '.join(stale)}. Run `make bench-page`.")
    return 1 if stale else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", type=program.some_of(NAMES), default=NAMES, help=program.ONLY)
    parser.add_argument("--quick", action="store_true", help="few samples, for a first look")
    parser.add_argument("--resume", action="store_true", help="but for parts of the last 24 hours")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--check", action="store_true", help="with --page: only say if it differs")
    parser.add_argument(
        "--take",
        action="append",
        metavar="PART[:STEP]=FILE",
        help="what a program wrote with --json instead of a run",
    )
    parser.add_argument("--results", type=Path, help="another directory for what is kept")
    parser.add_argument("--docs", type=Path, help="another directory for the page")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("interrupted; what was measured is kept, `--resume` goes on from there")
