"""Carries the files of jobs from one place to another."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .depot import Depot, Kept
from .depot.directory import DirectoryDepot
from .lanes import in_lanes

#: What jobs bring and what they have made. What is kept to save work (the cache) is made again.
PREFIXES = ("uploads/", "jobs/")
#: The second is the directory of an attempt; what lies beside it is scratch.
OURS = re.compile(r"(uploads/[^/]+|jobs/[^/]+/\d+)/[^/].*", re.DOTALL)

GROUP = 200
GROUP_BYTES = 64 * 1024 * 1024
LANES = 8


@dataclass(slots=True)
class FileTally:
    found: int = 0
    bytes: int = 0
    copied: int = 0

    @property
    def skipped(self) -> int:
        return self.found - self.copied


Tell = Callable[[FileTally], object]


async def copy_files(source: Depot, target: Depot, tell: Tell = lambda tally: None) -> FileTally:
    """What is there with the same size already is left out: so it goes on where it stopped."""
    tally = FileTally()
    for prefix in PREFIXES:
        is_new = await _is_empty(target, prefix)
        async for group in _groups(source, prefix):
            missing = group if is_new else await missing_files(target, group)
            await _carry(source, target, missing)
            _count(tally, group, copied=len(missing))
            tell(tally)
    if tally.copied and isinstance(target, DirectoryDepot):
        await asyncio.to_thread(os.sync)  # a power cut after the copy must not cost a file
    return tally


async def count_files(source: Depot) -> FileTally:
    tally = FileTally()
    for prefix in PREFIXES:
        async for group in _groups(source, prefix):
            _count(tally, group, copied=0)
    return tally


async def files_that_differ(source: Depot, target: Depot) -> list[str]:
    """The keys of files that the target has not, or with another size."""
    wrong: list[str] = []
    for prefix in PREFIXES:
        async for group in _groups(source, prefix):
            wrong += [kept.key for kept in await missing_files(target, group)]
    return wrong


async def missing_files(target: Depot, group: Sequence[Kept]) -> list[Kept]:
    there = await in_lanes([kept.key for kept in group], LANES, target.find)
    pairs = zip(group, there, strict=True)
    return [kept for kept, other in pairs if other is None or other.size != kept.size]


async def _is_empty(depot: Depot, prefix: str) -> bool:
    async for _ in depot.below(prefix):
        return False
    return True


async def _groups(depot: Depot, prefix: str) -> AsyncIterator[list[Kept]]:
    group: list[Kept] = []
    async for kept in depot.below(prefix):
        if not _is_ours(kept.key):
            continue
        group.append(kept)
        if len(group) == GROUP or sum(one.size for one in group) > GROUP_BYTES:
            yield group
            group = []
    if group:
        yield group


def _is_ours(key: str) -> bool:
    return OURS.fullmatch(key) is not None and not {"", ".", ".."} & set(key.split("/"))


async def _carry(source: Depot, target: Depot, wanted: Sequence[Kept]) -> None:
    if isinstance(target, DirectoryDepot):
        await source.fetch(wanted, target.path_of)
    elif isinstance(source, DirectoryDepot):
        await _put(target, wanted, source.path_of)
    else:
        with TemporaryDirectory(prefix="carry-") as place:
            between = DirectoryDepot(Path(place))
            await source.fetch(wanted, between.path_of)
            await _put(target, wanted, between.path_of)


async def _put(target: Depot, wanted: Sequence[Kept], path_of: Callable[[str], Path]) -> None:
    paths = [(kept.key, path_of(kept.key)) for kept in wanted]
    there = [(key, path) for key, path in paths if path.is_file()]  # else removed meanwhile
    if there:
        await target.put(there)


def _count(tally: FileTally, group: Sequence[Kept], *, copied: int) -> None:
    tally.found += len(group)
    tally.bytes += sum(kept.size for kept in group)
    tally.copied += copied
