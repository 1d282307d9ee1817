"""What the life of one job costs at the store: added, claimed, so many reports of progress with a
line of the log each, completed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pymongo
from adapter import MONGODB
from arena import open_arena

from secretary.core.job import Completed, Job, LogEntry, Progress, utc_now
from secretary.store import Capacity, Store, WorkerInfo, open_store

REPORTS = 5
PARAMETERS = {"url": "https://example.org/documents/report.pdf", "language": "de"}
RESULTS = {"filename": "report.md", "pages": 12, "summary": "Nothing to report. " * 10}
WORKER = "costs"
#: Of SQLite's log: before each page of 4,096 bytes stand 24 of its own, before all of them 32.
PAGE = 4096
WAL_HEAD, FRAME = 32, PAGE + 24
LOGGED_JOBS = 16
#: What the driver or this benchmark asks, and no job.
NOT_OURS = frozenset(
    ("hello", "isMaster", "ping", "getMore", "serverStatus", "dbStats", "fsync", "endSessions")
)


@dataclass(frozen=True)
class Cost:
    """For each job. Requests: calls of the store's server. Written: documents in the oplog of
    MongoDB, pages in the log of SQLite. Kept: what stays when the job is done."""

    requests: float | None
    written: float
    log_bytes: float
    kept_bytes: float
    index_bytes: float | None


def mongodb_cost(root: Path, *, jobs: int, at_once: int, reports: int = REPORTS) -> Cost:
    with (
        open_arena(MONGODB, root) as arena,
        pymongo.MongoClient[dict[str, Any]](arena.url) as client,
    ):
        return asyncio.run(_mongodb_cost(client, arena.url, jobs, at_once, reports))


async def _mongodb_cost(
    client: "pymongo.MongoClient[dict[str, Any]]", url: str, jobs: int, at_once: int, reports: int
) -> Cost:
    async with _opened(url) as store:
        await _live(store, at_once, at_once=at_once, reports=reports)  # connects, makes plans
        since = client.admin.command("hello")["lastWrite"]["opTime"]["ts"]
        asked, kept = _requests(client), _kept(client)
        await _live(store, jobs, at_once=at_once, reports=reports)
        asked, kept_now = _requests(client) - asked, _kept(client)
    entries, size = _logged(client, since)
    kept_bytes, index_bytes = ((b - a) / jobs for a, b in zip(kept, kept_now, strict=True))
    return Cost(asked / jobs, entries / jobs, size / jobs, kept_bytes, index_bytes)


def _requests(client: "pymongo.MongoClient[dict[str, Any]]") -> int:
    commands = client.admin.command("serverStatus")["metrics"]["commands"]
    return sum(
        int(counted["total"])
        for name, counted in commands.items()
        if isinstance(counted, dict) and "total" in counted and name not in NOT_OURS
    )


def _logged(client: "pymongo.MongoClient[dict[str, Any]]", since: Any) -> tuple[int, int]:
    """The oplog's entries for documents, and their bytes. Writes of one command may stand in one
    entry."""
    inside = {"$size": {"$ifNull": ["$o.applyOps", [1]]}}
    summed = {
        "_id": None,
        "entries": {"$sum": inside},
        "bytes": {"$sum": {"$bsonSize": "$$ROOT"}},
    }
    written = [{"op": {"$in": ["i", "u", "d"]}}, {"op": "c", "o.applyOps": {"$exists": True}}]
    pipeline: list[dict[str, Any]] = [
        {"$match": {"ts": {"$gt": since}, "$or": written}},
        {"$group": summed},
    ]
    (found,) = client["local"]["oplog.rs"].aggregate(pipeline)
    return int(found["entries"]), int(found["bytes"])


def _kept(client: "pymongo.MongoClient[dict[str, Any]]") -> tuple[int, int]:
    client.admin.command("fsync")  # else sizes on disk are those of a minute ago
    stats = client.get_default_database().command("dbStats")
    return int(stats["dataSize"]), int(stats["indexSize"])


def sqlite_cost(root: Path, *, jobs: int, at_once: int, reports: int = REPORTS) -> Cost:
    path = root / f"costs-{at_once}-{reports}" / "jobs.db"
    return asyncio.run(_sqlite_cost(path, jobs, at_once, reports))


async def _sqlite_cost(path: Path, jobs: int, at_once: int, reports: int) -> Cost:
    log = path.with_name(f"{path.name}-wal")
    async with _opened(f"sqlite://{path}") as store:
        await _live(store, at_once, at_once=at_once, reports=reports)
        reader = apsw.Connection(str(path))
        # The log begins anew. It holds a thousand pages before SQLite does that by itself.
        reader.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        few = max(at_once, LOGGED_JOBS)
        await _live(store, few, at_once=at_once, reports=reports)
        pages = (log.stat().st_size - WAL_HEAD) / FRAME / few
        before = reader.pragma("page_count")
        await _live(store, jobs, at_once=at_once, reports=reports)
        kept = (reader.pragma("page_count") - before) * PAGE / jobs
        reader.close()
    return Cost(None, pages, pages * FRAME, kept, None)


async def _live(store: Store, jobs: int, *, at_once: int, reports: int) -> None:
    for _ in range(0, jobs, at_once):
        await asyncio.gather(
            *(
                store.add([Job(job_type="pdf", user_id="anna", parameters=PARAMETERS)])
                for _ in range(at_once)
            )
        )
        claimed = await store.claim(WORKER, Capacity(slots=at_once))
        for number in range(reports):
            progress = Progress(step="reading", percent=10 + number, message="Page by page")
            entry = LogEntry(message=f"Page {number} of {reports} was read")
            await asyncio.gather(*(store.report(job, progress, [entry]) for job in claimed))
        await asyncio.gather(
            *(store.finish(job, Completed(RESULTS), resources={"cpu_s": 1.5}) for job in claimed)
        )


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    now = utc_now()
    worker = WorkerInfo(
        worker_id=WORKER, host="", pid=0, birth="", slots=1, version="", started_at=now, seen_at=now
    )
    await store.register_worker(worker, timedelta(days=1))
    try:
        yield store
    finally:
        await store.close()
