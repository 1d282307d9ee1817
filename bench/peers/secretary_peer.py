"""Secretary with handlers in child processes, the default, on MongoDB if there is a URL, else on
SQLite; and how fast its store responds with few and with many stored jobs."""

import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import seeding
from peer import Job, Peer, Submit

import secretary
from secretary.config import Settings, StorageSettings
from secretary.core.job import Completed, JobStatus, utc_now
from secretary.store import Capacity, JobQuery, Store, open_store

URL = os.environ.get("BENCH_URL")
DIRECTORY = Path(os.environ["BENCH_DIR"])
STORE_URL = Settings(storage=StorageSettings(data_dir=DIRECTORY, mongodb_uri=URL)).store_url
SLOTS = 16
#: Stored jobs, and how many of them are pending.
FEW, MANY = (10_000, 1_000), (1_000_000, 10_000)
CLAIMS, READS = 300, 200
PAGE = 50
#: How far down the list of one status the deep page is.
DEPTH = 0.8


@asynccontextmanager
async def opened_store() -> AsyncIterator[Store]:
    store = open_store(STORE_URL)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def client() -> AsyncIterator[Submit]:
    async with opened_store() as store:

        async def submit(job: Job, sent: int) -> None:
            await store.add([secretary.Job(job_type=job, parameters={"sent": sent})])

        yield submit


async def extra() -> Mapping[str, object]:
    """Milliseconds with few jobs and with many, and their ratio, by operation and percentile."""
    async with opened_store() as store:
        await seeding.register_worker(store)
        templates = await seeding.make_templates(store)
        now = utc_now()
        ended_few, ended_many = FEW[0] - FEW[1], MANY[0] - MANY[1]
        then = now - (ended_many - ended_few) * seeding.INTERVAL

        await seeding.add_ended(store, STORE_URL, templates, ended_few, until=then)
        await seeding.add_pending(store, FEW[1])
        few = await _timings(store, newest=then, ended=ended_few)

        await seeding.add_ended(store, STORE_URL, templates, ended_many - ended_few, until=now)
        await seeding.add_pending(store, MANY[1] - FEW[1])
        many = await _timings(store, newest=now, ended=ended_many)
    return {"store": {title: (few[title], many[title], many[title] / few[title]) for title in few}}


async def _timings(store: Store, *, newest: datetime, ended: int) -> dict[str, float]:
    completed = frozenset({JobStatus.COMPLETED})
    deep = JobQuery(
        status=completed, limit=PAGE, created_before=newest - DEPTH * ended * seeding.INTERVAL
    )
    cursor = (await store.find(deep)).next_cursor
    pages = {
        "newest page": JobQuery(limit=PAGE),
        "deep page of one status": JobQuery(status=completed, limit=PAGE, cursor=cursor),
        "page for one user": JobQuery(visible_to=seeding.USERS[7], limit=PAGE),
    }
    timings: dict[str, list[float]] = {"claim": []}
    for _ in range(CLAIMS):
        started = time.perf_counter()
        (job,) = await store.claim(seeding.WORKER, Capacity(slots=1))
        timings["claim"].append(time.perf_counter() - started)
        await store.finish(job, Completed())
    for title, query in pages.items():
        timings[title] = []
        for _ in range(READS):
            started = time.perf_counter()
            await store.find(query)
            timings[title].append(time.perf_counter() - started)
    return {
        f"{title}, {name}": statistics.quantiles(samples, n=20)[twentieth - 1] * 1000
        for title, samples in timings.items()
        for name, twentieth in (("p50", 10), ("p95", 19))
    }


def worker(slots: int) -> tuple[str, ...]:
    command = (sys.executable, "-m", "secretary", "worker", "--data-dir", str(DIRECTORY))
    return (*command, "--slots", str(slots))


def worker_env(handlers: str) -> dict[str, str]:
    return {"SECRETARY_HANDLERS": handlers} | ({"MONGODB_URI": URL} if URL else {})


PEER = Peer(
    version=secretary.__version__,
    runs_as=f"1 process with {SLOTS} child processes for the handlers",
    durable=True,
    worker=worker(SLOTS),
    worker_env=worker_env("secretary_handlers:register"),
    client=client,
    extra=extra,
)
