"""The event hub: subscribers get their changes, and an idle hub costs nothing."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from secretary.core.errors import NotFound, StoreUnavailable
from secretary.core.job import Completed, Job, Progress
from secretary.jobs import events
from secretary.jobs.events import MAX_PENDING, EventHub
from secretary.store import Change, Changes, JobQuery, Page, Store
from secretary.store.sqlite import SqliteStore

from ..contract.factories import add_batch, claim, claimed
from ..polling import until

SECONDS = 5.0


class WatchedStore(SqliteStore):
    """Counts how often its feed is read; the first reads return or raise `trouble`."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.reads = 0
        self.trouble: list[Exception | Changes] = []

    async def changes(
        self, since: str | None, *, limit: int = 1000, seconds: float = 0.0
    ) -> Changes:
        self.reads += 1
        if self.trouble:
            error = self.trouble.pop(0)
            if isinstance(error, Exception):
                raise error
            return error
        return await super().changes(since, limit=limit, seconds=seconds)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[WatchedStore]:
    store = WatchedStore(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def hub(store: Store) -> AsyncIterator[EventHub]:
    hub = EventHub(store)
    yield hub
    await hub.close()


async def test_who_waits_for_a_job_keeps_nothing_of_it_in_memory(
    store: WatchedStore, hub: EventHub
) -> None:
    job = Job(parameters={"text": "long" * 1000})
    await store.add([job])
    seen: list[weakref.ref[Job]] = []
    find = store.find

    async def watched_find(query: JobQuery) -> Page[Job]:
        page = await find(query)
        seen.extend(weakref.ref(one) for one in page.items)
        return page

    store.find = watched_find  # type: ignore[method-assign]  # to see what it returned
    waiting = asyncio.create_task(hub.wait_until_final(job.job_id, SECONDS))
    await until(lambda: len(seen) > 0)
    await asyncio.sleep(0.05)
    gc.collect()
    assert [reference() for reference in seen] == [None] * len(seen)
    await store.cancel(JobQuery(job_id=job.job_id))
    assert await waiting is not None


class TestSubscriptions:
    async def test_each_subscriber_gets_its_own_changes(self, store: Store, hub: EventHub) -> None:
        batch, (inside,) = await add_batch(store, 1)
        outside = Job()
        await store.add([outside])
        async with (
            hub.subscription(job_id=outside.job_id) as of_job,
            hub.subscription(batch_id=batch.batch_id) as of_batch,
            hub.subscription() as of_all,
        ):
            await store.cancel(JobQuery(job_id=outside.job_id))
            assert await of_job.wait(SECONDS)
            assert await of_all.wait(SECONDS)
            assert of_job.take().items == [Change(outside.job_id, None)]
            assert of_all.take().items == [Change(outside.job_id, None)]
            await store.cancel(JobQuery(job_id=inside.job_id))
            assert await of_batch.wait(SECONDS)
            assert of_batch.take().items == [Change(inside.job_id, batch.batch_id)]
            assert await of_all.wait(SECONDS)
            assert of_job.take().items == []

    async def test_nothing_that_happens_after_the_beginning_is_missed(
        self, store: Store, hub: EventHub
    ) -> None:
        for _ in range(20):  # the hub restarts each time
            job = await claimed(store)
            async with hub.subscription(job_id=job.job_id) as subscription:
                await store.finish(job, Completed())
                assert await subscription.wait(SECONDS)

    async def test_frequent_changes_of_a_job_are_reported_once(
        self, store: Store, hub: EventHub
    ) -> None:
        job = await claimed(store)
        async with hub.subscription() as subscription, hub.subscription() as other:
            for percent in range(30):
                await store.report(job, Progress(step="x", percent=percent))
                await other.wait(SECONDS)
                other.take()
            assert subscription.take().items == [Change(job.job_id, None)]

    async def test_a_subscriber_too_far_behind_is_dropped_with_notice(
        self, store: WatchedStore, hub: EventHub
    ) -> None:
        async with hub.subscription() as subscription:
            for n in range(MAX_PENDING + 5):
                subscription.push(Change(f"job-{n}", None))
            taken = subscription.take()
            assert taken.gap
            assert len(taken.items) < 10
            assert not subscription.take().gap

    async def test_a_gap_in_the_feed_sends_everybody_to_look(
        self, store: WatchedStore, hub: EventHub
    ) -> None:
        job = await claimed(store)
        async with hub.subscription(job_id=job.job_id) as subscription:
            store.trouble.append(Changes([], (await store.changes(None)).position, gap=True))
            assert await subscription.wait(SECONDS)
            assert subscription.take().gap

    async def test_time_can_be_up(self, store: Store, hub: EventHub) -> None:
        async with hub.subscription(job_id="job-1") as subscription:
            assert not await subscription.wait(0.01)


class TestReading:
    async def test_without_subscribers_the_store_is_left_alone(
        self, store: WatchedStore, hub: EventHub
    ) -> None:
        async with hub.subscription():
            pass
        await until(lambda: hub._poller is None)
        reads = store.reads
        await store.add([Job()])
        await asyncio.sleep(2 * events.MAX_POLL_SECONDS)
        assert store.reads == reads

    async def test_many_subscribers_cost_no_more_reads_than_one(
        self, store: WatchedStore, hub: EventHub
    ) -> None:
        subscriptions = [hub.subscription(job_id=f"job-{n}") for n in range(500)]
        for subscription in subscriptions:
            await hub.subscribe(subscription)
        assert store.reads <= 3
        for subscription in subscriptions:
            hub.unsubscribe(subscription)
        assert hub.subscribers == 0
        assert not hub._subscriptions

    async def test_it_outlives_trouble_with_the_store(
        self,
        store: WatchedStore,
        hub: EventHub,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(events, "RETRY_SECONDS", 0.01)
        job = await claimed(store)
        async with hub.subscription(job_id=job.job_id) as subscription:
            store.trouble += [StoreUnavailable("gone"), RuntimeError("bug")]
            await until(lambda: not store.trouble)
            await store.finish(job, Completed())
            assert await subscription.wait(SECONDS)
        assert "retrying: gone" in caplog.text
        assert "bug" in caplog.text

    async def test_a_store_that_is_away_at_the_beginning_is_an_error(
        self, store: WatchedStore, hub: EventHub
    ) -> None:
        store.trouble.append(StoreUnavailable("gone"))
        with pytest.raises(StoreUnavailable):
            async with hub.subscription(job_id="job-1"):
                pass
        assert hub.subscribers == 0


class TestEnding:
    async def test_everybody_is_let_go(self, store: Store, hub: EventHub) -> None:
        async with hub.subscription() as before:
            hub.stop()
            assert await before.wait(SECONDS)
            assert before.closed
        async with hub.subscription(job_id="job-1") as after:
            assert after.closed


class TestTheEndOfAJob:
    async def test_it_is_waited_for(self, store: Store, hub: EventHub) -> None:
        job = await claimed(store)
        waiting = asyncio.create_task(hub.wait_until_final(job.job_id, SECONDS))
        await until(lambda: hub.subscribers == 1)
        await store.report(job, Progress(step="x", percent=50))
        await store.finish(job, Completed({"a": 1}))
        ended = await waiting
        assert ended is not None
        assert ended.results == {"a": 1}
        assert hub.subscribers == 0

    async def test_what_has_ended_is_given_at_once(self, store: Store, hub: EventHub) -> None:
        job = await claimed(store)
        await store.finish(job, Completed())
        assert await hub.wait_until_final(job.job_id, 0) == await store.get(job.job_id)

    async def test_it_may_not_come_in_time(self, store: Store, hub: EventHub) -> None:
        job = await claimed(store)
        assert await hub.wait_until_final(job.job_id, 0.05) is None

    async def test_nobody_waits_for_a_service_that_stops(self, store: Store, hub: EventHub) -> None:
        await store.add([Job(job_type="pdf")])
        (job,) = await claim(store)
        waiting = asyncio.create_task(hub.wait_until_final(job.job_id, 60))
        await until(lambda: hub.subscribers == 1)
        hub.stop()
        assert await asyncio.wait_for(waiting, SECONDS) is None

    async def test_an_unknown_job_is_not_found(self, hub: EventHub) -> None:
        with pytest.raises(NotFound):
            await hub.wait_until_final("job-none", 60)
        assert hub.subscribers == 0
