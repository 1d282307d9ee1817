"""What every store guarantees to clients that submit a job again for the same callback. A new store
passes this file unchanged."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from secretary.core.errors import Conflict
from secretary.core.job import (
    Cancelled,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    Webhook,
    utc_now,
)
from secretary.store import Added, CallbackKey, IdempotencyKey, JobQuery, Store

from .factories import LAPSED, claim, event_capacity

URL = "https://client.example/api/external/jobs/1"
KEY = CallbackKey("one", "the request")
OTHER_REQUEST = CallbackKey("one", "another request")
FAILED = Failed(JobError(code="FILE_CORRUPT", message="torn"))


def job(token: str, **fields: Any) -> Job:
    return Job(job_type="pdf", webhook=Webhook(url=URL, token=token), **fields)


async def submit(store: Store, one: Job, callback: CallbackKey = KEY) -> Added:
    return await store.add([one], callback=callback)


async def token_of(store: Store, one: Job) -> str | None:
    webhook = (await store.get(one.job_id)).webhook
    assert webhook is not None
    return webhook.token


async def due(store: Store) -> list[tuple[str, str]]:
    """The events that are due, which stay so."""
    events = await store.claim_events(event_capacity(lease=LAPSED))
    return [(event.owner_id, event.delivery.event) for event in events]


class TestTheSameRequest:
    @pytest.mark.parametrize("running", [False, True])
    async def test_it_gets_the_unfinished_job_which_uses_the_new_token(
        self, store: Store, running: bool
    ) -> None:
        first = job("T1")
        assert (await submit(store, first)).job_ids == [first.job_id]
        if running:
            await claim(store)
        repeated = await submit(store, job("T2"))
        assert (repeated.job_ids, repeated.replayed) == ([first.job_id], True)
        assert await token_of(store, first) == "T2"
        assert len((await store.find(JobQuery())).items) == 1

    async def test_the_new_token_is_used_for_the_event_of_a_job_that_was_running(
        self, store: Store
    ) -> None:
        first = job("T1")
        await submit(store, first)
        (running,) = await claim(store)
        await submit(store, job("T2"))
        await store.finish(running, Completed())
        assert await token_of(store, first) == "T2"
        assert await due(store) == [(first.job_id, "completed")]

    async def test_of_many_at_once_one_job_is_stored(self, store: Store) -> None:
        jobs = [job(f"T{n}") for n in range(8)]
        added = await asyncio.gather(*(submit(store, one) for one in jobs))
        assert len({one.job_ids[0] for one in added}) == 1
        assert sum(not one.replayed for one in added) == 1
        assert len((await store.find(JobQuery())).items) == 1

    async def test_with_the_same_token_it_is_another_job(self, store: Store) -> None:
        """Clients with one URL and one token for everything submit the same file twice."""
        first, second = job("T1"), job("T1")
        await submit(store, first)
        assert not (await submit(store, second)).replayed
        assert (await store.get(second.job_id)).process_id is None
        assert (await store.get(first.job_id)).status is JobStatus.PENDING


class TestTakingOver:
    async def test_a_later_job_reports_under_the_id_of_the_first(self, store: Store) -> None:
        jobs = [job(f"T{n}") for n in range(3)]
        for n, one in enumerate(jobs):
            assert not (await submit(store, one, CallbackKey("one", str(n)))).replayed
        stored = [await store.get(one.job_id) for one in jobs]
        first = jobs[0].job_id
        assert [one.reported_id for one in stored] == [first] * 3
        assert [one.process_id for one in stored] == [None, first, first]
        assert await store.reporting_job(first) == jobs[2].job_id

    async def test_the_unfinished_job_before_it_is_cancelled_without_an_event(
        self, store: Store
    ) -> None:
        first = job("T1")
        await submit(store, first)
        await submit(store, job("T2"), OTHER_REQUEST)
        assert (await store.get(first.job_id)).status is JobStatus.CANCELLED
        await asyncio.sleep(1.1)
        assert first.job_id not in dict(await due(store))

    async def test_a_running_job_before_it_has_to_stop_and_wants_no_events(
        self, store: Store
    ) -> None:
        first = job("T1")
        await submit(store, first)
        (running,) = await claim(store)
        await submit(store, job("T2"), OTHER_REQUEST)
        assert (await store.get(first.job_id)).cancel_requested
        await store.finish(running, Cancelled())
        webhook = (await store.get(first.job_id)).webhook
        assert webhook is not None and not webhook.wants("error")

    @pytest.mark.parametrize("outcome", [Completed(), FAILED])
    async def test_undelivered_events_of_an_ended_job_are_withdrawn(
        self, store: Store, outcome: Completed | Failed
    ) -> None:
        first, second = job("T1"), job("T2")
        await submit(store, first)
        (running,) = await claim(store)
        await store.finish(running, outcome)
        assert len(await due(store)) == 1
        assert not (await submit(store, second)).replayed
        assert (await store.get(second.job_id)).process_id == first.job_id
        assert await due(store) == []
        (delivery,) = (await store.get(first.job_id)).deliveries
        assert delivery.gave_up

    async def test_its_events_cannot_be_replayed(self, store: Store) -> None:
        first = job("T1")
        await submit(store, first)
        (running,) = await claim(store)
        await store.finish(running, Completed())
        await submit(store, job("T2"))
        with pytest.raises(Conflict):
            await store.replay_event(first.job_id, 1)

    async def test_of_many_at_once_one_reports(self, store: Store) -> None:
        first = job("T1")
        await submit(store, first)
        jobs = [job(f"T{n}") for n in range(2, 8)]
        keys = [CallbackKey("one", str(n)) for n in range(2, 8)]
        await asyncio.gather(
            *(submit(store, one, key) for one, key in zip(jobs, keys, strict=True))
        )
        stored = (await store.find(JobQuery(status=frozenset({JobStatus.PENDING})))).items
        assert [one.reported_id for one in stored] == [first.job_id]
        assert await store.reporting_job(first.job_id) == stored[0].job_id

    async def test_a_deleted_job_can_be_taken_over(self, store: Store) -> None:
        first, second = job("T1"), job("T2")
        await submit(store, first)
        await store.cancel(JobQuery(job_id=first.job_id))
        await store.delete(JobQuery(job_id=first.job_id))
        expired = second.model_copy(update={"created_at": utc_now()})
        assert not (await submit(store, expired)).replayed
        assert (await store.get(second.job_id)).process_id == first.job_id


class TestApart:
    async def test_another_key_is_another_job(self, store: Store) -> None:
        first, second = job("T1"), job("T2")
        await submit(store, first)
        assert not (await submit(store, second, CallbackKey("two", KEY.fingerprint))).replayed
        assert (await store.get(second.job_id)).process_id is None

    async def test_an_expired_key_is_forgotten(self, store: Store) -> None:
        first, second = job("T1"), job("T2")
        past = utc_now() - timedelta(seconds=1)
        await submit(store, first, CallbackKey("one", "the request", past))
        assert not (await submit(store, second)).replayed
        assert (await store.get(second.job_id)).process_id is None

    async def test_an_idempotency_key_takes_precedence(self, store: Store) -> None:
        first, second = job("T1"), job("T2")
        key = IdempotencyKey("k", "print")
        await store.add([first], callback=KEY, idempotency=key)
        repeated = await store.add([second], callback=KEY, idempotency=key)
        assert (repeated.job_ids, repeated.replayed) == ([first.job_id], True)

    async def test_a_job_without_a_callback_reports_for_itself(self, store: Store) -> None:
        assert await store.reporting_job("job-0") is None
