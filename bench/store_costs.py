"""What one job costs the store, from added and claimed over progress reports to completed."""

import asyncio
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import apsw
import pymongo
import seeding
from queues import MONGODB, open_testbed
from report import Cell, Result

from secretary.core.job import Completed, Job, LogEntry, Progress
from secretary.store import Capacity, Store

Client = pymongo.MongoClient[dict[str, Any]]
REPORTS = 5
PARAMETERS = {"url": "https://example.org/documents/report.pdf", "language": "de"}
RESULTS = {"filename": "report.md", "pages": 12, "summary": "Nothing to report. " * 10}
#: The WAL of SQLite: a header of 32 bytes, and 24 bytes before each page.
PAGE = 4096
WAL_HEAD, FRAME = 32, PAGE + 24
LOGGED_JOBS = 16
#: Commands of the driver and of this benchmark, not of a job.
NOT_OURS = frozenset(
    ("hello", "isMaster", "ping", "getMore", "serverStatus", "dbStats", "fsync", "endSessions")
)


@dataclass(frozen=True)
class Cost:
    """Per job."""

    requests: float | None
    written: float
    log_bytes: float
    stored_bytes: float
    index_bytes: float | None


def measure(result: Result, plan: Any, root: Path) -> None:
    costs: dict[str, Cost] = {}
    for at_once in (1, 32):
        together = "one by one" if at_once == 1 else f"{at_once} at a time"
        for reports in (0, REPORTS):
            what = f"{reports} progress reports, {together}"
            count = plan.cost_jobs if at_once > 1 else plan.cost_jobs // 4
            with open_testbed(MONGODB, root) as testbed, Client(testbed.url) as client:
                cost = asyncio.run(_mongodb_cost(client, testbed.url, count, at_once, reports))
            costs[f"MongoDB, {what}"] = cost
            path = root / f"costs-{at_once}-{reports}" / "jobs.db"
            costs[f"SQLite, {what}"] = asyncio.run(_sqlite_cost(path, count, at_once, reports))
    head = ["", "requests", "writes", "log bytes", "stored bytes", "index bytes"]
    lines: list[list[Cell]] = [
        [name, *("" if value is None else value for value in astuple(cost))]
        for name, cost in sorted(costs.items())
    ]
    result.add("Cost of a job in the store", head, lines)


async def _mongodb_cost(client: Client, url: str, jobs: int, at_once: int, reports: int) -> Cost:
    async with seeding.opened(url, worker_slots=1) as store:
        # Connects and creates query plans.
        await _run_jobs(store, at_once, at_once=at_once, reports=reports)
        since = client.admin.command("hello")["lastWrite"]["opTime"]["ts"]
        requests, stored = _requests(client), _stored(client)
        await _run_jobs(store, jobs, at_once=at_once, reports=reports)
        requests, stored_now = _requests(client) - requests, _stored(client)
    entries, size = _logged(client, since)
    stored_bytes, index_bytes = ((b - a) / jobs for a, b in zip(stored, stored_now, strict=True))
    return Cost(requests / jobs, entries / jobs, size / jobs, stored_bytes, index_bytes)


def _requests(client: Client) -> int:
    commands = client.admin.command("serverStatus")["metrics"]["commands"]
    return sum(
        int(counted["total"])
        for name, counted in commands.items()
        if isinstance(counted, dict) and "total" in counted and name not in NOT_OURS
    )


def _logged(client: Client, since: Any) -> tuple[int, int]:
    """The oplog's entries for documents, and their bytes; one entry may hold several writes."""
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
    (totals,) = client["local"]["oplog.rs"].aggregate(pipeline)
    return int(totals["entries"]), int(totals["bytes"])


def _stored(client: Client) -> tuple[int, int]:
    client.admin.command("fsync")  # otherwise the sizes are up to a minute old
    stats = client.get_default_database().command("dbStats")
    return int(stats["dataSize"]), int(stats["indexSize"])


async def _sqlite_cost(path: Path, jobs: int, at_once: int, reports: int) -> Cost:
    log = path.with_name(f"{path.name}-wal")
    async with seeding.opened(f"sqlite://{path}", worker_slots=1) as store:
        await _run_jobs(store, at_once, at_once=at_once, reports=reports)
        reader = apsw.Connection(str(path))
        # Start a new WAL; SQLite does so by itself after a thousand pages.
        reader.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        few = max(at_once, LOGGED_JOBS)
        await _run_jobs(store, few, at_once=at_once, reports=reports)
        pages = (log.stat().st_size - WAL_HEAD) / FRAME / few
        before = reader.pragma("page_count")
        await _run_jobs(store, jobs, at_once=at_once, reports=reports)
        stored = (reader.pragma("page_count") - before) * PAGE / jobs
        reader.close()
    return Cost(None, pages, pages * FRAME, stored, None)


async def _run_jobs(store: Store, jobs: int, *, at_once: int, reports: int) -> None:
    for _ in range(0, jobs, at_once):
        await asyncio.gather(
            *(
                store.add([Job(job_type="pdf", user_id="anna", parameters=PARAMETERS)])
                for _ in range(at_once)
            )
        )
        claimed = await store.claim(seeding.WORKER, Capacity(slots=at_once))
        for number in range(reports):
            progress = Progress(step="reading", percent=10 + number, message="Page by page")
            entry = LogEntry(message=f"Page {number} of {reports} was read")
            await asyncio.gather(*(store.report(job, progress, [entry]) for job in claimed))
        await asyncio.gather(
            *(store.finish(job, Completed(RESULTS), resources={"cpu_s": 1.5}) for job in claimed)
        )
