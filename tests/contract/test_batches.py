"""What every store guarantees for batches. A new store passes this file unchanged."""

import asyncio

import pytest

from secretary.core.errors import Conflict, NotFound
from secretary.core.job import (
    AccessControl,
    Batch,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    Webhook,
)
from secretary.store import BatchQuery, JobQuery, Store

from .factories import LAPSED, add_batch, claim, lose_workers

ERROR = JobError(code="FILE_CORRUPT", message="no")


def counters(batch: Batch) -> tuple[int, ...]:
    document = batch.document()
    states = ("pending", "processing", "completed", "failed", "cancelled")
    assert document["total_jobs"] == sum(document[f"{state}_jobs"] for state in states)
    return tuple(document[f"{state}_jobs"] for state in states)


class TestAdding:
    async def test_a_batch_comes_back_as_it_was_added(self, store: Store) -> None:
        batch, _ = await add_batch(store, 3, batch_name="conference", user_id="ann")
        read = await store.get_batch(batch.batch_id)
        assert (read.batch_name, read.user_id) == ("conference", "ann")
        assert (read.is_active, read.archived, read.status) == (True, False, JobStatus.PENDING)
        assert counters(read) == (3, 0, 0, 0, 0)

    async def test_an_unknown_batch_is_not_found(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.get_batch("batch-none")

    async def test_all_or_nothing(self, store: Store) -> None:
        existing = Job()
        await store.add([existing])
        batch = Batch()
        jobs = [Job(batch_id=batch.batch_id) for _ in range(50)]
        clash = existing.model_copy(update={"batch_id": batch.batch_id})
        with pytest.raises(Conflict):
            await store.add([*jobs, clash], batch=batch)
        with pytest.raises(NotFound):
            await store.get_batch(batch.batch_id)
        assert [job.job_id for job in (await store.find(JobQuery())).items] == [existing.job_id]
        assert [job.job_id for job in await claim(store, slots=100)] == [existing.job_id]

    async def test_ten_thousand_jobs_are_one_batch(self, store: Store) -> None:
        batch, jobs = await add_batch(store, 10_000)
        assert counters(await store.get_batch(batch.batch_id)) == (10_000, 0, 0, 0, 0)
        first = await claim(store, slots=2)
        assert [job.job_id for job in first] == [job.job_id for job in jobs[:2]]

    async def test_an_empty_batch_is_completed(self, store: Store) -> None:
        batch, _ = await add_batch(store, 0, webhook=Webhook(url="https://example.org/hook"))
        read = await store.get_batch(batch.batch_id)
        assert read.status is JobStatus.COMPLETED
        assert read.completed_at is not None
        assert [delivery.event for delivery in read.deliveries] == ["completed"]


class TestCounting:
    async def test_counters_follow_the_jobs(self, store: Store) -> None:
        batch, _ = await add_batch(store, 4)
        one, two, three = await claim(store, slots=3)
        assert counters(await store.get_batch(batch.batch_id)) == (1, 3, 0, 0, 0)
        await store.finish(one, Completed())
        await store.finish(two, Failed(ERROR))
        read = await store.get_batch(batch.batch_id)
        assert counters(read) == (1, 1, 1, 1, 0)
        assert (read.status, read.completed_at) == (JobStatus.PROCESSING, None)
        await store.cancel(JobQuery(batch_id=batch.batch_id))
        await store.finish(three, Completed())
        read = await store.get_batch(batch.batch_id)
        assert counters(read) == (0, 0, 2, 1, 1)
        assert read.status is JobStatus.COMPLETED
        assert read.completed_at is not None

    async def test_a_batch_in_which_nothing_succeeded_has_failed(self, store: Store) -> None:
        batch, _ = await add_batch(store, 2)
        for job in await claim(store, slots=2):
            await store.finish(job, Failed(ERROR))
        assert (await store.get_batch(batch.batch_id)).status is JobStatus.FAILED

    async def test_counters_agree_after_a_rescue(self, store: Store) -> None:
        batch, _ = await add_batch(store, 2)
        await claim(store, slots=2, lease=LAPSED)
        await store.rescue()
        assert counters(await store.get_batch(batch.batch_id)) == (2, 0, 0, 0, 0)
        await lose_workers(store, 5, slots=2)  # together, and then each of them alone, twice
        read = await store.get_batch(batch.batch_id)
        assert (counters(read), read.status) == ((0, 0, 0, 2, 0), JobStatus.FAILED)

    async def test_a_batch_finishes_once_and_notifies_its_webhook_once(self, store: Store) -> None:
        batch, _ = await add_batch(store, 8, webhook=Webhook(url="https://example.org/hook"))
        jobs = await claim(store, slots=8)
        await asyncio.gather(*(store.finish(job, Completed()) for job in jobs))
        await store.tidy()
        read = await store.get_batch(batch.batch_id)
        assert [delivery.event for delivery in read.deliveries] == ["completed"]

    async def test_restarting_failed_jobs_opens_the_batch_again(self, store: Store) -> None:
        batch, _ = await add_batch(store, 2)
        one, two = await claim(store, slots=2)
        await store.finish(one, Completed())
        await store.finish(two, Failed(ERROR))
        failed = JobQuery(batch_id=batch.batch_id, status=frozenset({JobStatus.FAILED}))
        assert await store.restart(failed) == [two.job_id]
        read = await store.get_batch(batch.batch_id)
        assert (counters(read), read.completed_at) == ((1, 0, 1, 0, 0), None)
        assert read.status is JobStatus.PROCESSING


class TestActivity:
    async def test_an_inactive_batch_starts_none_of_its_jobs(self, store: Store) -> None:
        batch, _ = await add_batch(store, 3)
        (running,) = await claim(store)
        assert not (await store.change_batch(batch.batch_id, is_active=False)).is_active
        assert await claim(store, slots=5) == []
        await store.finish(running, Failed(ERROR, retry_at=running.created_at))
        assert await claim(store, slots=5) == []
        await store.change_batch(batch.batch_id, is_active=True)
        assert len(await claim(store, slots=5)) == 3

    async def test_a_batch_can_be_added_inactive(self, store: Store) -> None:
        await add_batch(store, 2, is_active=False)
        assert await claim(store, slots=5) == []

    async def test_archiving_hides_a_batch_and_its_jobs(self, store: Store) -> None:
        batch, _ = await add_batch(store, 2)
        await store.change_batch(batch.batch_id, archived=True)
        assert not (await store.find_batches(BatchQuery(archived=False))).items
        assert not (await store.find(JobQuery(archived=False))).items
        assert len((await store.find(JobQuery(batch_id=batch.batch_id))).items) == 2


class TestFindingAndDeleting:
    async def test_the_newest_come_first_page_by_page(self, store: Store) -> None:
        added = [(await add_batch(store, 1))[0].batch_id for _ in range(3)]
        first = await store.find_batches(BatchQuery(limit=2))
        rest = await store.find_batches(BatchQuery(limit=2, cursor=first.next_cursor))
        batch_ids = [batch.batch_id for batch in [*first.items, *rest.items]]
        assert (batch_ids, rest.next_cursor) == (added[::-1], None)

    async def test_a_user_sees_only_what_he_may_read(self, store: Store) -> None:
        await add_batch(store, 0, batch_name="a", user_id="ann")
        await add_batch(store, 0, batch_name="b")
        shared = AccessControl(read_access=("bob",))
        await add_batch(store, 0, batch_name="c", user_id="ann", access_control=shared)
        batches = (await store.find_batches(BatchQuery(visible_to="bob"))).items
        assert [batch.batch_name for batch in batches] == ["c", "b"]

    async def test_a_batch_with_jobs_is_not_deleted(self, store: Store) -> None:
        batch, _ = await add_batch(store, 1)
        with pytest.raises(Conflict):
            await store.delete_batch(batch.batch_id)
        await store.cancel(JobQuery(batch_id=batch.batch_id))
        await store.delete(JobQuery(batch_id=batch.batch_id))
        await store.delete_batch(batch.batch_id)
        with pytest.raises(NotFound):
            await store.get_batch(batch.batch_id)
