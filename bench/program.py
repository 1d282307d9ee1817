"""What all programs that measure have around their measurements: options, a directory, a line of
progress, the file for all samples."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import report

#: What is made and kept between runs: environments of peers, documents, samples.
WORK = Path(__file__).resolve().parent.parent / ".bench"
ONLY = "some parts, with commas between"


def parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """With the options of all; `doc`: the program's own, of which the first line is shown."""
    made = argparse.ArgumentParser(prog=name, description=(doc or "").split("\n")[0])
    made.add_argument("--quick", action="store_true", help="few samples, for a first look")
    made.add_argument("--json", type=Path, help="file for all samples")
    return made


def some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """The type of an option: some of these names, with commas between."""

    def chosen(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
        return names

    return chosen


class Workplace:
    """A directory for one run, empty at first, and the machine as the run finds it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._machine, self._load = report.machine(root), _load()
        say(f"{self._machine}; load average {self._load:.1f}")

    def machine(self) -> str:
        """As it is told when the run is over."""
        return f"{self._machine}; load average before {self._load:.1f}, after {_load():.1f}"


@contextmanager
def workplace() -> Iterator[Workplace]:
    # So that what the run has started is ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=WORK, ignore_cleanup_errors=True) as root:
        yield Workplace(Path(root))


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def keep(file: Path | None, machine: str, plan: Any, **figures: Any) -> None:
    """Every sample, in the form that `digests/` reads."""
    if file:
        found = {"machine": machine, "plan": asdict(plan), **figures}
        file.write_text(json.dumps(found, indent=1) + "\n")


def run(main: Callable[[Sequence[str]], int]) -> NoReturn:
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("interrupted")


def _load() -> float:
    return os.getloadavg()[0]
