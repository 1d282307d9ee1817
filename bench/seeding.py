"""Fill a store with finished jobs, as after months of operation.

A few jobs are finished by the store itself. All others are copies of what it wrote, inserted in
bulk with their own ids, types, users, batches and times.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pymongo

from secretary import Batch, Job
from secretary.core.job import Cancelled, Completed, Failed, JobError, Outcome, new_id, utc_now
from secretary.store import Capacity, Store, WorkerInfo, open_store
from secretary.store.mongo import queries as mongo_stats
from secretary.store.mongo.schema import list_position, stamp
from secretary.store.sqlite import queries as sqlite_stats
from secretary.store.sqlite.connection import connect
from secretary.store.sqlite.schema import microseconds
from secretary.store.stats import RETENTION, FinishedJob, count_finished

WORKER = "seeding"
TYPES = [f"type-{n}" for n in range(5)]
USERS = [f"user-{n:03}" for n in range(200)]
#: How many of twenty jobs end in which way.
ENDS: list[tuple[Outcome, int]] = [
    (Completed({"filename": "report.md", "pages": 12, "summary": "Nothing to report. " * 10}), 16),
    (Failed(JobError(code="DOWNLOAD_FAILED", message="The page did not answer")), 1),
    (Failed(JobError(code="FILE_CORRUPT", message="The file is damaged")), 1),
    (Failed(JobError(code="PROCESSING_TIMEOUT", message="It took longer than an hour")), 1),
    (Cancelled(), 1),
]
NAMES = ("Annual report", "Invoice", "Minutes", "Lecture", "Interview", "Contract", "Leaflet")
#: Wait times and run times, in turn.
WAITS_S, RUNS_S = (0.02, 0.3, 2.0, 5.0, 40.0), (0.5, 8.0, 90.0)
INTERVAL = timedelta(seconds=30)
BATCH = 1000
CHUNK = 10_000


class Ended(NamedTuple):
    """How a finished job differs from the one it is a copy of."""

    template: str
    batch_id: str | None
    job_id: str
    job_type: str
    user_id: str
    job_name: str
    created_at: datetime
    processing_started_at: datetime
    completed_at: datetime

    def fields(self, time: Callable[[datetime], Any]) -> dict[str, Any]:
        """What both stores have, with times in the store's form."""
        fields = list(self._asdict().items())[2:]
        converted = {n: time(v) if isinstance(v, datetime) else v for n, v in fields}
        return converted | {"updated_at": time(self.completed_at)}

    def counted(self, status: str, code: str | None) -> FinishedJob:
        waited = self.processing_started_at - self.created_at
        return FinishedJob(
            job_type=self.job_type, user_id=self.user_id, status=status, code=code,
            at=self.completed_at, waited=waited,
        )  # fmt: skip


@asynccontextmanager
async def opened(url: str, *, worker_slots: int = 0) -> AsyncIterator[Store]:
    """With slots, a worker is registered that can claim jobs."""
    store = open_store(url)
    await store.open()
    try:
        if worker_slots:
            await store.register_worker(worker(WORKER, worker_slots), timedelta(days=1))
        yield store
    finally:
        await store.close()


def worker(worker_id: str, slots: int) -> WorkerInfo:
    now = utc_now()
    return WorkerInfo(
        worker_id=worker_id, host="", pid=0, birth="", slots=slots, version="", started_at=now,
        seen_at=now,
    )  # fmt: skip


async def make_templates(store: Store) -> list[str]:
    """Twenty ids of jobs to copy, with repetitions. No other job may be pending."""
    ids: list[str] = []
    for outcome, share in ENDS:
        parameters = {"url": "https://example.org/documents/report.pdf", "language": "de"}
        added = await store.add([Job(user_id=USERS[0], parameters=parameters)])
        (job,) = await store.claim(WORKER, Capacity(slots=1))
        await store.finish(job, outcome, resources={"cpu_seconds": 1.5})
        ids += added.job_ids * share
    return ids


