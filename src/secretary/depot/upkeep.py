"""Keeps a depot from growing: work that nobody asked for in a long time, files of no job."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from . import Depot

#: Entries used since then may belong to a job that runs. Their use is noted once an hour.
IN_USE = timedelta(hours=3)
CACHE, JOBS = "cache/", "jobs/"


@dataclass(slots=True)
class _Entry:
    used_at: float = 0.0
    size: int = 0


async def prune_cache(depot: Depot, max_bytes: int) -> int:
    """Remove what was not used for longest until the rest fits. The number of entries."""
    entries: dict[str, _Entry] = {}
    async for kept in depot.below(CACHE):
        entry = entries.setdefault("/".join(kept.key.split("/")[:4]) + "/", _Entry())
        entry.used_at = max(entry.used_at, kept.kept_at)
        entry.size += kept.size
    surplus = sum(entry.size for entry in entries.values()) - max_bytes
    before = time.time() - IN_USE.total_seconds()
    removed = 0
    for prefix, entry in sorted(entries.items(), key=lambda one: one[1].used_at):
        if surplus <= 0 or entry.used_at > before:
            break
        await depot.remove(prefix)
        surplus -= entry.size
        removed += 1
    return removed


async def jobs_of(depot: Depot, *, older_than: timedelta) -> AsyncIterator[str]:
    """The ids of jobs that have files which were put there that long ago."""
    before = time.time() - older_than.total_seconds()
    seen = ""
    async for kept in depot.below(JOBS):
        job_id = kept.key.split("/")[1]
        if job_id != seen and kept.kept_at < before:
            seen = job_id
            yield job_id
