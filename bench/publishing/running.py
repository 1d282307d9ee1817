"""Runs the programs of one part, and keeps what they found."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import machine
from .parts import Part, Step
from .result import Load, Result

BENCH = Path(__file__).resolve().parent.parent
#: A program that takes so many times as long as it should is stopped, but not within so long: the
#: first time it installs what it is compared with.
TIMES_AS_LONG, AT_LEAST_S = 4, 2700
END_WITHIN_S = 60
LAST_LINES = 3


@dataclass(frozen=True)
class Outcome:
    """What the program wrote, or the last words of one that wrote nothing."""

    found: Mapping[str, Any] | None
    words: str


def measured(
    part: Part, work: Path, *, quick: bool, before: Result | None, bench: Path = BENCH
) -> Result:
    """Where nothing at all was found, what was kept `before`, marked with what went wrong."""
    started, where = time.monotonic(), machine.this_machine(work)
    found: dict[str, Any] = {}
    load, failures = [], []
    for step in part.steps:
        if quick and step.long:
            continue
        idle = machine.load_now()
        minutes = part.quick_minutes if quick else part.minutes
        limit_s = max(TIMES_AS_LONG * 60 * minutes, AT_LEAST_S)
        outcome = run_step(part, step, work, quick=quick, limit_s=limit_s, bench=bench)
        load.append(Load(step.name, idle, machine.load_now()))
        if outcome.found is None:
            failures.append(f"{step.name or part.name}: {outcome.words}")
        else:
            found[step.name] = outcome.found
    circumstances = Result(
        part=part.name,
        date=datetime.now(UTC).isoformat(timespec="minutes"),
        took_s=time.monotonic() - started,
        command=f'make bench ARGS="--only {part.name}{" --quick" if quick else ""}"',
        machine=where,
        versions={},
        load=tuple(load),
        quick=quick,
        plan={},
    )
    if not found:
        said = f"{circumstances.date}: {'; '.join(failures)}"
        return replace(before or circumstances, failed=said)
    return digested(part, found, circumstances, failures=failures, versions=_versions(part, work))


def digested(
    part: Part,
    found: Mapping[str, Any],
    circumstances: Result,
    *,
    failures: list[str],
    versions: Mapping[str, str],
) -> Result:
    digest = part.digest(found)
    told = {name: number for name, number in digest.versions.items() if number}
    return replace(
        circumstances,
        versions={**versions, **told},
        plan=digest.plan,
        tables=digest.tables,
        charts=digest.charts,
        aims=digest.aims,
        failures=(*failures, *digest.failures),
    )


def _versions(part: Part, work: Path) -> dict[str, str]:
    return (
        machine.our_versions()
        | machine.program_versions(part.programs)
        | machine.environment_versions(work, part.environments)
    )


def run_step(
    part: Part, step: Step, work: Path, *, quick: bool, limit_s: float, bench: Path = BENCH
) -> Outcome:
    """Its tables go to a file beside all its samples, its progress to our own error output."""
    name = "-".join(filter(None, (part.name, step.name)))
    directory = work / "samples"
    directory.mkdir(parents=True, exist_ok=True)
    samples, tables = directory / f"{name}.json", directory / f"{name}.txt"
    samples.unlink(missing_ok=True)
    command = [sys.executable, str(bench / step.program), *step.arguments, "--json", str(samples)]
    command += ["--quick"] if quick else []
    with tables.open("w") as output:
        words = _run(command, output.fileno(), _environment(bench), limit_s)
    if not samples.exists():
        return Outcome(None, words)
    return Outcome(json.loads(samples.read_text()), words)


def _environment(bench: Path) -> dict[str, str]:
    """Some programs take parts of the tests, which lie beside `bench`."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(bench.parent), *(str(Path(entry).resolve()) for entry in given if entry)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


def _run(command: list[str], output: int, env: Mapping[str, str], limit_s: float) -> str:
    """The last lines that it said; a program that fails says why."""
    said: list[str] = []
    with (
        subprocess.Popen(
            command, stdout=output, stderr=subprocess.PIPE, env=env, text=True, errors="replace"
        ) as process,
        _within(process, limit_s) as over,
    ):
        assert process.stderr is not None
        for line in process.stderr:
            print(f"    {line.rstrip()}", file=sys.stderr, flush=True)
            said = [*said, line.strip()][-LAST_LINES:]
        code = process.wait()
    if over.is_set():
        return f"it took more than {limit_s / 60:.0f} min and was stopped"
    return " ".join(said) if said else f"it ended with {code}"


@contextmanager
def _within(process: "subprocess.Popen[str]", limit_s: float) -> Iterator[threading.Event]:
    """Asks it to end when its time is over, and ends it where it does not; tells that it did."""
    over = threading.Event()

    def end() -> None:
        over.set()
        process.terminate()
        try:
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()

    timer = threading.Timer(limit_s, end)
    timer.start()
    try:
        yield over
    finally:
        timer.cancel()
        if process.poll() is None:
            end()
