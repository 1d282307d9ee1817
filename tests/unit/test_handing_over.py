"""SQLite hands a job that was added in this process to the worker of this process."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from secretary.core.job import Batch, Completed, Job, JobStatus, utc_now
from secretary.store import Capacity, JobStore, open_store

from ..contract.given import LEASE, worker


class Hand:
    """A worker of this process with `free` slots."""

    def __init__(self, free: int = 1, **wanted: object) -> None:
        self.free = free
        self.wanted = wanted
        self.taken: list[Job] = []

    def ready_for(self) -> tuple[str, Capacity] | None:
        return ("worker-1", Capacity(slots=self.free, **self.wanted)) if self.free else None  # type: ignore[arg-type]

    def take(self, jobs: list[Job]) -> None:
        self.free -= len(jobs)
        self.taken += jobs


@pytest.fixture
async def store() -> AsyncIterator[JobStore]:
    """In memory where there is such a place: only a store on a fast disk hands jobs over."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(dir=place) as directory:
        store = open_store(f"sqlite://{directory}/jobs.db")
        await store.open()
        yield store
        await store.close()


@pytest.fixture
async def hand(store: JobStore) -> Hand:
    await store.register_worker(worker(), LEASE)
    # The first commits tell the store how fast the disk is.
    for _ in range(30):
        await store.add([Job()])
        (job,) = await store.claim("worker-1", Capacity(slots=1))
        await store.finish(job, Completed())
    hand = Hand()
    store.employ(hand)
    return hand


async def test_a_job_is_handed_over_as_a_claim_would_have_given_it(
    store: JobStore, hand: Hand
) -> None:
    job = Job(job_type="pdf", user_id="ann", parameters={"a": [1, None]}, run_at=utc_now())
    await store.add([job])
    if not hand.taken:  # a slow disk: it waits for a claim
        hand.taken = await store.claim("worker-1", Capacity(slots=1))
    (taken,) = hand.taken
    assert taken.model_dump() == (await store.get(job.job_id)).model_dump()
    await store.finish(taken, Completed({"x": 1}))
    assert (await store.get(job.job_id)).status is JobStatus.COMPLETED


async def test_jobs_are_handed_over_without_being_asked_for(store: JobStore, hand: Hand) -> None:
    for _ in range(100):  # not each time: another process may have delayed a sync
        hand.free = 1
        await store.add([Job()])
        if hand.taken:
            return
    pytest.fail("None of a hundred jobs was handed over")


async def test_no_more_jobs_are_handed_over_than_there_are_free_slots(
    store: JobStore, hand: Hand
) -> None:
    hand.free = 3
    await asyncio.gather(*(store.add([Job()]) for _ in range(50)))
    assert len(hand.taken) <= 3
    rest = await store.claim("worker-1", Capacity(slots=100))
    assert len({job.job_id for job in [*hand.taken, *rest]}) == 50


async def test_who_waited_longer_goes_first(store: JobStore, hand: Hand) -> None:
    hand.free = 0
    older = Job()
    await store.add([older])
    hand.free = 1
    await store.add([Job()])
    first = hand.taken or await store.claim("worker-1", Capacity(slots=1))
    assert [job.job_id for job in first] == [older.job_id]


async def test_a_job_for_later_and_a_paused_batch_are_not_handed_over(
    store: JobStore, hand: Hand
) -> None:
    await store.add([Job(run_at=utc_now() + timedelta(hours=1))])
    batch = Batch(is_active=False)
    await store.add([Job(batch_id=batch.batch_id)], batch=batch)
    assert hand.taken == []


async def test_a_worker_whose_lease_was_lost_gets_nothing(store: JobStore, hand: Hand) -> None:
    await store.unregister_worker("worker-1")
    job = Job()
    await store.add([job])
    assert hand.taken == []
    assert (await store.get(job.job_id)).status is JobStatus.PENDING


async def test_limits_hold_for_what_is_handed_over(store: JobStore, hand: Hand) -> None:
    hand.free = 5
    hand.wanted = {"max_per_type": {"pdf": 1}}
    for _ in range(3):
        await store.add([Job(job_type="pdf")])
    await store.add([Job(job_type="session")])
    # On a slow disk nothing is handed over; never more than the limit allows is.
    taken = [job.job_type for job in hand.taken]
    assert taken.count("pdf") <= 1 and taken.count("session") <= 1
