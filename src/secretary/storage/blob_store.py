"""Where files are kept that several machines share. One machine needs none: a directory does."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol
from uuid import uuid4

from ..core.errors import NotFound


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """A file in the depot. `tag` is another one when its content is."""

    key: str
    size: int
    #: When it was made, as far as the depot tells without opening it, and when it was put there.
    made_at: float
    kept_at: float
    tag: str


def is_plain(key: str) -> bool:
    """Whether a file can be put where its key says. Others may write to the same bucket, and a
    key with `..` in it would lead out of every directory."""
    return not {"", ".", ".."} & set(key.split("/")) and "\0" not in key


class BlobStore(Protocol):
    """Files by their keys, which look like paths (`jobs/job-1/1/pages/1.txt`).

    A file is there as a whole or not at all, and what `put` returns from survives the loss of a
    machine. Any call raises `StoreUnavailable` when the depot does not answer. What an
    implementation owes is written as tests: tests/contract/test_depot.py.
    """

    #: What it is called in answers and logs.
    kind: str

    async def put(self, files: Sequence[tuple[str, Path]]) -> None:
        """Keep these files under these keys, in place of what was there. Never more of a file
        than a piece is in memory."""
        ...

    async def find(self, key: str) -> BlobInfo | None: ...

    def below(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """All files below a prefix that ends with a slash, in no order; but none whose key is no
        plain path."""
        ...

    def read(self, kept: BlobInfo, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Its bytes from `start` to before `end`, in pieces. `NotFound` when it is gone."""
        ...

    async def fetch(self, wanted: Sequence[BlobInfo], place: Callable[[str], Path]) -> None:
        """Bring files to the places of their keys, with the times at which they were made. One
        that is gone meanwhile is left out."""
        ...

    async def remove(self, prefix: str) -> None:
        """Forget all files below a prefix that ends with a slash."""
        ...

    async def tidy(self) -> None:
        """Remove what writers that died have left."""
        ...


class Arrival:
    """A file on its way to its place. It is there when all of it is, and never half."""

    def __init__(self, target: Path, made_at: float) -> None:
        self._target = target
        self._made_at = made_at
        self._unfinished = target.with_name(f".{uuid4().hex}")
        target.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = self._unfinished.open("xb")
        self.size = 0

    def write(self, piece: bytes | memoryview) -> None:
        self.size += self._file.write(piece)

    def finish(self) -> None:
        self._file.close()
        os.utime(self._unfinished, (self._made_at, self._made_at))
        self._unfinished.replace(self._target)

    def give_up(self) -> None:
        self._file.close()
        self._unfinished.unlink(missing_ok=True)


PIECE = 1024 * 1024
#: Names of files that are not complete yet.
UNFINISHED = re.compile(r"\.[0-9a-f]{32}$")
#: So many files are looked at in one go.
GROUP = 200


class DirectoryBlobStore:
    """`<root>/<key>` is the file of a key."""

    kind = "directory"

    def __init__(self, root: Path) -> None:
        self._root = root

    def path_of(self, key: str) -> Path:
        return self._root.joinpath(*key.split("/"))

    async def put(self, files: Sequence[tuple[str, Path]]) -> None:
        for key, path in files:
            await asyncio.to_thread(_copy, path, self.path_of(key))

    async def find(self, key: str) -> BlobInfo | None:
        return await asyncio.to_thread(_kept, key, self.path_of(key))

    async def below(self, prefix: str) -> AsyncIterator[BlobInfo]:
        found = _walk(self.path_of(prefix.rstrip("/")), prefix)
        while group := await asyncio.to_thread(_next, found):
            for kept in group:
                yield kept

    async def read(
        self, kept: BlobInfo, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        end = kept.size if end is None else min(end, kept.size)
        while start < end:
            piece = await asyncio.to_thread(
                _piece, self.path_of(kept.key), start, min(end - start, PIECE)
            )
            start += len(piece)
            yield piece

    async def fetch(self, wanted: Sequence[BlobInfo], place: Callable[[str], Path]) -> None:
        for kept in wanted:
            try:
                await asyncio.to_thread(_copy, self.path_of(kept.key), place(kept.key))
            except FileNotFoundError:  # gone meanwhile
                continue

    async def remove(self, prefix: str) -> None:
        directory = self.path_of(prefix.rstrip("/"))
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def tidy(self) -> None:
        """What is left unfinished goes with its directory."""


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as file:
        arrival = Arrival(target, source.stat().st_mtime)
        try:
            while piece := file.read(PIECE):
                arrival.write(piece)
            arrival.finish()
        finally:
            arrival.give_up()


def _kept(key: str, path: Path) -> BlobInfo | None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not path.is_file() or path.is_symlink():
        return None
    tag = f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"
    return BlobInfo(key, found.st_size, found.st_mtime, found.st_mtime, tag)


def _walk(directory: Path, prefix: str) -> Iterator[BlobInfo]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if UNFINISHED.search(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
        elif (kept := _kept(f"{prefix}{entry.name}", Path(entry.path))) is not None:
            yield kept


def _next(found: Iterator[BlobInfo]) -> list[BlobInfo]:
    return [kept for _, kept in zip(range(GROUP), found, strict=False)]


def _piece(path: Path, start: int, length: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(start)
            piece = file.read(length)
    except FileNotFoundError:
        piece = b""
    if not piece:
        raise NotFound("There is no such file any more")
    return piece
