"""What every store guarantees about usage and retention. A new store passes this file unchanged."""

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest

from secretary.core.errors import Conflict, QuotaExceeded
from secretary.core.job import (
    Batch,
    Cancelled,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    Webhook,
    utc_now,
)
from secretary.store import (
    CallbackKey,
    IdempotencyKey,
    JobCharge,
    JobQuery,
    Store,
    Usage,
    open_store,
)
from secretary.store.stats import USAGE_RETENTION, quota_exceeded

from .factories import claim, claimed

DAY = date(2026, 11, 18)
FAILED = Failed(JobError(code="FILE_CORRUPT", message="torn"))


def jobs_for(user: str, number: int = 1, *, limit: int | None = None) -> list[JobCharge]:
    return [JobCharge(user, DAY, number, limit)]


async def add(store: Store, charges: list[JobCharge], **fields: object) -> Job:
    job = Job(job_type="pdf", **fields)  # type: ignore[arg-type]
    await store.add([job], charges=charges)
    return job


class TestJobsPerDay:
    async def test_parallel_submissions_to_two_processes_do_not_exceed_the_limit(
        self, store: Store, store_url: str
    ) -> None:
        other = open_store(store_url)
        await other.open()
        try:
            stores = [store, other] * 50
            added = await asyncio.gather(
                *(add(one, jobs_for("ann", limit=10)) for one in stores), return_exceptions=True
            )
        finally:
            await other.close()
        assert sum(isinstance(one, Job) for one in added) == 10
        assert sum(isinstance(one, QuotaExceeded) for one in added) == 90
        assert await store.usage(DAY, "ann") == Usage(jobs=10, users=1)
        assert len((await store.find(JobQuery(limit=1000))).items) == 10

    async def test_a_refusal_names_the_limit_the_usage_and_when_it_resets(
        self, store: Store
    ) -> None:
        await add(store, jobs_for("ann", limit=1))
        with pytest.raises(QuotaExceeded) as refused:
            await add(store, jobs_for("ann", limit=1))
        assert refused.value.details == {
            "quota": "jobs_per_day",
            "limit": 1,
            "used": 1,
            "requested": 1,
            "resets_at": "2026-11-19T00:00:00Z",
        }
        assert str(refused.value) == (
            "The quota of 1 jobs per day is used up (1 used, 1 requested);"
            " it resets at 2026-11-19T00:00:00Z"
        )

    async def test_users_and_days_are_counted_apart(self, store: Store) -> None:
        await add(store, jobs_for("ann", limit=1))
        await add(store, jobs_for("ben", limit=1))
        await add(store, [JobCharge("ann", DAY + timedelta(days=1), 1, 1)])
        assert (await store.usage(DAY, "ann")).jobs == 1
        assert await store.usage(DAY) == Usage(jobs=2, users=2)

    async def test_a_batch_fits_as_a_whole_or_is_refused_as_a_whole(self, store: Store) -> None:
        async def submit(number: int, charges: list[JobCharge]) -> None:
            batch = Batch()
            jobs = [Job(job_type="pdf", batch_id=batch.batch_id) for _ in range(number)]
            await store.add(jobs, batch=batch, charges=charges)

        await submit(3, jobs_for("ann", 3, limit=5))
        both = [*jobs_for("ben", 1, limit=5), *jobs_for("ann", 3, limit=5)]
        with pytest.raises(QuotaExceeded):
            await submit(4, both)
        with pytest.raises(QuotaExceeded):
            await submit(6, jobs_for("eve", 6, limit=5))
        assert (await store.usage(DAY)).jobs == 3
        assert len((await store.find(JobQuery())).items) == 3

    async def test_a_repeated_request_neither_counts_nor_is_refused(self, store: Store) -> None:
        key = IdempotencyKey("k", "the request")
        first = Job(job_type="pdf")
        await store.add([first], idempotency=key, charges=jobs_for("ann", limit=1))
        again = await store.add(
            [Job(job_type="pdf")], idempotency=key, charges=jobs_for("ann", limit=1)
        )
        assert (again.job_ids, again.replayed) == ([first.job_id], True)
        assert (await store.usage(DAY, "ann")).jobs == 1

    async def test_a_refused_request_can_be_repeated_with_its_key_later(self, store: Store) -> None:
        key = IdempotencyKey("k", "the request")
        await add(store, jobs_for("ann", limit=1))
        with pytest.raises(QuotaExceeded):
            await store.add(
                [Job(job_type="pdf")], idempotency=key, charges=jobs_for("ann", limit=1)
            )
        tomorrow = [JobCharge("ann", DAY + timedelta(days=1), 1, 1)]
        added = await store.add([Job(job_type="pdf")], idempotency=key, charges=tomorrow)
        assert (await store.get(added.job_ids[0])).status is JobStatus.PENDING

    async def test_a_job_submitted_again_for_its_callback_counts_only_if_it_is_a_new_one(
        self, store: Store
    ) -> None:
        def job(token: str) -> Job:
            return Job(job_type="pdf", webhook=Webhook(url="https://a.example", token=token))

        limited = jobs_for("ann", limit=1)
        first = job("T1")
        await store.add([first], callback=CallbackKey("one", "request"), charges=limited)
        again = await store.add(
            [job("T2")], callback=CallbackKey("one", "request"), charges=limited
        )
        assert again.replayed
        with pytest.raises(QuotaExceeded):
            await store.add([job("T3")], callback=CallbackKey("one", "other"), charges=limited)
        assert (await store.get(first.job_id)).status is JobStatus.PENDING
        assert (await store.usage(DAY, "ann")).jobs == 1

    async def test_a_job_that_is_not_stored_does_not_count(self, store: Store) -> None:
        job = await add(store, jobs_for("ann", limit=2))
        with pytest.raises(Conflict):
            await store.add([job], charges=jobs_for("ann", limit=2))
        assert (await store.usage(DAY, "ann")).jobs == 1

    async def test_another_used_up_quota_refuses_new_jobs_but_no_repetition(
        self, store: Store
    ) -> None:
        refusal = quota_exceeded(
            "pages_per_day", 10, 12, resets_at=datetime(2026, 11, 19, tzinfo=UTC)
        )
        key = IdempotencyKey("k", "the request")
        await store.add([Job(job_type="pdf")], idempotency=key, charges=jobs_for("ann"))
        refused = [JobCharge("ann", DAY, 1, None, refusal)]
        assert (await store.add([Job(job_type="pdf")], idempotency=key, charges=refused)).replayed
        with pytest.raises(QuotaExceeded, match="10 pages per day"):
            await store.add([Job(job_type="pdf")], charges=refused)
        assert (await store.usage(DAY, "ann")).jobs == 1

    async def test_restarted_jobs_are_charged_and_given_back_on_their_own(
        self, store: Store
    ) -> None:
        await store.charge(jobs_for("ann", 2, limit=2))
        with pytest.raises(QuotaExceeded):
            await store.charge(jobs_for("ann", 1, limit=2))
        await store.charge(jobs_for("ann", -1))
        await store.charge(jobs_for("ann", 1, limit=2))
        assert (await store.usage(DAY, "ann")).jobs == 2


