"""Shortcuts to a store in a certain state."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from secretary.core.job import Batch, Job, utc_now
from secretary.store import Capacity, ClaimStore, Rescued, Store, WorkerInfo
from secretary.store.outbox import EventCapacity, EventQuota

LEASE = timedelta(seconds=60)
LAPSED = timedelta(seconds=-1)


def worker(worker_id: str = "worker-1") -> WorkerInfo:
    now = utc_now()
    return WorkerInfo(
        worker_id=worker_id,
        host="here",
        pid=1,
        birth="birth",
        slots=3,
        version="0",
        started_at=now,
        seen_at=now,
    )


async def claim(
    store: ClaimStore, worker_id: str = "worker-1", *, lease: timedelta = LEASE, **wanted: Any
) -> list[Job]:
    await store.register_worker(worker(worker_id), lease)
    return await store.claim(worker_id, Capacity(**{"slots": 1, **wanted}))


async def claimed(
    store: Store, worker_id: str = "worker-1", *, lease: timedelta = LEASE, **fields: Any
) -> Job:
    """A new job that this worker is running."""
    await store.add([Job(**{"job_type": "pdf", **fields})])
    (job,) = await claim(store, worker_id, lease=lease)
    return job


async def lose_workers(store: ClaimStore, number: int = 4, **wanted: Any) -> list[Rescued]:
    """So many workers, one after the other, claim jobs and are lost. Returns what became of the
    jobs of the last one. A job that nothing else runs beside fails with the fourth."""
    rescued: list[Rescued] = []
    for _ in range(number):
        await claim(store, f"lost-{uuid4().hex}", lease=LAPSED, **wanted)
        rescued = await store.rescue()
    return rescued


async def add_batch(store: Store, size: int, **fields: Any) -> tuple[Batch, list[Job]]:
    batch = Batch(**fields)
    jobs = [Job(job_type="pdf", batch_id=batch.batch_id) for _ in range(size)]
    await store.add(jobs, batch=batch)
    return batch, jobs


def event_capacity(*, lease: timedelta = timedelta(hours=1), **quota: Any) -> EventCapacity:
    """Room for final events, and the same for progress."""
    both = EventQuota(**{"limit": 100, "per_host": 100, "per_endpoint": 100, **quota})
    return EventCapacity(finals=both, progress=both, lease=lease)
