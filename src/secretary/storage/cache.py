"""The result cache: finished work, keyed by the content of the file and the relevant options."""

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from ..core.files import SECRET_BYTES, atomic_write

#: The file in each entry with its version and metadata.
ENTRY_FILE = "entry.json"
#: Entries used this recently may belong to a running job.
IN_USE = timedelta(hours=1)
_MEBIBYTE = 1024 * 1024

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """The directory `cache/<kind>/<sha256>/<method>[-<keyed hash of the options>]/`."""

    directory: Path
    #: Relative to the data directory.
    name: str
    version: str
    #: What is known about the document; None until it was saved.
    metadata: Mapping[str, Any] | None

    def save_metadata(self, metadata: Mapping[str, Any]) -> None:
        content = json.dumps({"version": self.version, "facts": metadata})
        with atomic_write(self.directory / ENTRY_FILE) as temporary:
            temporary.write_text(content, encoding="utf-8")

    def reload(self) -> "CacheEntry":
        """The entry with the metadata saved since."""
        stored = _read_entry_file(self.directory)
        if stored is None or stored.get("version") != self.version:
            return self
        return replace(self, metadata=stored["facts"])

    def touch(self) -> None:
        """Mark the entry as used."""
        os.utime(self.directory)


@dataclass(frozen=True)
class Cache:
    """A cache on disk that any number of processes may share.

    Entries hold no names or owners: whoever has the file may have what was made from it."""

    data_directory: Path
    max_bytes: int = 10 * 1024 * _MEBIBYTE
    #: Keys the hashes in the names of entries, which every reader of a job sees: options contain
    #: passwords, and those could be guessed from a plain hash. Caches share their entries if they
    #: have the same secret.
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(SECRET_BYTES), repr=False)

    @property
    def root(self) -> Path:
        return self.data_directory / "cache"

    def entry(
        self, kind: str, sha256: str, method: str, *, options: Mapping[str, Any], version: str
    ) -> CacheEntry:
        """Open or create an entry. An entry of another version is replaced, unless a process of
        that version may still be using it."""
        name = f"cache/{kind}/{sha256}/{method}"
        if options:
            name += "-" + self._options_hash(kind, sha256, method, options)
        directory = self.data_directory / name
        stored = _read_entry_file(directory)
        if stored is not None and stored.get("version") != version:
            try:
                used_at = directory.stat().st_mtime
            except OSError:  # removed meanwhile
                used_at = 0.0
            if used_at > time.time() - IN_USE.total_seconds():
                options = {**options, "version": version}
                return self.entry(kind, sha256, method, options=options, version=version)
            _remove_atomically(directory)
            stored = None
        while not directory.is_dir():
            with contextlib.suppress(FileNotFoundError):  # its parent was pruned at this moment
                directory.mkdir(parents=True, exist_ok=True)
        entry = CacheEntry(directory, name, version, stored["facts"] if stored else None)
        entry.touch()
        return entry

    def _options_hash(self, kind: str, sha256: str, method: str, options: Mapping[str, Any]) -> str:
        """Differs between documents with the same options: otherwise whoever submits documents
        of their own could tell which passwords are the same."""
        text = json.dumps([kind, sha256, method, options], sort_keys=True, default=str)
        return hmac.digest(self.secret, text.encode(), "sha256").hex()[:16]

    def prune(self) -> int:
        """Evict the least recently used entries until the rest fits, and all empty ones, which
        failed jobs leave behind. Returns how many were removed."""
        evicted = evictable(self._entries(), self.max_bytes, in_use=IN_USE)
        for directory in evicted:
            _remove_atomically(directory)
            with contextlib.suppress(OSError):  # there are other entries for this file
                directory.parent.rmdir()
        return len(evicted)

    def size(self) -> int:
        """The total size in bytes. Reads every entry."""
        return sum(size for _, size, _ in self._entries())

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Time of last use, size and directory of each entry."""
        for directory in self.root.glob("*/*/*"):
            try:
                used_at = directory.stat().st_mtime
                sizes = [file.stat().st_size for file in os.scandir(directory)]
            except OSError:  # removed meanwhile
                continue
            yield used_at, sum(sizes), directory


def evictable(
    entries: Iterable[tuple[float, int, K]], max_bytes: int, *, in_use: timedelta
) -> list[K]:
    """The least recently used entries without which the rest fits, and all empty ones. An entry
    is its time of last use, its size and its key."""
    ordered = sorted(entries, key=itemgetter(0))
    surplus = sum(size for _, size, _ in ordered) - max_bytes
    before = time.time() - in_use.total_seconds()
    evicted: list[K] = []
    for used_at, size, key in ordered:
        if used_at > before:
            break
        if not size or surplus > 0:
            evicted.append(key)
            surplus -= size
    return evicted


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(files: Mapping[str, Path]) -> str:
    """Identifies a set of files by their names and sizes."""
    sizes = "".join(f"{name}:{path.stat().st_size};" for name, path in sorted(files.items()))
    return hashlib.sha256(sizes.encode()).hexdigest()[:12]


def _read_entry_file(directory: Path) -> dict[str, Any] | None:
    try:
        stored = json.loads((directory / ENTRY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing, or truncated by a power failure
        return None
    return stored if isinstance(stored, dict) and "facts" in stored else None


def _remove_atomically(directory: Path) -> None:
    """Rename the directory before deleting it, so that nobody sees half an entry."""
    trash = directory.with_name(f".{uuid4().hex}")
    try:
        directory.rename(trash)
    except FileNotFoundError:  # removed by another process
        return
    shutil.rmtree(trash, ignore_errors=True)