class TestUsage:
    async def test_pages_and_audio_add_up_per_day_and_user(self, store: Store) -> None:
        job = await claimed(store, user_id="ann")
        await store.add_usage(job, pages=3, audio_seconds=0)
        await store.add_usage(job, pages=2, audio_seconds=1.5)
        today = utc_now().date()
        assert await store.usage(today, "ann") == Usage(pages=5, audio_seconds=1.5, users=1)
        await store.charge([JobCharge("ann", today, 1, 1)])
        assert (await store.usage(today, "ann")).jobs == 1
        assert await store.usage(today, "ben") == Usage()

    async def test_it_survives_a_restart_and_is_dropped_after_some_weeks(
        self, store: Store, store_url: str
    ) -> None:
        today = utc_now().date()
        old = today - USAGE_RETENTION - timedelta(days=1)
        await store.charge([JobCharge("ann", today, 1), JobCharge("ann", old, 1)])
        again = open_store(store_url)
        await again.open()
        try:
            assert (await again.usage(today, "ann")).jobs == 1
            await again.tidy()
            assert (await again.usage(today, "ann")).jobs == 1
            assert (await again.usage(old, "ann")).jobs == 0
        finally:
            await again.close()

    async def test_files_count_until_their_job_is_deleted(self, store: Store) -> None:
        job = await claimed(store, user_id="ann", stored_bytes=100)
        await store.add([Job(job_type="office", user_id="ann", stored_bytes=10**10)])
        await store.add([Job(job_type="office", user_id="ben", stored_bytes=5)])
        await store.add([Job(job_type="office", user_id="ann")])
        assert await store.stored_bytes("ann") == 10**10 + 100
        await store.add_usage(job, pages=0, audio_seconds=0, stored_bytes=40)
        await store.finish(job, Completed({}))
        assert (await store.get(job.job_id)).stored_bytes == 40
        assert await store.stored_bytes("ann") == 10**10 + 40
        await store.delete(JobQuery(job_id=job.job_id))
        assert await store.stored_bytes("ann") == 10**10
        assert await store.stored_bytes("nobody") == 0

    async def test_files_that_were_removed_no_longer_count(self, store: Store) -> None:
        job = await claimed(store, user_id="ann", stored_bytes=100)
        await store.finish(job, FAILED)
        assert await store.stored_bytes("ann") == 100
        await store.forget_files(job.job_id)
        assert await store.stored_bytes("ann") == 0

    async def test_an_old_attempt_does_not_change_the_size(self, store: Store) -> None:
        old = await claimed(store, user_id="ann", stored_bytes=100)
        await store.rescue(dead=[old.worker_id or ""])
        await claim(store, "worker-2")
        await store.add_usage(old, pages=1, audio_seconds=0, stored_bytes=7)
        assert await store.stored_bytes("ann") == 100


