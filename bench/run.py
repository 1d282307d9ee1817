"""Run all benchmarks, one after the other, and write docs/benchmarks.md.

    python bench/run.py [--only engine,scale] [--quick]
    python bench/run.py --page [--check]

Each benchmark is a program of its own, and one that fails does not stop the others. Results go to
bench/results/; those of a quick run go to .bench/quick/, together with their page.
"""

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import report
from harness import BENCH, WORK, log, some_of

#: Each has its program, its result in results/ and its remarks in remarks/.
BENCHMARKS = ("engine", "api", "documents", "media", "knowledge", "dashboard", "scale")


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="run.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", type=some_of(BENCHMARKS), default=list(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="few samples, for a first look")
    parser.add_argument("--page", action="store_true", help="measure nothing, only write the page")
    parser.add_argument("--check", action="store_true", help="with --page: only compare the page")
    options = parser.parse_args(arguments)
    results, docs, names = BENCH / "results", BENCH.parent / "docs", list(BENCHMARKS)
    if options.quick:
        results, docs = WORK / "quick" / "results", WORK / "quick" / "docs"
    measured = () if options.page else options.only
    failed = [name for name in measured if not _run(name, results, quick=options.quick)]
    if options.quick:
        names = [name for name in names if (results / f"{name}.json").exists()]
    files = report.page(results, BENCH / "remarks", names)
    images = {str(path.relative_to(docs)) for path in docs.glob(f"{report.IMAGES}*.svg")}
    if options.check:
        kept = {name: docs / name for name in files if (docs / name).exists()}
        stale = [n for n, text in files.items() if n not in kept or kept[n].read_text() != text]
        if stale := [*stale, *sorted(images - set(files))]:
            log(f"Out of date: {', '.join(stale)}. Run `make bench-page`.")
        return 1 if stale else 0
    for name in images - set(files):
        (docs / name).unlink()
    for name, text in files.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text, encoding="utf-8")
    log(f"written: {docs / report.PAGE}")
    if failed:
        log(f"failed, in whole or in part: {', '.join(failed)}")
    return 1 if failed else 0


def _run(name: str, results: Path, *, quick: bool) -> bool:
    """Whether everything was measured. A run that fails as a whole leaves the earlier result."""
    log(name)
    program, target = str(BENCH / f"{name}.py"), str(results / f"{name}.json")
    command = [sys.executable, program, "--json", target, *(["--quick"] if quick else [])]
    return subprocess.run(command).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
