"""How fast the store of Secretary answers when few jobs are stored, and when very many are."""

import statistics
import time
from collections.abc import Mapping
from datetime import datetime

import seeding

from secretary.core.job import Completed, JobStatus, utc_now
from secretary.store import Capacity, JobQuery, Store

#: Stored jobs, and how many of them wait to be claimed.
FEW, MANY = (10_000, 1_000), (1_000_000, 10_000)
CLAIMS = 300
READS = 200
PAGE = 50
#: How far back in its list the page of one status is: it is reached by a cursor, as by a reader.
DEPTH = 0.8

Timings = dict[str, list[float]]


async def figures(store: Store, url: str) -> Mapping[str, float]:
    await seeding.register_worker(store)
    templates = await seeding.make_templates(store)
    now = utc_now()
    ended_few, ended_many = FEW[0] - FEW[1], MANY[0] - MANY[1]
    then = now - (ended_many - ended_few) * seeding.INTERVAL

    await seeding.add_ended(store, url, templates, ended_few, until=then)
    await seeding.add_pending(store, FEW[1])
    few = await _timings(store, newest=then, ended=ended_few)

    await seeding.add_ended(store, url, templates, ended_many - ended_few, until=now)
    await seeding.add_pending(store, MANY[1] - FEW[1])
    many = await _timings(store, newest=now, ended=ended_many)
    return _compared(few, many)


async def _timings(store: Store, *, newest: datetime, ended: int) -> Timings:
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
    timings = {"claim": await _claims(store)}
    for title, query in pages.items():
        timings[title] = await _reads(store, query)
    return timings


async def _claims(store: Store) -> list[float]:
    """Of one job each; what is claimed is finished before the next, without being timed."""
    timings = []
    for _ in range(CLAIMS):
        started = time.perf_counter()
        (job,) = await store.claim(seeding.WORKER, Capacity(slots=1))
        timings.append(time.perf_counter() - started)
        await store.finish(job, Completed())
    return timings


async def _reads(store: Store, query: JobQuery) -> list[float]:
    timings = []
    for _ in range(READS):
        started = time.perf_counter()
        await store.find(query)
        timings.append(time.perf_counter() - started)
    return timings


def _compared(few: Timings, many: Timings) -> dict[str, float]:
    compared: dict[str, float] = {}
    for title in few:
        for name, twentieth in (("p50", 10), ("p95", 19)):
            before, after = (_quantile_ms(timings[title], twentieth) for timings in (few, many))
            compared[f"{title}, {name} ms: {FEW[0]:,} jobs"] = before
            compared[f"{title}, {name} ms: {MANY[0]:,} jobs"] = after
            compared[f"{title}, {name}: ratio"] = after / before
    return compared


def _quantile_ms(timings: list[float], twentieth: int) -> float:
    return statistics.quantiles(timings, n=20)[twentieth - 1] * 1000