class TestRetention:
    async def finished(self, store: Store, days: float | None) -> Job:
        job = await claimed(store, retention_days=days)
        await store.finish(job, Completed({}))
        return job

    async def test_a_jobs_own_retention_takes_precedence(self, store: Store) -> None:
        instant = 0.000_001 / 86_400  # a microsecond
        soon = await self.finished(store, instant)
        await self.finished(store, 30)
        await self.finished(store, 0)
        default = await self.finished(store, None)
        assert await store.expired({}, limit=10) == [soon.job_id]
        everything = {JobStatus.COMPLETED: utc_now() + timedelta(seconds=1)}
        assert await store.expired(everything, limit=10) == [soon.job_id, default.job_id]
        assert await store.expired(everything, limit=1) == [soon.job_id]

    @pytest.mark.parametrize("outcome", [FAILED, Cancelled()])
    async def test_it_counts_from_the_end_however_the_job_ends(
        self, store: Store, outcome: Failed | Cancelled
    ) -> None:
        job = await claimed(store, retention_days=0.000_001 / 86_400)
        assert await store.expired({}, limit=10) == []
        await store.finish(job, outcome)
        assert await store.expired({}, limit=10) == [job.job_id]
        await store.restart(JobQuery(job_id=job.job_id))
        assert await store.expired({}, limit=10) == []

    async def test_a_job_that_is_cancelled_before_it_starts_expires_too(self, store: Store) -> None:
        job = Job(job_type="pdf", retention_days=0.000_001 / 86_400)
        await store.add([job])
        await store.cancel(JobQuery(job_id=job.job_id))
        assert await store.expired({}, limit=10) == [job.job_id]

    async def test_jobs_and_batches_keep_it(self, store: Store) -> None:
        batch = Batch(retention_days=2.5)
        job = Job(job_type="pdf", batch_id=batch.batch_id, retention_days=0.5)
        await store.add([job], batch=batch)
        assert (await store.get_batch(batch.batch_id)).retention_days == 2.5
        (claimed_job,) = await claim(store)
        assert (claimed_job.retention_days, claimed_job.expires_at) == (0.5, None)
        await store.finish(claimed_job, Completed({}))
        done = await store.get(job.job_id)
        assert done.completed_at is not None
        assert done.expires_at == done.completed_at + timedelta(hours=12)
