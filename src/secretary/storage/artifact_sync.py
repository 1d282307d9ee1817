"""Carries the files of a running job to the depot, and those of others from there.

Handlers know nothing of it: they work on directories of their machine. What they write is in the
depot seconds later, so that other machines can show it, or go on with it when this one dies.
"""

import asyncio
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ..core.errors import StoreUnavailable
from .blob_store import BlobInfo, BlobStore
from .cache import NOTE, CacheEntry

logger = logging.getLogger(__name__)

SHIP_EVERY = 2.0
TOUCH_EVERY = 3600.0
#: Files that are appended to; all others have their content when they have their name.
GROWING = ".jsonl"
#: Names of files that are not complete yet: hidden, or with a mark behind their own.
UNFINISHED = re.compile(r"^\.|\.[0-9a-f]{32}$")


@dataclass(frozen=True, slots=True)
class _State:
    """What a file was when it was last carried; with another one it is carried again."""

    size: int
    changed_at: int


@dataclass(slots=True)
class _Load:
    """A directory, the prefix of its files in the depot, and what is there already."""

    directory: str
    prefix: str
    there: dict[str, _State] = field(default_factory=dict)


class ArtifactSync:
    """The files of one attempt, and the places of the cache that it works with."""

    def __init__(self, blob_store: BlobStore, attempt_directory: str, prefix: str) -> None:
        self._depot = blob_store
        self._loads = {prefix: _Load(attempt_directory, prefix)}
        self._lock = asyncio.Lock()

    async def shared(self, entry: CacheEntry) -> CacheEntry:
        """The entry with what other machines have put there. That is a gain and no need: without
        the depot the work is done again."""
        prefix = _prefix(entry)
        if prefix not in self._loads:
            load = _Load(str(entry.directory), prefix)
            try:
                await self._bring(load)
            except StoreUnavailable as error:
                logger.warning("Cannot look for earlier work in the depot: %s", error)
            self._loads[prefix] = load
        return await asyncio.to_thread(entry.read_again)

    async def _bring(self, load: _Load) -> None:
        here = await asyncio.to_thread(_states, load.directory)
        wanted: dict[str, BlobInfo] = {}
        async for kept in self._depot.below(load.prefix):
            name = kept.key.removeprefix(load.prefix)
            state = here.get(name)
            if state is None or (name.endswith(GROWING) and state.size < kept.size):
                wanted[name] = kept
            elif state.size == kept.size and not _is_to_be_touched(name, kept):
                load.there[name] = state
        root = Path(load.directory)
        await self._depot.fetch(
            list(wanted.values()), lambda key: root / key.removeprefix(load.prefix)
        )
        brought = await asyncio.to_thread(_states, load.directory)
        for name, kept in wanted.items():
            if name in brought and not _is_to_be_touched(name, kept):
                load.there[name] = brought[name]

    async def run(self) -> None:
        """Carry what there is now and then, until it is cancelled."""
        while True:
            await asyncio.sleep(SHIP_EVERY)
            try:
                await self.ship()
            except (StoreUnavailable, OSError) as error:
                logger.warning("Cannot carry files to the depot, will try again: %s", error)

    async def ship(self) -> None:
        """Carry what has changed."""
        async with self._lock:
            for load in list(self._loads.values()):
                await self._ship(load)

    async def _ship(self, load: _Load) -> None:
        """Records go last and only as far as they went when we began: a page that has one is
        there."""
        found = await asyncio.to_thread(_states, load.directory)
        if all(load.there.get(name) == state for name, state in found.items()):
            return  # most small jobs have no files, and a place for copies takes its time
        with TemporaryDirectory(prefix="ship-") as place:
            copies = await asyncio.to_thread(_copied_records, load, Path(place))
            found = await asyncio.to_thread(_states, load.directory)
            root = Path(load.directory)
            new = {
                name: state
                for name, state in found.items()
                if load.there.get(name) != state and not name.endswith(GROWING)
            }
            await self._depot.put([(load.prefix + name, root / name) for name in new])
            load.there.update(new)
            await self._depot.put([(load.prefix + name, copy) for name, copy, _ in copies])
            load.there.update({name: state for name, _, state in copies})


def _prefix(entry: CacheEntry) -> str:
    """With the version in it: what an older program made is not for a newer one."""
    mark = hashlib.sha256(entry.version.encode()).hexdigest()[:12]
    return f"{entry.name}@{mark}/"


def _is_to_be_touched(name: str, kept: BlobInfo) -> bool:
    """The note of an entry is put anew now and then: so it is known that the entry is in use."""
    return name == NOTE and kept.kept_at < time.time() - TOUCH_EVERY


def _copied_records(load: _Load, place: Path) -> list[tuple[str, Path, _State]]:
    copies: list[tuple[str, Path, _State]] = []
    for name, state in _states(load.directory).items():
        if name.endswith(GROWING) and load.there.get(name) != state:
            copy = place / name
            with open(f"{load.directory}/{name}", "rb") as file:
                copy.write_bytes(file.read(state.size))
            copies.append((name, copy, state))
    return copies


def _states(directory: str) -> dict[str, _State]:
    return dict(_walk(directory, ""))


def _walk(directory: str, below: str) -> Iterator[tuple[str, _State]]:
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if UNFINISHED.search(entry.name):
                continue
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(entry.path, f"{below}{entry.name}/")
                elif entry.is_file(follow_symlinks=False):
                    found = entry.stat()
                    yield f"{below}{entry.name}", _State(found.st_size, found.st_mtime_ns)
