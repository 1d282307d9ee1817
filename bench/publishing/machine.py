"""Where a part ran: the machine, and the versions of what took part."""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import distributions
from pathlib import Path

import apsw
import report
from adapter import PEERS

from secretary.version import __version__

from .result import Load, Machine

GIGABYTE = 1e9
LIMIT_S = 20
#: The line that tells where a run took place, as all parts write it.
TOLD = re.compile(
    r"(?P<cpu>.+), (?P<cores>\d+) cores, (?P<system>[^,]+), Python (?P<python>[\d.]+\S*);"
    r" 4 kB written and synced in (?P<sync_ms>[\d.]+) ms"
    r"(?:; load average before (?P<before>[\d.]+), after (?P<after>[\d.]+))?"
)
#: How programs are asked for their version; the first number with dots is taken.
PROGRAMS = {
    "mongod": "--version",
    "redis-server": "--version",
    "tesseract": "--version",
    "wrk": "-v",
    "chromium": "--version",
}


def this_machine(directory: Path) -> Machine:
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        sync_ms = report.fsync_ms(Path(scratch))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cpu=report.cpu_model(),
        cores=os.cpu_count() or 1,
        system=f"Linux {platform.release()}",
        memory_gb=memory / GIGABYTE,
        sync_ms=sync_ms,
    )


def told_machine(line: str) -> Machine:
    """As a run told it that was taken before."""
    found = _told(line)
    return Machine(
        found["cpu"], int(found["cores"]), found["system"], sync_ms=float(found["sync_ms"])
    )


def told_load(line: str, step: str) -> Load | None:
    found = _told(line)
    if found["before"] is None:
        return None
    return Load(step, float(found["before"]), float(found["after"]))


def told_versions(line: str) -> dict[str, str]:
    return {"Python": _told(line)["python"]}


def _told(line: str) -> re.Match[str]:
    if found := TOLD.match(line):
        return found
    raise ValueError(f"this tells of no machine: {line}")


def load_now() -> float:
    return os.getloadavg()[0]


def our_versions() -> dict[str, str]:
    """Of this project, of Python and of what it is built on."""
    return {
        "Secretary": _ours(),
        "Python": platform.python_version(),
        "SQLite": apsw.sqlite_lib_version(),
    }


def program_versions(programs: Sequence[str]) -> dict[str, str]:
    return {name: found for name in programs if (found := _asked(name))}


def environment_versions(work: Path, environments: Sequence[str]) -> dict[str, str]:
    """What the bench installed for the peers, by the names of its requirements."""
    return {
        name: found
        for pattern in environments
        for directory in sorted(work.glob(pattern))
        for name, found in _installed(directory)
    }


def _installed(directory: Path) -> Iterator[tuple[str, str]]:
    listed = directory / "requirements.installed"
    wanted = listed.read_text().split() if listed.exists() else []
    names = {re.split(r"[\[<>=]", one)[0] for one in wanted}
    for packages in directory.glob("lib/python*/site-packages"):
        for found in distributions(path=[str(packages)]):
            if found.name in names or found.name.replace("-", "_") in names:
                yield found.name, found.version


def _ours() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=PEERS)
    except OSError:
        return __version__
    return f"{__version__} ({done.stdout.strip()})" if done.returncode == 0 else __version__


def _asked(program: str) -> str | None:
    path = _mongod() if program == "mongod" else shutil.which(program)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, PROGRAMS[program]], capture_output=True, text=True, timeout=LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else None


def _mongod() -> str | None:
    """The one that the rows run, found as they find it."""
    command = [sys.executable, "-c", "import mongo_service; print(mongo_service.mongod())"]
    done = subprocess.run(command, cwd=PEERS, capture_output=True, text=True, timeout=LIMIT_S)
    return done.stdout.strip() if done.returncode == 0 else None
