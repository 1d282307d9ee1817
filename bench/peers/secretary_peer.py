"""Secretary on MongoDB if there is a URL, else on SQLite.

BENCH_HANDLERS: where handlers run, in child processes (`register`, the default) or on the worker's
event loop (`register_on_loop`), as SAQ runs coroutines. BENCH_WORKERS: several worker processes,
each with its own data directory, which record their claims. One worker has figures of its own: how
fast its store responds with few and with many jobs, or the start latency within one process.
"""

import asyncio
import os
import statistics
import struct
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from peer import Job, Peer, Submit

import secretary
from secretary.app import Application
from secretary.config import Settings, StorageSettings
from secretary.core.job import Completed, JobStatus, utc_now
from secretary.serve import run_worker
from secretary.store import Capacity, JobQuery, Store

sys.path.append(str(Path(__file__).resolve().parent.parent))

import seeding

URL = os.environ.get("BENCH_URL")
DIRECTORY = Path(os.environ["BENCH_DIR"])
STORE_URL = Settings(storage=StorageSettings(data_dir=DIRECTORY, mongodb_uri=URL)).store_url
WORKERS = os.environ.get("BENCH_WORKERS")
SLOTS = os.environ.get("BENCH_SLOTS", "16")
ON_LOOP = os.environ.get("BENCH_HANDLERS") == "register_on_loop"
HANDLERS = f"secretary_handlers:{'register_on_loop' if ON_LOOP else 'register'}"
#: Stored jobs, and how many of them are pending.
FEW, MANY = (10_000, 1_000), (1_000_000, 10_000)
CLAIMS, READS = 300, 200
PAGE = 50
#: How far down the list of one status the deep page is.
DEPTH = 0.8
#: Of the start latency within one process.
JOBS, WARM_UP, GAP_S, LIMIT_S = 300, 50, 0.02, 30


@asynccontextmanager
async def client() -> AsyncIterator[Submit]:
    async with seeding.opened(STORE_URL) as store:

        async def submit(job: Job, sent: int) -> None:
            await store.add([secretary.Job(job_type=job, parameters={"sent": sent})])

        yield submit


async def store_timings() -> Mapping[str, object]:
    """Milliseconds with few jobs and with many, and their ratio, by operation and percentile."""
    async with seeding.opened(STORE_URL, worker_slots=1) as store:
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
    before = newest - DEPTH * ended * seeding.INTERVAL
    deep = await store.find(JobQuery(status=completed, limit=PAGE, created_before=before))
    pages = {
        "newest page": JobQuery(limit=PAGE),
        "deep page of one status": JobQuery(status=completed, limit=PAGE, cursor=deep.next_cursor),
        "page for one user": JobQuery(visible_to=seeding.USERS[7], limit=PAGE),
    }
    timings: dict[str, list[float]] = {title: [] for title in ("claim", *pages)}
    for _ in range(CLAIMS):
        started = time.perf_counter()
        (job,) = await store.claim(seeding.WORKER, Capacity(slots=1))
        timings["claim"].append(time.perf_counter() - started)
        await store.finish(job, Completed())
    for title, query in pages.items():
        for _ in range(READS):
            started = time.perf_counter()
            await store.find(query)
            timings[title].append(time.perf_counter() - started)
    return {
        f"{title}, {name}": statistics.quantiles(samples, n=20)[twentieth - 1] * 1000
        for title, samples in timings.items()
        for name, twentieth in (("p50", 10), ("p95", 19))
    }


async def one_process() -> Mapping[str, object]:
    """The start latency in ms (p50, p95) if one process is client, store and worker."""
    settings = Settings(storage=StorageSettings(data_dir=DIRECTORY), handlers=(HANDLERS,))
    async with seeding.opened(STORE_URL) as store:
        parts = Application(settings, store).worker(slots=16)
        working = asyncio.create_task(run_worker(parts))
        try:
            for number in range(WARM_UP + JOBS):
                sent = time.monotonic_ns()
                await store.add([secretary.Job(job_type="noop", parameters={"sent": sent})])
                await asyncio.sleep(GAP_S)
                async with asyncio.timeout(LIMIT_S):
                    while len(_records()) <= number:
                        await asyncio.sleep(0.001)
        finally:
            parts.worker.drain()
            await working
    delays = [(started - sent) / 1e6 for sent, started in _records()[WARM_UP:]]
    return {"one_process": (statistics.median(delays), statistics.quantiles(delays, n=20)[-1])}


def _records() -> list[tuple[int, ...]]:
    path = DIRECTORY / "records"
    return list(struct.iter_unpack("<qq", path.read_bytes())) if path.exists() else []


def _peer() -> Peer:
    handlers = "the event loop" if ON_LOOP else "child processes"
    if WORKERS:
        runs_as = f"{WORKERS} worker processes with {SLOTS} slots, handlers in {handlers}"
        fleet = str(Path(__file__).resolve().with_name("timed_worker.py"))
        worker: tuple[str, ...] = (sys.executable, fleet, "fleet", WORKERS, SLOTS)
    else:
        runs_as = f"1 process with {SLOTS} child processes for the handlers"
        runs_as = f"1 process with {SLOTS} coroutines" if ON_LOOP else runs_as
        worker = (sys.executable, "-m", "secretary", "worker", "--slots", SLOTS)
        worker += ("--data-dir", str(DIRECTORY))
    return Peer(
        version=secretary.__version__,
        runs_as=runs_as,
        durable=True,
        worker=worker,
        worker_env={"SECRETARY_HANDLERS": HANDLERS} | ({"MONGODB_URI": URL} if URL else {}),
        client=client,
        extra=None if WORKERS else one_process if ON_LOOP else store_timings,
    )


PEER = _peer()
