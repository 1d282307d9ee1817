"""Fills a store for the dashboard's benchmark: thirty days of work, a line and some that run."""

from datetime import timedelta

import seeding
from dashboard_views import Facts

from secretary.core.job import JobStatus, utc_now
from secretary.store import BatchQuery, Capacity, JobQuery, open_store

DAYS = 30
USERS = len(seeding.USERS)
PENDING, RUNNING, SLOTS = 2_000, 6, 8
#: Where the older pages begin that are measured.
DEEP = timedelta(days=DAYS - 1)


async def fill(url: str, amount: int, templates: list[str]) -> Facts:
    """Up to so many jobs; what is there already stays. `templates` is filled the first time."""
    store = open_store(url)
    await store.open()
    try:
        if not templates:
            await seeding.register_worker(store, slots=SLOTS)
            templates += await seeding.make_templates(store)
            await seeding.add_pending(store, min(PENDING, amount // 5))
            await store.claim(seeding.WORKER, Capacity(slots=RUNNING))
        counts = await store.counts()
        missing = amount - sum(n for by_state in counts.values() for n in by_state.values())
        interval = timedelta(days=DAYS) / max(missing, 1)
        await seeding.add_ended(store, url, templates, missing, until=utc_now(), interval=interval)
        some = (await store.find(JobQuery(status=frozenset({JobStatus.COMPLETED}), limit=1))).items
        batches = (await store.find_batches(BatchQuery(limit=10))).items
        deep = await store.find(JobQuery(created_before=utc_now() - DEEP, limit=50))
        return Facts(
            job_id=some[0].job_id,
            batch_id=batches[-1].batch_id,
            user=seeding.USERS[7],
            job_type=seeding.TYPES[1],
            code="FILE_CORRUPT",
            deep_cursor=deep.next_cursor,
        )
    finally:
        await store.close()
