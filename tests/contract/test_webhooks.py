"""What every store guarantees to the webhook sender. A new store passes this file unchanged."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from secretary.core.errors import Conflict, NotFound
from secretary.core.job import (
    MAX_DELIVERY_ATTEMPTS_KEPT,
    Cancelled,
    Completed,
    Delivery,
    DeliveryAttempt,
    Failed,
    Job,
    JobError,
    Outcome,
    Progress,
    Webhook,
    utc_now,
)
from secretary.store import JobQuery, Store
from secretary.store.outbox import DueEvent, EventCapacity, EventQuota, ProgressSchedule

from .factories import LAPSED, add_batch, claim, claimed, event_capacity, lose_workers

HOOK = Webhook(url="https://one.example/hook")
ENDPOINT, QUEUE = "https://one.example/hook", "https://one.example/hook#"
OTHER = Webhook(url="https://two.example/hook")
FINALS_ONLY = Webhook(url="https://one.example/hook", events=("completed", "error"))
FAILED = Failed(JobError(code="FILE_CORRUPT", message="It is torn"))
HOUR = timedelta(hours=1)
NOW = timedelta()


async def take(store: Store, **wanted: Any) -> list[DueEvent]:
    return await store.claim_events(event_capacity(**wanted))


async def take_one(store: Store, **wanted: Any) -> DueEvent:
    """The one event that is due, now or in a moment."""
    async with asyncio.timeout(5):
        while not (events := await take(store, **wanted)):
            await asyncio.sleep(0.02)
    (event,) = events
    return event


async def ended(
    store: Store, webhook: Webhook = FINALS_ONLY, outcome: Outcome | None = None, **fields: Any
) -> Job:
    job = await claimed(store, webhook=webhook, **fields)
    await store.finish(job, outcome or Completed({"a": 1}))
    return job


def webhook_to(url: str) -> Webhook:
    return FINALS_ONLY.model_copy(update={"url": url})


def tried(status: int | None = 200, error: str | None = None) -> DeliveryAttempt:
    return DeliveryAttempt(at=utc_now(), status=status, error=error, duration_ms=3)


def pace(
    percent: int = 0, *, step: int = 5, ripe: timedelta = NOW, due: timedelta = HOUR
) -> ProgressSchedule:
    now = utc_now()
    return ProgressSchedule(
        sent_percent=percent, early_percent=percent + step, early_at=now + ripe, due_at=now + due
    )


async def deliveries(store: Store, job: Job) -> tuple[Delivery, ...]:
    return (await store.get(job.job_id)).deliveries


class TestTheEnd:
    @pytest.mark.parametrize(
        ("outcome", "event"),
        [(Completed(), "completed"), (FAILED, "error"), (Cancelled(), "error")],
    )
    async def test_it_is_due_at_once(self, store: Store, outcome: Outcome, event: str) -> None:
        job = await ended(store, HOOK, outcome)
        (due,) = await take(store)
        assert (due.kind, due.owner_id, due.endpoint) == ("job", job.job_id, ENDPOINT)
        assert (due.delivery.event, due.delivery.n, due.delivery.tried) == (event, 1, 0)
        assert (due.delivery,) == await deliveries(store, job)

    async def test_a_job_without_a_webhook_has_no_events(self, store: Store) -> None:
        await store.finish(await claimed(store), Completed())
        assert await take(store) == []

    async def test_an_event_that_is_not_wanted_is_not_written(self, store: Store) -> None:
        hook = Webhook(url=HOOK.url, events=("completed",))
        job = await ended(store, hook, FAILED)
        assert await take(store) == []
        assert await deliveries(store, job) == ()

    async def test_a_job_that_is_tried_again_has_not_ended(self, store: Store) -> None:
        job = await claimed(store, webhook=FINALS_ONLY)
        again = Failed(JobError(code="X", message="x"), retry_at=utc_now() + HOUR)
        await store.finish(job, again)
        assert await take(store) == []

    async def test_cancelling_a_pending_job_sends_an_event(self, store: Store) -> None:
        job = Job(webhook=FINALS_ONLY)
        await store.add([job])
        await store.cancel(JobQuery(job_id=job.job_id))
        (due,) = await take(store)
        assert (due.owner_id, due.delivery.event) == (job.job_id, "error")

    async def test_a_job_that_took_its_workers_down_sends_an_event(self, store: Store) -> None:
        job = Job(job_type="pdf", webhook=FINALS_ONLY)
        await store.add([job])
        await lose_workers(store)
        (due,) = await take(store)
        assert (due.owner_id, due.delivery.event) == (job.job_id, "error")

    async def test_what_one_sender_holds_no_other_gets(self, store: Store) -> None:
        for _ in range(5):
            await ended(store)
        taken = await asyncio.gather(*(take(store, limit=2) for _ in range(6)))
        ids = [event.owner_id for events in taken for event in events]
        ids += [event.owner_id for event in await take(store)]
        assert len(ids) == len(set(ids)) == 5
        assert await take(store) == []

    async def test_what_a_sender_that_died_held_goes_to_another(self, store: Store) -> None:
        await ended(store)
        (first,) = await take(store, lease=LAPSED)
        (again,) = await take(store)
        assert again == first

    async def test_a_lease_can_be_prolonged(self, store: Store) -> None:
        await ended(store)
        events = await take(store, lease=timedelta(milliseconds=200))
        await store.renew_events(events, HOUR)
        await asyncio.sleep(0.25)
        assert await take(store) == []

    async def test_once_delivered_it_is_settled(self, store: Store) -> None:
        job = await ended(store)
        event = await take_one(store)
        await store.record_delivery(event, tried())
        (delivery,) = await deliveries(store, job)
        assert delivery.delivered_at is not None and delivery.next_try_at is None
        assert (delivery.tried, delivery.gave_up) == (1, False)
        assert [one.status for one in delivery.tries] == [200]
        assert await take(store) == []

    async def test_a_failed_try_is_recorded_and_the_event_due_again(self, store: Store) -> None:
        job = await ended(store)
        event = await take_one(store)
        later = utc_now() + HOUR
        await store.record_delivery(event, tried(None, "timed out"), next_try_at=later)
        (delivery,) = await deliveries(store, job)
        assert (delivery.tried, delivery.next_try_at) == (1, later)
        assert [(one.status, one.error) for one in delivery.tries] == [(None, "timed out")]
        assert await take(store) == []
        await store.replay_event(job.job_id, 1)
        again = await take_one(store)
        assert again.delivery.delivery_id == event.delivery.delivery_id
        await store.record_delivery(again, tried(500), next_try_at=utc_now())
        assert (await take_one(store)).delivery.tried == 1

    async def test_without_a_next_try_it_is_given_up(self, store: Store) -> None:
        job = await ended(store)
        await store.record_delivery(await take_one(store), tried(410))
        (delivery,) = await deliveries(store, job)
        assert (delivery.gave_up, delivery.delivered_at) == (True, None)
        assert await take(store) == []

    async def test_of_many_tries_the_last_are_kept(self, store: Store) -> None:
        job = await ended(store)
        for n in range(MAX_DELIVERY_ATTEMPTS_KEPT + 5):
            await store.record_delivery(
                await take_one(store), tried(500 + n), next_try_at=utc_now()
            )
        (delivery,) = await deliveries(store, job)
        assert delivery.tried == MAX_DELIVERY_ATTEMPTS_KEPT + 5
        assert [one.status for one in delivery.tries] == list(range(505, 515))


class TestLimits:
    async def test_no_more_are_given_than_wanted(self, store: Store) -> None:
        for _ in range(4):
            await ended(store)
        assert len(await take(store, limit=3)) == 3

    async def test_an_endpoint_gets_its_share_and_no_more(self, store: Store) -> None:
        for _ in range(3):
            await ended(store, FINALS_ONLY)
            await ended(store, OTHER)
        taken = await take(store, per_endpoint=2, in_flight={QUEUE: 1})
        assert sorted(event.endpoint for event in taken) == [
            "https://one.example/hook",
            "https://two.example/hook",
            "https://two.example/hook",
        ]

    async def test_a_busy_endpoint_gets_nothing(self, store: Store) -> None:
        await ended(store)
        assert await take(store, per_endpoint=2, in_flight={QUEUE: 2}) == []
        assert await take(store, per_endpoint=2, in_flight={QUEUE: 3}) == []

    async def test_the_oldest_come_first(self, store: Store) -> None:
        jobs = [await ended(store) for _ in range(3)]
        taken = [(await take(store, limit=1))[0].owner_id for _ in jobs]
        assert taken == [job.job_id for job in jobs]

    async def test_final_events_and_progress_have_quotas_of_their_own(self, store: Store) -> None:
        for _ in range(3):
            await store.add([Job(webhook=HOOK, run_at=utc_now() + HOUR)])
        await asyncio.sleep(1.1)
        for _ in range(3):
            await ended(store)
        free = EventQuota(limit=9, per_host=9, per_endpoint=2)
        full = replace(free, in_flight={QUEUE: 2})
        finals_full = EventCapacity(finals=full, progress=free, lease=LAPSED)
        progress_full = EventCapacity(finals=free, progress=full, lease=LAPSED)
        events = await store.claim_events(finals_full)
        assert [event.delivery.event for event in events] == ["progress"] * 2
        events = await store.claim_events(progress_full)
        assert [event.delivery.event for event in events] == ["completed"] * 2

    async def test_an_endpoint_that_fails_final_events_still_gets_progress(
        self, store: Store
    ) -> None:
        open_job = Job(webhook=HOOK, run_at=utc_now() + HOUR)
        await store.add([open_job])
        await asyncio.sleep(1.1)
        await ended(store)
        await store.postpone_events(ENDPOINT, utc_now() + HOUR, final=True)
        assert [event.owner_id for event in await take(store)] == [open_job.job_id]

    async def test_an_endpoint_can_be_left_alone_as_a_whole(self, store: Store) -> None:
        jobs = [await ended(store) for _ in range(3)]
        other = await ended(store, OTHER)
        await store.postpone_events(ENDPOINT, utc_now() + timedelta(seconds=0.3), final=True)
        assert [event.owner_id for event in await take(store)] == [other.job_id]
        assert (await deliveries(store, jobs[0]))[0].tried == 0
        async with asyncio.timeout(5):
            while not (taken := await take(store)):
                await asyncio.sleep(0.02)
        assert {event.owner_id for event in taken} == {job.job_id for job in jobs}

    async def test_what_is_held_is_not_postponed_after_it_was_let_go(self, store: Store) -> None:
        await ended(store)
        event = await take_one(store)
        await store.postpone_events(ENDPOINT, utc_now() + HOUR, final=True)
        await store.record_delivery(event, tried(500), next_try_at=utc_now())
        assert len(await take(store)) == 1


class TestFairness:
    async def test_users_of_an_endpoint_take_turns(self, store: Store) -> None:
        for user_id in ("ann",) * 5 + ("bob",) * 2:
            await ended(store, user_id=user_id)
        taken = [await self._users(store, await take(store, limit=2)) for _ in range(2)]
        assert taken == [["ann", "bob"], ["ann", "bob"]]

    async def test_the_last_slots_are_shared_by_users_not_by_urls(self, store: Store) -> None:
        for n in range(20):
            await ended(store, webhook_to(f"https://one.example/{n}"), user_id="ann")
        await ended(store, user_id="bob")
        assert await self._users(store, await take(store, limit=2)) == ["ann", "bob"]

    async def test_any_user_may_get_the_probe_of_an_endpoint(self, store: Store) -> None:
        for user_id in ("ann",) * 5 + ("bob",):
            await ended(store, user_id=user_id)
        users: set[str | None] = set()
        async with asyncio.timeout(10):
            while len(users) < 2:  # with a lease that has lapsed, the same events are due again
                events = await take(store, reduced={ENDPOINT: 1}, lease=LAPSED)
                assert len(events) == 1
                users |= set(await self._users(store, events))

    async def test_an_endpoint_that_pauses_leaves_its_host_to_others(self, store: Store) -> None:
        await ended(store)
        others = [
            await ended(store, webhook_to(f"https://one.example{path}"))
            for path in ("/", "/hooks", "/hook/", "/hook/{jobId}")
        ]
        same = await ended(store, webhook_to("https://one.example:443/hook?token=1"))
        await store.postpone_events(ENDPOINT, utc_now() + HOUR, final=True)
        taken = {event.owner_id for event in await take(store)}
        assert taken == {job.job_id for job in others} and same.job_id not in taken

    async def test_a_host_pauses_with_all_its_endpoints(self, store: Store) -> None:
        for url in ("https://one.example", "https://one.example/hook", "https://one.example/b?c"):
            await ended(store, webhook_to(url))
        other = await ended(store, webhook_to("https://one.example.org/hook"))
        await store.postpone_events("https://one.example", utc_now() + HOUR, final=True)
        assert [event.owner_id for event in await take(store)] == [other.job_id]

    async def _users(self, store: Store, events: list[DueEvent]) -> list[str | None]:
        users = [(await store.get(event.owner_id)).user_id for event in events]
        return sorted(users, key=str)


class TestProgress:
    async def test_an_unfinished_job_is_reported_after_a_moment(self, store: Store) -> None:
        job = Job(webhook=HOOK)
        await store.add([job])
        assert await take(store) == []
        event = await take_one(store)
        assert (event.owner_id, event.delivery.event) == (job.job_id, "progress")

    async def test_unsubscribed_events_are_not_sent(self, store: Store) -> None:
        await store.add([Job(webhook=FINALS_ONLY)])
        await asyncio.sleep(1.1)
        assert await take(store) == []

    async def test_the_next_is_due_when_its_pace_says(self, store: Store) -> None:
        await claimed(store, webhook=HOOK)
        event = await take_one(store)
        await store.record_progress(event, tried(), pace(due=timedelta(seconds=0.2)))
        assert await take(store) == []
        assert (await take_one(store)).delivery.tried == 1

    async def test_a_step_forward_makes_it_due_earlier(self, store: Store) -> None:
        job = await claimed(store, webhook=HOOK)
        await store.report(job, Progress(step="x", percent=10))
        await store.record_progress(await take_one(store), tried(), pace(10))
        await store.report(job, Progress(step="x", percent=14))
        assert await take(store) == []
        await store.report(job, Progress(step="x", percent=15))
        assert len(await take(store)) == 1

    async def test_but_not_earlier_than_the_pace_allows(self, store: Store) -> None:
        job = await claimed(store, webhook=HOOK)
        event = await take_one(store)
        await store.record_progress(event, tried(), pace(ripe=timedelta(seconds=0.3)))
        await store.report(job, Progress(step="x", percent=50))
        assert await take(store) == []
        assert (await take_one(store)).owner_id == job.job_id

    async def test_a_step_made_while_an_event_is_on_its_way_is_not_lost(self, store: Store) -> None:
        job = await claimed(store, webhook=HOOK)
        event = await take_one(store)
        await store.report(job, Progress(step="x", percent=50))
        assert await take(store) == []
        await store.record_progress(event, tried(), pace(0))
        assert len(await take(store)) == 1

    async def test_a_new_attempt_with_less_progress_is_reported(self, store: Store) -> None:
        job = await claimed(store, webhook=HOOK)
        await store.report(job, Progress(step="x", percent=60))
        await store.record_progress(await take_one(store), tried(), pace(60))
        again = Failed(JobError(code="X", message="x"), retry_at=utc_now())
        await store.finish(job, again)
        (job,) = await claim(store)
        await store.report(job, Progress(step="x", percent=1))
        assert len(await take(store)) == 1

    async def test_it_is_summed_up_in_one_entry_for_each_run(self, store: Store) -> None:
        job = await claimed(store, webhook=HOOK)
        for _ in range(3):
            await store.record_progress(await take_one(store), tried(), pace(due=NOW))
        await store.finish(job, Completed())
        await store.record_delivery(await take_one(store), tried())
        await store.restart(JobQuery(job_id=job.job_id))
        await store.record_progress(await take_one(store), tried(), pace())
        delivery = await deliveries(store, job)
        assert [(one.n, one.event, one.tried) for one in delivery] == [
            (1, "progress", 3),
            (2, "completed", 1),
            (3, "progress", 1),
        ]
        assert not any(one.gave_up for one in delivery)

    async def test_without_an_interval_only_the_outcome_is_sent(self, store: Store) -> None:
        job = await claimed(store, webhook=HOOK)
        await store.record_progress(await take_one(store), tried(410), None)
        await store.report(job, Progress(step="x", percent=50))
        assert await take(store) == []
        await store.finish(job, Completed())
        assert (await take_one(store)).delivery.event == "completed"

    async def test_the_end_waits_for_the_progress_that_is_on_its_way(self, store: Store) -> None:
        job = await claimed(store, webhook=HOOK)
        progress = await take_one(store)
        await store.finish(job, Completed())
        assert await take(store) == []
        await store.record_progress(progress, tried(), pace(due=NOW))
        (end,) = await take(store)
        assert end.delivery.event == "completed"
        await store.record_delivery(end, tried())
        assert await take(store) == []

    async def test_a_sender_that_lost_its_lease_cannot_release_the_event(
        self, store: Store
    ) -> None:
        """Otherwise a third sender would deliver the final event while another one still is."""
        job = await claimed(store, webhook=HOOK)
        lost = await take_one(store, lease=LAPSED)
        await store.finish(job, Completed())
        end = await take_one(store)
        await store.record_progress(lost, tried(), pace(due=NOW))
        assert await take(store) == []
        assert await store.renew_events([lost], HOUR) == []
        assert await store.renew_events([end], HOUR) == [end]

    async def test_a_failure_reported_after_the_lease_was_lost_changes_nothing(
        self, store: Store
    ) -> None:
        job = await ended(store)
        lost = await take_one(store, lease=LAPSED)
        again = await take_one(store)
        await store.record_delivery(lost, tried(500), next_try_at=utc_now())
        assert await take(store) == []
        await store.record_delivery(again, tried(200))
        (delivery,) = await deliveries(store, job)
        assert (delivery.tried, delivery.gave_up) == (2, False)
        assert await take(store) == []

    async def test_an_event_can_be_settled_without_an_attempt(self, store: Store) -> None:
        job = await ended(store)
        await store.record_delivery(await take_one(store), None)
        (delivery,) = await deliveries(store, job)
        assert (delivery.tried, delivery.next_try_at) == (0, None)
        assert await take(store) == []

    async def test_ends_come_before_progress(self, store: Store) -> None:
        open_jobs = [Job(webhook=HOOK) for _ in range(3)]
        for job in open_jobs:
            await store.add([job])
        await asyncio.sleep(1.1)
        done = Job(webhook=HOOK)
        await store.add([done])
        await store.cancel(JobQuery(job_id=done.job_id))
        first, _ = await take(store, limit=1)
        assert first.owner_id == done.job_id


class TestAgain:
    async def test_the_last_end_can_be_replayed_with_its_id(self, store: Store) -> None:
        job = await ended(store)
        event = await take_one(store)
        await store.record_delivery(event, tried())
        replayed = await store.replay_event(job.job_id, 1)
        assert replayed.delivered_at is None and replayed.replayed_at is not None
        again = await take_one(store)
        assert again.delivery.delivery_id == event.delivery.delivery_id
        assert (again.delivery.tried, len(again.delivery.tries)) == (0, 1)
        await store.record_delivery(again, tried())
        (delivery,) = await deliveries(store, job)
        assert delivery.delivered_at is not None
        assert len(delivery.tries) == 2

    async def test_what_was_given_up_can_be_replayed(self, store: Store) -> None:
        job = await ended(store)
        await store.record_delivery(await take_one(store), tried(410))
        assert not (await store.replay_event(job.job_id, 1)).gave_up
        assert (await take_one(store)).owner_id == job.job_id

    async def test_there_must_be_such_a_delivery(self, store: Store) -> None:
        job = await ended(store)
        for owner_id, n in ((job.job_id, 2), (job.job_id, 0), ("job-0", 1)):
            with pytest.raises(NotFound):
                await store.replay_event(owner_id, n)

    async def test_what_is_no_longer_true_cannot_be_replayed(self, store: Store) -> None:
        job = await claimed(store, webhook=HOOK)
        await store.record_progress(await take_one(store), tried(), pace())
        with pytest.raises(Conflict):
            await store.replay_event(job.job_id, 1)
        await store.finish(job, Completed())
        await store.record_delivery(await take_one(store), tried())
        await store.restart(JobQuery(job_id=job.job_id))
        with pytest.raises(Conflict):
            await store.replay_event(job.job_id, 2)
        (job,) = await claim(store)
        await store.finish(job, FAILED)
        with pytest.raises(Conflict):
            await store.replay_event(job.job_id, 2)
        assert (await store.replay_event(job.job_id, 3)).event == "error"

    async def test_a_restart_withdraws_undelivered_events(self, store: Store) -> None:
        job = await ended(store)
        await store.restart(JobQuery(job_id=job.job_id))
        assert await take(store) == []
        (withdrawn,) = await deliveries(store, job)
        assert withdrawn.gave_up
        (job,) = await claim(store)
        await store.finish(job, FAILED)
        event = await take_one(store)
        assert (event.delivery.event, event.delivery.n) == ("error", 2)

    async def test_a_try_that_ends_after_a_restart_is_recorded_and_no_more(
        self, store: Store
    ) -> None:
        job = await ended(store)
        event = await take_one(store)
        await store.restart(JobQuery(job_id=job.job_id))
        await store.record_delivery(event, tried(500), next_try_at=utc_now())
        assert await take(store) == []
        (delivery,) = await deliveries(store, job)
        assert (delivery.tried, delivery.next_try_at) == (1, None)

    async def test_a_deleted_job_has_no_events(self, store: Store) -> None:
        job = await ended(store)
        await store.delete(JobQuery(job_id=job.job_id))
        assert await take(store) == []
        with pytest.raises(NotFound):
            await store.replay_event(job.job_id, 1)

    async def test_recording_a_try_of_a_deleted_job_does_no_harm(self, store: Store) -> None:
        job = await ended(store)
        event = await take_one(store)
        await store.delete(JobQuery(job_id=job.job_id))
        await store.record_delivery(event, tried(500), next_try_at=utc_now())
        assert await take(store) == []


class TestBatches:
    async def test_the_end_of_a_batch_is_due_once(self, store: Store) -> None:
        batch, _ = await add_batch(store, 2, webhook=HOOK)
        await asyncio.sleep(1.1)
        assert await take(store) == []
        for job in await claim(store, slots=2):
            await store.finish(job, Completed())
        event = await take_one(store)
        assert (event.kind, event.owner_id) == ("batch", batch.batch_id)
        assert event.delivery.event == "completed"
        await store.record_delivery(event, tried(503), next_try_at=utc_now())
        await store.record_delivery(await take_one(store), tried())
        (delivery,) = (await store.get_batch(batch.batch_id)).deliveries
        assert (delivery.tried, delivery.gave_up) == (2, False)
        assert await take(store) == []

    async def test_a_batch_that_goes_on_has_not_ended(self, store: Store) -> None:
        batch, _ = await add_batch(store, 1, webhook=HOOK)
        (job,) = await claim(store)
        await store.finish(job, FAILED)
        await store.restart(JobQuery(batch_id=batch.batch_id))
        assert await take(store) == []
        with pytest.raises(Conflict):
            await store.replay_event(batch.batch_id, 1)
        (job,) = await claim(store)
        await store.finish(job, Completed())
        event = await take_one(store)
        assert (event.delivery.event, event.delivery.n) == ("completed", 2)

    async def test_it_can_be_replayed(self, store: Store) -> None:
        batch, _ = await add_batch(store, 1, webhook=HOOK)
        (job,) = await claim(store)
        await store.finish(job, Completed())
        event = await take_one(store)
        await store.record_delivery(event, tried())
        await store.replay_event(batch.batch_id, 1)
        assert (await take_one(store)).delivery.delivery_id == event.delivery.delivery_id


async def test_the_store_reports_since_when_an_event_is_due(store: Store) -> None:
    assert await store.next_event_due_at() is None
    before = utc_now()
    await ended(store)
    due = await store.next_event_due_at()
    assert due is not None
    assert before - timedelta(seconds=1) <= due <= utc_now()
    event = await take_one(store)
    held = await store.next_event_due_at()
    assert held is not None and held > utc_now()
    await store.record_delivery(event, tried())
    assert await store.next_event_due_at() is None
