"""Finished work, found again by what the file holds and by the options that matter."""

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

#: What an entry is made with, and what is known of its document.
NOTE = "entry.json"
#: Entries used since then may belong to a job that runs.
IN_USE = timedelta(hours=1)
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """`cache/<kind>/<sha256>/<method>/`, with a mark behind the method where options differ."""

    directory: Path
    #: Relative to the data directory.
    name: str
    version: str
    #: What was noted about the document; None when nothing was yet.
    facts: Mapping[str, Any] | None

    def note(self, facts: Mapping[str, Any]) -> None:
        write_whole(self.directory / NOTE, json.dumps({"version": self.version, "facts": facts}))

    def read_again(self) -> "CacheEntry":
        """With what was noted meanwhile."""
        known = _noted(self.directory)
        if known is None or known.get("version") != self.version:
            return self
        return replace(self, facts=known["facts"])

    def touch(self) -> None:
        """It is in use: not to be removed."""
        os.utime(self.directory)


@dataclass(frozen=True)
class Cache:
    """The same file under another name, of another user, is the same entry: who has the file may
    have what was made of it. Names and owners are not in it. Any number of processes may use it."""

    data_directory: Path
    max_bytes: int = 10 * 1024 * _MEBIBYTE

    @property
    def root(self) -> Path:
        return self.data_directory / "cache"

    def entry(
        self, kind: str, sha256: str, method: str, *, options: Mapping[str, Any], version: str
    ) -> CacheEntry:
        """The place of this work, made if need be. What another version made is thrown away,
        unless a process of that version may still be at it."""
        name = f"cache/{kind}/{sha256}/{method}{_mark(options)}"
        directory = self.data_directory / name
        known = _noted(directory)
        if known is not None and known.get("version") != version:
            if _used_at(directory) > time.time() - IN_USE.total_seconds():
                options = {**options, "version": version}
                return self.entry(kind, sha256, method, options=options, version=version)
            remove_whole(directory)
            known = None
        _make(directory)
        entry = CacheEntry(directory, name, version, known["facts"] if known else None)
        entry.touch()
        return entry

    def prune(self) -> int:
        """Remove what was not used for longest until the rest fits, and what failures have left:
        places with nothing in them. The number of entries."""
        entries = sorted(self._entries())
        surplus = sum(size for _, size, _ in entries) - self.max_bytes
        before = time.time() - IN_USE.total_seconds()
        removed = 0
        for used_at, size, directory in entries:
            if used_at > before:
                break
            if size and surplus <= 0:
                continue
            remove_whole(directory)
            with contextlib.suppress(OSError):  # it has other entries
                directory.parent.rmdir()
            surplus -= size
            removed += 1
        return removed

    def size(self) -> int:
        """In bytes; looks at every entry."""
        return sum(size for _, size, _ in self._entries())

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """When each was last used, how large it is, and where."""
        for directory in self.root.glob("*/*/*"):
            try:
                used_at = directory.stat().st_mtime
                sizes = [file.stat().st_size for file in os.scandir(directory)]
            except OSError:  # removed meanwhile
                continue
            yield used_at, sum(sizes), directory


def _make(directory: Path) -> None:
    while True:
        try:
            return directory.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError:  # the place above it was pruned in this moment
            continue


def _used_at(directory: Path) -> float:
    try:
        return directory.stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path, text: str) -> None:
    """All of it or nothing, and never into a file that someone else has a link to."""
    unfinished = path.with_name(f"{path.name}.{uuid4().hex}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def remove_whole(directory: Path) -> None:
    """Gone at once, however long the files take."""
    aside = directory.with_name(f".{uuid4().hex}")
    try:
        directory.rename(aside)
    except FileNotFoundError:  # someone else was quicker
        return
    shutil.rmtree(aside, ignore_errors=True)


def _mark(options: Mapping[str, Any]) -> str:
    if not options:
        return ""
    text = json.dumps(options, sort_keys=True, default=str)
    return "-" + hashlib.sha256(text.encode()).hexdigest()[:16]


def _noted(directory: Path) -> dict[str, Any] | None:
    try:
        noted = json.loads((directory / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # never made, or cut short by a power failure
        return None
    return noted if isinstance(noted, dict) and "facts" in noted else None


def fingerprint(files: Mapping[str, Path]) -> str:
    told = "".join(f"{name}:{path.stat().st_size};" for name, path in sorted(files.items()))
    return hashlib.sha256(told.encode()).hexdigest()[:12]