async def add_pending(store: Store, count: int) -> None:
    for start in range(0, count, BATCH):
        batch, numbers = Batch(), range(start, min(start + BATCH, count))
        kinds = [(TYPES[n % len(TYPES)], USERS[n // 7 % len(USERS)]) for n in numbers]
        jobs = [Job(job_type=t, user_id=u, batch_id=batch.batch_id) for t, u in kinds]
        await store.add(jobs, batch=batch)


async def add_ended(
    store: Store,
    url: str,
    templates: Sequence[str],
    count: int,
    *,
    until: datetime,
    interval: timedelta = INTERVAL,
) -> None:
    """This many finished jobs, one per `interval` up to `until`; half of them in batches."""
    batches = [Batch() for _ in range(count // BATCH // 2 + 1)]
    await asyncio.gather(*(store.add([], batch=batch) for batch in batches))
    jobs = _ended(templates, count, batches, until, interval)
    if url.startswith("sqlite://"):
        await asyncio.to_thread(_fill_sqlite, Path(url.removeprefix("sqlite://")), templates, jobs)
    else:
        await asyncio.to_thread(_fill_mongodb, url, templates, jobs)


def _ended(
    templates: Sequence[str],
    count: int,
    batches: Sequence[Batch],
    until: datetime,
    interval: timedelta,
) -> Iterator[Ended]:
    for n in range(count):
        mixed = n * 7919  # a prime: type, user and outcome do not correlate
        batch = batches[n // BATCH // 2] if n // BATCH % 2 else None
        created_at = until - (count - n) * interval
        started_at = created_at + timedelta(seconds=WAITS_S[mixed // 50 % len(WAITS_S)])
        yield Ended(
            template=templates[n * 104_729 // 1000 % len(templates)],
            job_id=new_id("job"),
            job_type=TYPES[mixed % len(TYPES)],
            user_id=USERS[mixed // 10 % len(USERS)],
            batch_id=batch.batch_id if batch else None,
            job_name=f"{NAMES[mixed // 3 % len(NAMES)]} {n:07}.pdf",
            created_at=created_at,
            processing_started_at=started_at,
            completed_at=started_at + timedelta(seconds=RUNS_S[mixed // 70 % len(RUNS_S)]),
        )


def _chunks(jobs: Iterator[Ended]) -> Iterator[tuple[list[Ended], list[Ended]]]:
    """Some jobs at a time, and those of them that the store would still have in its statistics."""
    oldest = utc_now() - RETENTION
    while chunk := list(islice(jobs, CHUNK)):
        yield chunk, [job for job in chunk if job.completed_at > oldest]


def _fill_sqlite(path: Path, templates: Sequence[str], jobs: Iterator[Ended]) -> None:
    db = connect(path)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -262144")
    rows = {one: _row(db, "jobs", "job_id", one) for one in set(templates)}
    contents = {one: _row(db, "contents", "seq", row["seq"]) for one, row in rows.items()}
    ended = {one: (row["status"], row["error_code"]) for one, row in rows.items()}
    seq: Any = db.execute("SELECT max(seq) + 1 FROM jobs").get
    for chunk, recent in _chunks(jobs):
        numbered = list(enumerate(chunk, seq))
        seq += len(chunk)
        db.execute("BEGIN IMMEDIATE")
        changed = [
            rows[job.template] | {"seq": n, "batch_id": job.batch_id, **job.fields(microseconds)}
            for n, job in numbered
        ]
        _insert(db, "jobs", changed)
        _insert(db, "contents", [contents[job.template] | {"seq": n} for n, job in numbered])
        counted = count_finished([job.counted(*ended[job.template]) for job in recent])
        sqlite_stats.write_counters(db, counted)
        db.execute("COMMIT")
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    db.close()


def _row(db: apsw.Connection, table: str, key: str, value: object) -> dict[str, Any]:
    columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
    row: Any = db.execute(f"SELECT * FROM {table} WHERE {key} = ?", (value,)).fetchone()
    return dict(zip(columns, row, strict=True))


def _insert(db: apsw.Connection, table: str, rows: Sequence[dict[str, Any]]) -> None:
    values = ", ".join(f":{name}" for name in rows[0])
    db.executemany(f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES ({values})", rows)


def _fill_mongodb(url: str, templates: Sequence[str], jobs: Iterator[Ended]) -> None:
    with pymongo.MongoClient[dict[str, Any]](url) as client:
        database = client.get_default_database()
        collection = database["jobs"]
        known = {one["_id"]: one for one in collection.find({"_id": {"$in": list(templates)}})}
        ended = {i: (doc["status"], doc.get("error", {}).get("code")) for i, doc in known.items()}
        arrival = max(one["arrival"] for one in known.values())
        for chunk, recent in _chunks(jobs):
            documents = []
            for job in chunk:
                arrival += 1
                document = known[job.template] | job.fields(stamp)
                position = {"arrival": arrival, "listed_at": list_position(job.created_at, arrival)}
                document |= {"_id": job.job_id, "readers": [job.user_id], **position}
                documents.append(document | ({"batch_id": job.batch_id} if job.batch_id else {}))
            collection.insert_many(documents, ordered=False)
            counted = count_finished([job.counted(*ended[job.template]) for job in recent])
            if counted:
                database["activity"].bulk_write(mongo_stats.updates(counted), ordered=False)
        # Otherwise the jobs would still be written to disk while they are read.
        client.admin.command("fsync")
