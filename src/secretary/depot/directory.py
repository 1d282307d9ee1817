"""Files in a directory of this machine, seen as a depot: for those who carry them elsewhere."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

from ..errors import NotFound
from . import Kept
from .placing import Arrival

PIECE = 1024 * 1024
#: Names of files that are not complete yet.
UNFINISHED = re.compile(r"\.[0-9a-f]{32}$")
#: So many files are looked at in one go.
GROUP = 200


class DirectoryDepot:
    """`<root>/<key>` is the file of a key."""

    kind = "directory"

    def __init__(self, root: Path) -> None:
        self._root = root

    def path_of(self, key: str) -> Path:
        return self._root.joinpath(*key.split("/"))

    async def put(self, files: Sequence[tuple[str, Path]]) -> None:
        for key, path in files:
            await asyncio.to_thread(_copy, path, self.path_of(key))

    async def find(self, key: str) -> Kept | None:
        return await asyncio.to_thread(_kept, key, self.path_of(key))

    async def below(self, prefix: str) -> AsyncIterator[Kept]:
        found = _walk(self.path_of(prefix.rstrip("/")), prefix)
        while group := await asyncio.to_thread(_next, found):
            for kept in group:
                yield kept

    async def read(
        self, kept: Kept, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        end = kept.size if end is None else min(end, kept.size)
        while start < end:
            piece = await asyncio.to_thread(
                _piece, self.path_of(kept.key), start, min(end - start, PIECE)
            )
            start += len(piece)
            yield piece

    async def fetch(self, wanted: Sequence[Kept], place: Callable[[str], Path]) -> None:
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


def _kept(key: str, path: Path) -> Kept | None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not path.is_file() or path.is_symlink():
        return None
    tag = f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"
    return Kept(key, found.st_size, found.st_mtime, found.st_mtime, tag)


def _walk(directory: Path, prefix: str) -> Iterator[Kept]:
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


def _next(found: Iterator[Kept]) -> list[Kept]:
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
