"""The tools that read documents and recordings, each in its own environment (see `readers/`)."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import BENCH, WORK, Failed

BATCH = BENCH / "readers" / "batch.py"
LIMIT_S = 900
ONE_THREAD = ("OMP_THREAD_LIMIT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True)
class Tool:
    name: str
    #: Module and function in readers/.
    reader: str
    #: Packages of its environment; without any it runs under our own Python.
    requirements: tuple[str, ...] = ()
    #: The Debian package of a tool that is a program.
    package: str = ""


@dataclass
class Readings:
    """What a tool returned, by file name."""

    version: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    wall_s: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


SECRETARY = Tool("secretary", "pdf_tools:secretary")
PDFIUM = Tool("pypdfium2", "pdf_tools:pypdfium2")
#: Version 2.0 is an empty package.
MUPDF = ("pymupdf<2",)
PDF_TOOLS = {
    tool.name: tool
    for tool in (
        SECRETARY,
        PDFIUM,
        Tool("pdftotext", "pdf_tools:pdftotext", (), "poppler-utils"),
        Tool("pymupdf", "pdf_tools:pymupdf", MUPDF),
        Tool("pymupdf4llm", "pdf_tools:pymupdf4llm", (*MUPDF, "pymupdf4llm<2")),
        Tool("pypdf", "pdf_tools:pypdf", ("pypdf",)),
        Tool("markitdown", "pdf_tools:markitdown", ("markitdown[pdf]",)),
        Tool("kreuzberg", "pdf_tools:kreuzberg", ("kreuzberg",)),
        Tool("xberg", "pdf_tools:xberg", ("xberg",)),
        Tool("pdf-inspector", "pdf_tools:pdf_inspector", ("pdf-inspector",)),
        Tool("pdf_oxide", "pdf_tools:pdf_oxide", ("pdf_oxide",)),
    )
}


def read(tool: Tool, files: Sequence[Path]) -> Readings:
    python, remaining = _python(tool), list(files)
    readings = Readings(_version(tool, python))
    with tempfile.TemporaryDirectory(prefix="read-", dir=WORK) as directory:
        while remaining:
            begun = _read_batch(python, tool, remaining, Path(directory), readings)
            if begun is None:
                break
            readings.failures[begun] = "the process ended while reading it"
            remaining = remaining[[file.stem for file in remaining].index(begun) + 1 :]
        for file in files:
            if (text := Path(directory) / f"{file.stem}.md").exists():
                readings.texts[file.stem] = text.read_text(encoding="utf-8", errors="replace")
    return readings


def read_one(tool: Tool, file: Path, *, warm_up: Path) -> Readings:
    """In a process that has read another file before."""
    readings = read(tool, [warm_up, file])
    if error := readings.failures.get(file.stem):
        raise Failed(error)
    return readings


def _python(tool: Tool) -> Path:
    if tool.package and not harness.has_program(tool.name, tool.package):
        raise Failed(f"there is no {tool.name}: apt-get install {tool.package}")
    if not tool.requirements:
        return Path(sys.executable)
    try:
        return harness.environment(f"reader-{tool.name}", tool.requirements)
    except (subprocess.SubprocessError, OSError):
        raise Failed(f"pip cannot install {' '.join(tool.requirements)}") from None


def _version(tool: Tool, python: Path) -> str:
    if tool.package:
        return harness.versions([tool.name])[tool.name]
    code = f"import importlib.metadata as m; print(m.version({tool.name!r}))"
    try:
        return harness.output(tool.name, (python, "-c", code), limit_s=LIMIT_S).strip()
    except Failed:  # one of our engines
        return ""


def _read_batch(
    python: Path, tool: Tool, files: Sequence[Path], output: Path, readings: Readings
) -> str | None:
    """Returns the file at which the process ended early."""
    command = [str(python), str(BATCH), tool.reader, str(output), *map(str, files)]
    # One thread each: tools are compared core by core.
    env = os.environ | dict.fromkeys(ONE_THREAD, "1") | {"HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"{len(files)} files took more than {LIMIT_S} s") from None
    begun = None
    if not done.stdout:
        raise Failed((done.stderr.strip().splitlines() or ["it does not start"])[-1])
    for answer in map(json.loads, done.stdout.splitlines()[1:]):
        if "begun" in answer:
            begun = answer["begun"]
        else:
            begun, name = None, answer["file"]
            readings.cpu_s[name] = answer["cpu_s"]
            if answer["error"]:
                readings.failures[name] = answer["error"]
            else:
                readings.wall_s[name] = answer["wall_s"]
    return begun
