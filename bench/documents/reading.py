"""What the tools give for the documents of the corpus."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import install
from arena import Failed

from secretary.version import __version__

from .service import serving
from .tools import Tool

BATCH = Path(__file__).resolve().parent.parent / "readers" / "batch.py"
LIMIT_S = 900


@dataclass
class Readings:
    version: str = ""
    #: By the names of the files.
    texts: dict[str, str] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    wall_s: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class Missing(Failed):
    """The tool cannot be had here; the message says why."""


def python_of(tool: Tool, work: Path) -> Path:
    if tool.program and not install.has(tool.program, tool.package):
        raise Missing(f"there is no {tool.program}: apt-get install {tool.package}")
    if not tool.requirements:
        return Path(sys.executable)
    try:
        return install.environment(work / f"reader-{tool.name}", tool.requirements)
    except (subprocess.SubprocessError, OSError):
        raise Missing(f"pip cannot install {' '.join(tool.requirements)}") from None


def read(tool: Tool, files: Sequence[Path], work: Path) -> Readings:
    python, readings = python_of(tool, work), Readings()
    left = list(files)
    with tempfile.TemporaryDirectory(prefix="read-", dir=work) as directory:
        while left:
            begun = _batch(python, tool, left, Path(directory), readings)
            if begun is None:
                break
            readings.failures[begun] = "the process ended in the middle of it"
            left = left[[file.stem for file in left].index(begun) + 1 :]
        for file in files:
            if (text := Path(directory) / f"{file.stem}.md").exists():
                readings.texts[file.stem] = text.read_text(encoding="utf-8", errors="replace")
    return readings


def read_as_jobs(files: Sequence[Path], root: Path) -> Readings:
    """What our service gives, by whole jobs."""
    readings = Readings(__version__)
    above = os.path.commonpath([file.parent for file in files])
    with serving(root, Path(above), processes=1) as service:
        for file in files:
            before = service.tree.cpu_seconds()
            try:
                readings.texts[file.stem] = service.read(file).markdown
            except Failed as failure:
                readings.failures[file.stem] = str(failure)
            readings.cpu_s[file.stem] = service.tree.cpu_seconds() - before
    return readings


def _batch(
    python: Path, tool: Tool, files: Sequence[Path], output: Path, readings: Readings
) -> str | None:
    """The name of the file in which the process ended, if it did."""
    command = [str(python), str(BATCH), tool.module, str(output), *map(str, files)]
    # The processes are compared core by core.
    env = os.environ | {"OMP_THREAD_LIMIT": "1", "RAYON_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"{len(files)} files took more than {LIMIT_S} s") from None
    begun = None
    for answer in map(json.loads, done.stdout.splitlines()):
        if "version" in answer:
            readings.version = answer["version"]
        elif "begun" in answer:
            begun = answer["begun"]
        else:
            begun = None
            readings.cpu_s[answer["file"]] = answer["cpu_s"]
            if answer["error"]:
                readings.failures[answer["file"]] = answer["error"]
            else:
                readings.wall_s[answer["file"]] = answer["wall_s"]
    if not readings.version:
        raise Missing((done.stderr.strip().splitlines() or ["it does not start"])[-1])
    return begun
