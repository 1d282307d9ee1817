"""All campaigns, one after another: `make fuzz ARGS="--seed 7 --seconds 600 --kinds media,office"`.

Findings are printed and stored; the exit code is then 1."""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from . import api, documents, jobs, properties
from .cases import KINDS, Case, cases
from .findings import DIRECTORY, Report

EVERY = ("api", "documents", *KINDS, "models")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--seconds", type=float, default=120, help="for each kind (120)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed does the same (1)")
    parser.add_argument("--kinds", default=",".join(EVERY), help=f"some of {','.join(EVERY)}")
    parser.add_argument("--case", help="one that was found: kind/name/seed")
    parser.add_argument(
        "--finds", type=Path, default=DIRECTORY, help=f"where they are kept ({DIRECTORY})"
    )
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    if unknown := sorted(set(kinds) - set(EVERY)):
        parser.error(f"--kinds: {', '.join(unknown)} is none of {', '.join(EVERY)}")
    if arguments.case:
        return _exit_code(asyncio.run(jobs.survey([Case.named(arguments.case)])), arguments.finds)
    return max(_fuzz(kind, arguments) for kind in kinds)


def _fuzz(kind: str, arguments: argparse.Namespace) -> int:
    print(f"=== {kind}, seed {arguments.seed}", flush=True)
    seconds, seed = arguments.seconds, arguments.seed
    match kind:
        case "api":
            return api.fuzz_for(seconds, seed)
        case "models":
            return properties.fuzz_for(seconds, seed)
        case "documents":
            every = _until(seconds, cases(seed, *documents.KINDS))
            batches = iter(lambda: list(islice(every, 20)), [])
            return _exit_code(asyncio.run(documents.survey(batches)), arguments.finds)
        case _:
            every = _until(seconds, cases(seed, kind))
            return _exit_code(asyncio.run(jobs.survey(every)), arguments.finds)


def _until(seconds: float, every: Iterator[Case]) -> Iterator[Case]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield next(every)


def _exit_code(report: Report, directory: Path) -> int:
    report.keep(directory)
    return int(bool(report.defects))


if __name__ == "__main__":
    sys.exit(main())
