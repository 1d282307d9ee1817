"""Takes what the programs wrote with `--json` at another time for the result of a part."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import machine
from .parts import PARTS, Part
from .result import Result
from .running import digested


def taken(given: Sequence[str], *, quick: bool) -> Iterator[Result]:
    files: dict[str, dict[str, Path]] = {}
    for one in given:
        place, _, file = one.partition("=")
        name, _, step = place.partition(":")
        files.setdefault(name, {})[step] = Path(file)
    for part in PARTS:
        if part.name in files:
            yield _taken(part, files.pop(part.name), quick=quick)
    if files:
        raise SystemExit(f"no such part: {', '.join(files)}")


def _taken(part: Part, files: dict[str, Path], *, quick: bool) -> Result:
    found: dict[str, Any] = {step: json.loads(file.read_text()) for step, file in files.items()}
    lines = {step: run["machine"] for step, run in found.items()}
    last = max(file.stat().st_mtime for file in files.values())
    circumstances = Result(
        part=part.name,
        date=datetime.fromtimestamp(last, UTC).isoformat(timespec="minutes"),
        took_s=None,
        command=f'make bench ARGS="--only {part.name}{" --quick" if quick else ""}"',
        machine=machine.told_machine(next(iter(lines.values()))),
        versions={},
        load=tuple(load for step, line in lines.items() if (load := machine.told_load(line, step))),
        quick=quick,
        plan={},
    )
    wanted = [step.name for step in part.steps if not (quick and step.long)]
    failures = [f"{step}: not measured" for step in wanted if step not in found]
    versions = machine.told_versions(next(iter(lines.values())))
    return digested(part, found, circumstances, failures=failures, versions=versions)
