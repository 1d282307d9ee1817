"""What a service holds at a moment: memory, files, threads, directories, sizes."""

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo

from secretary.core import processes

MEBIBYTE = 1024 * 1024

#: How processes are told apart, by what stands in their command line; the first that fits.
ROLES = {
    "guard": b"processes.py",
    "service": b"hasty.py",
    "sandbox": b"\0-c\0",
}


@dataclass(frozen=True)
class Sample:
    #: Seconds since the start.
    at: float
    values: dict[str, float]


def look(leader: int, data: Path, scratch: Path, mongodb: str | None = None) -> dict[str, float]:
    """Of a process and all below it, and of what they have on disk, or in this MongoDB."""
    found = {**_of_processes(leader), **_of_files(data, scratch)}
    return {**found, "size: database": _megabytes_in(mongodb)} if mongodb else found


def _of_processes(leader: int) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for process in processes.tree(leader):
        role = _role(process.pid)
        found[f"memory: {role}"] += _proportional_bytes(process.pid) / MEBIBYTE
        found[f"open files: {role}"] += _entries(f"/proc/{process.pid}/fd")
        found[f"threads: {role}"] += _entries(f"/proc/{process.pid}/task")
        found[f"processes: {role}"] += 1
    return dict(found)


def _role(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "other"
    return next((role for role, mark in ROLES.items() if mark in command), "other")


def _proportional_bytes(pid: int) -> int:
    """What several processes share is counted in parts (PSS)."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _entries(directory: str) -> int:
    try:
        return len(os.listdir(directory))
    except OSError:
        return 0


def _of_files(data: Path, scratch: Path) -> dict[str, float]:
    """`scratch` is where the service's programs keep temporary files."""
    jobs, uploads, cache = (list(_files(data / name)) for name in ("jobs", "uploads", "cache"))
    temporary = list(_files(scratch))
    database = [path for path in data.glob("secretary.db*") if path.is_file()]
    return {
        "directories: of jobs": float(_entries(str(data / "jobs"))),
        "directories: scratch": float(_scratch(data / "jobs")),
        "directories: uploads": float(_entries(str(data / "uploads"))),
        "directories: temporary": float(_entries(str(scratch))),
        "size: of jobs": _megabytes(jobs),
        "size: uploads": _megabytes(uploads),
        "size: cache": _megabytes(cache),
        "size: temporary": _megabytes(temporary),
        "size: database": _megabytes(database),
    }


def _megabytes_in(mongodb: str) -> float:
    """Documents, files and indexes; those of the server that it keeps free are not counted."""
    with pymongo.MongoClient[dict[str, Any]](mongodb) as client:
        told = client.get_default_database().command("dbStats")
    return float(told["dataSize"] + told["indexSize"]) / MEBIBYTE


def _scratch(jobs: Path) -> int:
    found = 0
    for _, directories, _ in os.walk(jobs):
        scratch = [name for name in directories if name.endswith(".scratch")]
        directories[:] = [name for name in directories if name not in scratch]
        found += len(scratch)
    return found


def _files(directory: Path) -> Iterator[Path]:
    for place, _, names in os.walk(directory):
        yield from (Path(place, name) for name in names)


def _megabytes(files: list[Path]) -> float:
    total = 0
    for file in files:
        try:
            total += file.lstat().st_size
        except OSError:  # removed meanwhile
            continue
    return total / MEBIBYTE
