"""What every store guarantees to workers. A new store passes this file unchanged."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from secretary.core.errors import LeaseLost
from secretary.core.job import (
    MAX_LOG_ENTRIES,
    Cancelled,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    Progress,
    Released,
    Webhook,
    utc_now,
)
from secretary.store import Capacity, JobQuery, Store

from .factories import LAPSED, LEASE, claim, claimed, lose_workers, worker

ERROR = JobError(code="UPSTREAM_FAILED", message="503", details={"service": "ocr"})
HOOK = Webhook(url="https://example.org/hook")


async def add(store: Store, count: int = 1, **fields: object) -> list[str]:
    jobs = [Job.model_validate({"job_type": "pdf", **fields}) for _ in range(count)]
    for job in jobs:
        await store.add([job])
    return [job.job_id for job in jobs]


def ids(jobs: list[Job]) -> list[str]:
    return [job.job_id for job in jobs]


class TestClaiming:
    async def test_a_claimed_job_is_processing_in_its_first_attempt(self, store: Store) -> None:
        job = await claimed(store)
        stored = await store.get(job.job_id)
        assert (job.status, job.attempt, job.worker_id) == (JobStatus.PROCESSING, 1, "worker-1")
        assert stored == job
        assert stored.processing_started_at is not None

    async def test_a_claimed_job_carries_its_trace(self, store: Store) -> None:
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        assert (await claimed(store, traceparent=trace)).traceparent == trace

    async def test_first_in_first_out(self, store: Store) -> None:
        added = [(await add(store, job_type=kind))[0] for kind in ("pdf", "pdf", "audio", "pdf")]
        order = [(await claim(store))[0].job_id for _ in added]
        assert order == added

    async def test_several_are_claimed_at_once_in_order(self, store: Store) -> None:
        added = await add(store, 5)
        assert ids(await claim(store, slots=3)) == added[:3]
        assert ids(await claim(store, slots=3)) == added[3:]
        assert await claim(store, slots=3) == []

    async def test_a_job_is_never_claimed_twice(self, store: Store) -> None:
        added = await add(store, 20)
        for n in range(10):
            await store.register_worker(worker(f"w{n}"), LEASE)
        claims = await asyncio.gather(
            *(store.claim(f"w{n % 10}", Capacity(slots=2)) for n in range(40))
        )
        taken = [job_id for jobs in claims for job_id in ids(jobs)]
        assert len(taken) == len(set(taken))
        while more := await claim(store, slots=5):  # some claims may have conflicted
            taken += ids(more)
        assert sorted(taken) == sorted(added)

    async def test_higher_priority_goes_first(self, store: Store) -> None:
        (low,) = await add(store, priority=-1)
        (normal,) = await add(store)
        (urgent,) = await add(store, priority=10)
        assert ids(await claim(store, slots=3)) == [urgent, normal, low]

    async def test_only_the_asked_types_are_claimed(self, store: Store) -> None:
        await add(store, job_type="audio")
        (pdf,) = await add(store, job_type="pdf")
        assert ids(await claim(store, slots=5, job_types={"pdf"})) == [pdf]

    async def test_a_type_that_is_left_to_others_stays_for_them(self, store: Store) -> None:
        theirs, ours = await add(store, job_type="future") + await add(store)
        (job,) = await claim(store, slots=2, excluded_types={"future"})
        assert job.job_id == ours
        (job,) = await claim(store, "worker-2", slots=2)
        assert job.job_id == theirs

    async def test_types_that_wait_for_the_network_have_slots_of_their_own(
        self, store: Store
    ) -> None:
        pdfs = await add(store, 3)
        chats = await add(store, 3, job_type="chat")
        wanted: dict[str, Any] = {"io_types": {"chat"}}
        assert ids(await claim(store, slots=1, io_slots=2, **wanted)) == [pdfs[0], *chats[:2]]
        assert ids(await claim(store, slots=0, io_slots=2, **wanted)) == [chats[2]]
        await add(store, 1, job_type="chat")
        assert ids(await claim(store, slots=5, io_slots=0, **wanted)) == pdfs[1:]

    async def test_limits_per_type_and_user_hold_for_the_other_slots_too(
        self, store: Store
    ) -> None:
        wanted: dict[str, Any] = {"slots": 1, "io_slots": 9, "io_types": {"chat", "track"}}
        await add(store, 4, job_type="chat", user_id="ann")
        await add(store, 2, job_type="track", user_id="bob")
        limits: dict[str, Any] = {"max_per_type": {"chat": 3}, "max_per_user": 2}
        jobs = await claim(store, **wanted, **limits)
        assert sorted(str(job.user_id) for job in jobs) == ["ann", "ann", "bob", "bob"]
        jobs = await claim(store, **wanted, max_per_type={"chat": 3})
        assert [job.job_type for job in jobs] == ["chat"]

    async def test_a_job_waits_for_its_time(self, store: Store) -> None:
        await add(store, run_at=utc_now() + timedelta(hours=1), priority=50)
        (due,) = await add(store, run_at=utc_now() - timedelta(seconds=1))
        assert ids(await claim(store, slots=5)) == [due]

    async def test_users_are_served_fairly(self, store: Store) -> None:
        many = await add(store, 6, user_id="ann")
        (one,) = await add(store, user_id="bob")
        assert one in ids(await claim(store, slots=2))
        await add(store, 3, user_id="cid")
        jobs = await claim(store, slots=4)
        users = [str(job.user_id) for job in jobs]
        assert sorted(users[:2]) == ["ann", "cid"] and sorted(users[2:]) == ["ann", "cid"]
        assert [job.job_id for job in jobs if job.user_id == "ann"] == many[1:3]

    async def test_a_job_that_a_deploy_interrupted_does_not_wait_behind_those_that_came_later(
        self, store: Store
    ) -> None:
        first, *others = await add(store, 4, user_id="ann")
        (job,) = await claim(store)
        assert job.job_id == first
        await store.finish(job, Released())
        assert ids(await claim(store, slots=4)) == [first, *others]

    async def test_nor_does_one_whose_worker_vanished(self, store: Store) -> None:
        first, *others = await add(store, 4, user_id="ann")
        (job,) = await claim(store, "worker-0", lease=LAPSED)
        assert job.job_id == first
        await store.rescue()
        assert ids(await claim(store, slots=4)) == [first, *others]

    async def test_one_that_failed_and_is_tried_again_does(self, store: Store) -> None:
        first, *others = await add(store, 3, user_id="ann")
        (job,) = await claim(store)
        await store.finish(job, Failed(ERROR, retry_at=utc_now()))
        assert ids(await claim(store, slots=3)) == [*others, first]

    async def test_a_users_backlog_of_one_type_does_not_hold_up_anothers_of_another_type(
        self, store: Store
    ) -> None:
        await add(store, 5, job_type="pdf", user_id="ann")
        (other,) = await add(store, job_type="audio", user_id="bob")
        first, second = await claim(store), await claim(store)
        assert other in ids([*first, *second])

    async def test_no_more_of_a_type_run_than_allowed(self, store: Store) -> None:
        await add(store, 3, job_type="pdf")
        await add(store, job_type="audio")
        limits: dict[str, Any] = {"max_per_type": {"pdf": 2}, "slots": 10}
        first = await claim(store, **limits)
        assert sorted(job.job_type for job in first) == ["audio", "pdf", "pdf"]
        assert await claim(store, "worker-2", **limits) == []
        pdf = next(job for job in first if job.job_type == "pdf")
        await store.finish(pdf, Completed())
        assert len(await claim(store, "worker-2", **limits)) == 1

    async def test_no_more_of_a_user_run_than_allowed(self, store: Store) -> None:
        await add(store, 4, user_id="ann")
        await add(store, 1, user_id="bob")
        limits: dict[str, Any] = {"max_per_user": 2, "slots": 10}
        users = sorted(str(job.user_id) for job in await claim(store, **limits))
        assert users == ["ann", "ann", "bob"]
        assert await claim(store, "worker-2", **limits) == []

    async def test_adding_a_job_wakes_who_waits(self, store: Store) -> None:
        since = await store.wait(-1, seconds=0)
        waiting = asyncio.create_task(store.wait(since, seconds=30))
        await asyncio.sleep(0)
        await store.add([Job()])
        assert await asyncio.wait_for(waiting, 10) != since

    async def test_waiting_ends_by_itself(self, store: Store) -> None:
        since = await store.wait(-1, seconds=0)
        await asyncio.wait_for(store.wait(since, seconds=0.01), 5)


class TestLeases:
    async def test_a_worker_must_be_enlisted(self, store: Store) -> None:
        with pytest.raises(LeaseLost):
            await store.claim("nobody", Capacity(slots=1))
        with pytest.raises(LeaseLost):
            await store.renew("nobody", LEASE)

    async def test_renewing_a_lease_returns_held_and_cancelled_jobs(self, store: Store) -> None:
        wanted, unwanted = await claimed(store), await claimed(store)
        await store.cancel(JobQuery(job_id=unwanted.job_id))
        renewal = await store.renew("worker-1", LEASE)
        assert renewal.attempts == {wanted.job_id: 1, unwanted.job_id: 1}
        assert renewal.cancelled == {unwanted.job_id}

    async def test_a_lapsed_lease_gives_the_job_back(self, store: Store) -> None:
        job = await claimed(store, lease=LAPSED)
        (rescued,) = await store.rescue()
        assert (rescued.job_id, rescued.attempt, rescued.failed) == (job.job_id, 1, False)
        (again,) = await claim(store, "worker-2")
        assert (again.job_id, again.attempt, again.crashes, again.losses) == (job.job_id, 2, 0, 1)

    async def test_a_renewed_lease_keeps_the_job(self, store: Store) -> None:
        await claimed(store, lease=timedelta(milliseconds=1))
        await store.renew("worker-1", LEASE)
        assert await store.rescue() == []

    async def test_the_jobs_of_a_dead_worker_come_back_at_once(self, store: Store) -> None:
        job = await claimed(store)
        assert await store.rescue() == []
        assert [r.job_id for r in await store.rescue(dead=["worker-1"])] == [job.job_id]

    async def test_a_cancelled_job_is_not_run_again_when_its_worker_dies(
        self, store: Store
    ) -> None:
        await store.add([Job(job_type="pdf")])
        await lose_workers(store, 3)
        (job,) = await claim(store, lease=LAPSED)
        await store.cancel(JobQuery(job_id=job.job_id))
        (rescued,) = await store.rescue()
        assert (rescued.failed, rescued.cancelled) == (False, True)
        assert (await store.get(job.job_id)).status is JobStatus.CANCELLED

    async def test_a_worker_that_lost_its_lease_can_write_nothing(self, store: Store) -> None:
        stale = await claimed(store, lease=LAPSED)
        await store.rescue()
        with pytest.raises(LeaseLost):
            await store.renew("worker-1", LEASE)
        (owner,) = await claim(store, "worker-2")
        before = await store.get(stale.job_id)
        for write in (
            store.report(stale, Progress(step="zombie", percent=99)),
            store.report(stale, logs=[LogEntry(message="zombie")]),
            store.finish(stale, Completed({"by": "zombie"})),
            store.finish(stale, Failed(ERROR, retry_at=utc_now())),
            store.finish(stale, Released()),
        ):
            with pytest.raises(LeaseLost):
                await write
        assert await store.get(stale.job_id) == before
        await store.finish(owner, Completed({"by": "worker-2"}))
        assert (await store.get(stale.job_id)).results == {"by": "worker-2"}

    async def test_a_worker_reports_its_job_types_and_capabilities(self, store: Store) -> None:
        registered = replace(worker(), job_types=["pdf", "future"], handles=["pdf"])
        await store.register_worker(registered, LEASE)
        (stored,) = await store.workers()
        assert (stored.job_types, stored.handles) == (["pdf", "future"], ["pdf"])

    async def test_a_worker_is_seen_until_it_is_dismissed(self, store: Store) -> None:
        await store.register_worker(worker("worker-9"), LEASE)
        (seen,) = await store.workers()
        assert (seen.worker_id, seen.slots, seen.host) == ("worker-9", 3, "here")
        await store.unregister_worker("worker-9")
        assert await store.workers() == []


class TestReporting:
    async def test_progress_never_goes_backwards_within_an_attempt(self, store: Store) -> None:
        job = await claimed(store)
        await store.report(job, Progress(step="b", percent=60, message="half"))
        await store.report(job, Progress(step="c", percent=40))
        stored = await store.get(job.job_id)
        assert stored.progress == Progress(step="c", percent=60)
        assert stored.processing_started_at == job.processing_started_at

    async def test_logs_are_kept_in_order(self, store: Store) -> None:
        job = await claimed(store)
        await store.report(job, logs=[LogEntry(message="one"), LogEntry(message="two")])
        await store.report(job, logs=[LogEntry(level="error", message="three")])
        logs = (await store.get(job.job_id)).logs
        assert [entry.message for entry in logs] == ["one", "two", "three"]
        assert logs[2].level == "error"

    async def test_the_oldest_logs_are_dropped_and_the_drop_is_marked(self, store: Store) -> None:
        job = await claimed(store)
        for start in range(0, MAX_LOG_ENTRIES + 250, 250):
            entries = [LogEntry(message=str(n)) for n in range(start, start + 250)]
            await store.report(job, logs=entries)
        logs = (await store.get(job.job_id)).logs
        assert len(logs) <= MAX_LOG_ENTRIES + 1
        assert "250 older entries were dropped" in logs[0].message
        assert (logs[1].message, logs[-1].message) == ("250", str(MAX_LOG_ENTRIES + 249))

    async def test_a_huge_log_message_is_cut(self, store: Store) -> None:
        job = await claimed(store)
        await store.report(job, logs=[LogEntry(message="x" * 1_000_000)])
        (entry,) = (await store.get(job.job_id)).logs
        assert len(entry.message) < 5000


class TestFinishing:
    async def test_a_completed_job_has_its_results_and_times(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Completed({"text": "x"}), resources={"cpu_seconds": 1.5})
        done = await store.get(job.job_id)
        assert (done.status, done.results, done.error) == (
            JobStatus.COMPLETED, {"text": "x"}, None,
        )  # fmt: skip
        assert (done.progress.percent, done.resources) == (100, {"cpu_seconds": 1.5})
        assert done.completed_at is not None and done.attempts[0].ended_at == done.completed_at

    async def test_a_failed_job_has_its_error(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Failed(ERROR))
        failed = await store.get(job.job_id)
        assert (failed.status, failed.error, failed.failures) == (JobStatus.FAILED, ERROR, 1)

    async def test_a_failure_with_a_retry_time_waits_until_then(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Failed(ERROR, retry_at=utc_now() + timedelta(hours=1)))
        waiting = await store.get(job.job_id)
        assert (waiting.status, waiting.error, waiting.failures) == (JobStatus.PENDING, ERROR, 1)
        assert [attempt.error for attempt in waiting.attempts] == [ERROR]
        assert await claim(store) == []

    async def test_a_retry_runs_when_its_time_has_come(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Failed(ERROR, retry_at=utc_now() - timedelta(seconds=1)))
        (again,) = await claim(store)
        await store.finish(again, Completed({"ok": True}))
        done = await store.get(job.job_id)
        assert (done.attempt, done.error, done.status) == (2, None, JobStatus.COMPLETED)
        assert [attempt.error for attempt in done.attempts] == [ERROR, None]

    async def test_a_crash_is_counted_apart_from_failures(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Failed(ERROR, retry_at=utc_now(), crashed=True))
        waiting = await store.get(job.job_id)
        assert (waiting.failures, waiting.crashes) == (0, 1)

    async def test_a_released_job_costs_nothing_and_runs_again(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Released())
        (again,) = await claim(store, "worker-2")
        assert (again.job_id, again.failures, again.crashes) == (job.job_id, 0, 0)
        assert again.attempt == 2

    async def test_a_cancelled_job_is_not_tried_again(self, store: Store) -> None:
        for outcome in (Released(), Failed(ERROR, retry_at=utc_now()), Cancelled()):
            job = await claimed(store)
            await store.cancel(JobQuery(job_id=job.job_id))
            await store.finish(job, outcome)
            assert (await store.get(job.job_id)).status is JobStatus.CANCELLED

    async def test_a_job_ends_once(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Completed({"n": 1}))
        with pytest.raises(LeaseLost):
            await store.finish(job, Completed({"n": 2}))
        assert (await store.get(job.job_id)).results == {"n": 1}

    async def test_a_final_state_carries_the_duty_to_tell_the_webhook(self, store: Store) -> None:
        done, failed, retried, quiet = [
            await claimed(store, webhook=hook) for hook in (HOOK, HOOK, HOOK, None)
        ]
        await store.finish(done, Completed())
        await store.finish(failed, Failed(ERROR))
        await store.finish(retried, Failed(ERROR, retry_at=utc_now() + timedelta(hours=1)))
        await store.finish(quiet, Completed())
        events = [
            [delivery.event for delivery in (await store.get(job.job_id)).deliveries]
            for job in (done, failed, retried, quiet)
        ]
        assert events == [["completed"], ["error"], [], []]

    async def test_cancelling_a_pending_job_notifies_its_webhook(self, store: Store) -> None:
        job = Job(webhook=HOOK)
        await store.add([job])
        await store.cancel(JobQuery(job_id=job.job_id))
        (delivery,) = (await store.get(job.job_id)).deliveries
        assert (delivery.event, delivery.delivered_at) == ("error", None)


async def test_a_store_that_responds_can_be_written(store: Store) -> None:
    await store.check_writable()
