"""What every store guarantees to clients. A new store passes this file unchanged."""

import asyncio
from datetime import timedelta

import pytest

from secretary.core.errors import Conflict, NotFound
from secretary.core.job import (
    AccessControl,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    Progress,
    Released,
    Webhook,
    utc_now,
)
from secretary.store import BatchQuery, IdempotencyKey, JobQuery, Store

from .factories import claim, claimed

ERROR = JobError(code="UPSTREAM_FAILED", message="503", details={"service": "ocr"})
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def only(job: Job) -> JobQuery:
    return JobQuery(job_id=job.job_id)


class TestWaiting:
    async def test_the_waiting_time_of_the_next_job_of_each_type_is_reported(
        self, store: Store
    ) -> None:
        assert await store.waiting_since() == {}
        first, second = Job(job_type="pdf"), Job(job_type="pdf")
        for job in (first, second, Job(job_type="pdf", priority=5), Job(job_type="audio")):
            await store.add([job])
        since = await store.waiting_since()
        assert (set(since), since["pdf"]) == ({"pdf", "audio"}, first.created_at)
        await claim(store, slots=2, job_types={"pdf"})
        assert (await store.waiting_since())["pdf"] == second.created_at

    async def test_who_may_not_start_yet_does_not_wait(self, store: Store) -> None:
        await store.add([Job(run_at=utc_now() + timedelta(hours=1))])
        await claimed(store)
        assert await store.waiting_since() == {}

    async def test_waiting_begins_when_the_time_has_come(self, store: Store) -> None:
        job = Job(run_at=utc_now() - timedelta(minutes=1))
        early = job.model_copy(update={"created_at": utc_now() - timedelta(hours=1)})
        await store.add([early])
        assert await store.waiting_since() == {early.job_type: early.run_at}

    async def test_a_job_that_goes_back_waits_from_then_on(self, store: Store) -> None:
        job = await claimed(store, created_at=utc_now() - timedelta(hours=1))
        before = utc_now()
        await store.finish(job, Released())
        assert (await store.waiting_since())["pdf"] >= before


class TestReading:
    async def test_a_job_comes_back_as_it_was_added(self, store: Store) -> None:
        job = Job(
            job_type="pdf",
            job_name="Annual report",
            parameters={"url": "a.pdf", "x": [1, {"ü": None}], "extra": {"y": 1.5, "z": True}},
            user_id="ann",
            access_control=AccessControl(read_access=("bob",)),
            webhook=Webhook(url="https://example.org/hook", secret="whsec_x", headers={"A": "b"}),
            priority=5,
            timeout_s=12.5,
            max_attempts=4,
            traceparent=TRACE,
        )
        await store.add([job])
        assert await store.get(job.job_id) == job.model_copy(update={"updated_at": job.created_at})

    async def test_an_unknown_id_is_not_found(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.get("job-none")

    async def test_a_job_is_stored_once_only(self, store: Store) -> None:
        job = Job()
        await store.add([job])
        with pytest.raises(Conflict):
            await store.add([job])

    async def test_any_text_comes_back_as_it_was(self, store: Store) -> None:
        parameters = {"a.b": {"$c": "\ud800 \u0000 ü 𝄞"}, "": [2**62, -1.5, True, None]}
        job = await claimed(store, parameters=parameters)
        await store.finish(job, Completed({"text": "half a pair: \udc00"}))
        read = await store.get(job.job_id)
        assert (job.parameters, read.parameters) == (parameters, parameters)
        assert read.results == {"text": "half a pair: \udc00"}

    async def test_big_results_come_back_whole(self, store: Store) -> None:
        job = await claimed(store)
        results = {"extracted_text": "ä" * 9_000_000, "page_texts": ["x"] * 1000}
        await store.finish(job, Completed(results))
        assert (await store.get(job.job_id)).results == results


class TestFinding:
    async def test_the_newest_come_first_page_by_page(self, store: Store) -> None:
        jobs = [Job(job_type="pdf") for _ in range(7)]
        for job in jobs:
            await store.add([job])
        seen, cursor = [], None
        for size in (3, 3, 1):
            page = await store.find(JobQuery(limit=3, cursor=cursor))
            assert len(page.items) == size
            seen += [job.job_id for job in page.items]
            cursor = page.next_cursor
        assert cursor is None
        assert seen == [job.job_id for job in reversed(jobs)]

    async def test_a_page_goes_on_where_the_last_ended_though_jobs_were_added(
        self, store: Store
    ) -> None:
        jobs = [Job() for _ in range(4)]
        for job in jobs:
            await store.add([job])
        first = await store.find(JobQuery(limit=2))
        await store.add([Job()])
        second = await store.find(JobQuery(limit=2, cursor=first.next_cursor))
        assert [job.job_id for job in second.items] == [jobs[1].job_id, jobs[0].job_id]

    async def test_jobs_may_be_deleted_while_they_are_listed(self, store: Store) -> None:
        async def delete() -> None:
            for job in jobs:
                await store.delete(only(job))

        jobs = [Job() for _ in range(100)]
        for job in jobs:
            await store.add([job])
            await store.cancel(only(job))
        deleting = asyncio.create_task(delete())
        while not deleting.done():
            remaining = (await store.find(JobQuery())).items
            assert len({job.job_id for job in remaining}) == len(remaining)
        await deleting
        assert not (await store.find(JobQuery())).items

    async def test_terms_hold_together(self, store: Store) -> None:
        wanted = Job(job_type="pdf", user_id="ann", job_name="Report for March")
        await store.add([wanted])
        await store.add([Job(job_type="pdf", user_id="bob")])
        await store.add([Job(job_type="audio", user_id="ann")])
        for query in (
            JobQuery(job_type="pdf", user_id="ann"),
            JobQuery(text="march", status=frozenset({JobStatus.PENDING, JobStatus.FAILED})),
            JobQuery(text=wanted.job_id),
            JobQuery(job_id=wanted.job_id, created_before=utc_now() + timedelta(hours=1)),
        ):
            assert [job.job_id for job in (await store.find(query)).items] == [wanted.job_id]
        assert not (await store.find(JobQuery(created_before=wanted.created_at))).items

    @pytest.mark.parametrize("text", ["my_", "100%", "y_r", "MY_REPORT"])
    async def test_a_text_is_found_as_it_is_written(self, store: Store, text: str) -> None:
        await store.add([Job(job_name="my_report 100%")])
        await store.add([Job(job_name="myXreport 1000")])
        jobs = (await store.find(JobQuery(text=text))).items
        assert [job.job_name for job in jobs] == ["my_report 100%"]

    async def test_a_strange_text_can_be_looked_for(self, store: Store) -> None:
        await store.add([Job(job_name="another")])
        await store.find(JobQuery(text="\0"))  # a character that neither database can search for
        for text in ("[(*", "\\", "$", "'", '"'):
            assert (await store.find(JobQuery(text=text))).items == []

    @pytest.mark.parametrize("cursor", ["", "x", "1", "a.b", "99999999999999999999999999.1", "."])
    async def test_a_cursor_that_no_list_gave_out_is_refused(
        self, store: Store, cursor: str
    ) -> None:
        with pytest.raises(ValueError):
            await store.find(JobQuery(cursor=cursor))
        with pytest.raises(ValueError):
            await store.find_batches(BatchQuery(cursor=cursor))

    async def test_states_and_error_codes_are_found(self, store: Store) -> None:
        failed = await claimed(store)
        await store.finish(failed, Failed(ERROR))
        done = await claimed(store)
        await store.finish(done, Completed())
        both = frozenset({JobStatus.FAILED, JobStatus.COMPLETED})
        jobs = (await store.find(JobQuery(status=both))).items
        assert [job.job_id for job in jobs] == [done.job_id, failed.job_id]
        jobs = (await store.find(JobQuery(error_code="UPSTREAM_FAILED"))).items
        assert [job.job_id for job in jobs] == [failed.job_id]

    async def test_results_and_logs_are_left_out_unless_asked_for(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Completed({"text": "hello"}))
        (short,) = (await store.find(JobQuery())).items
        (whole,) = (await store.find(JobQuery(include=frozenset({"results"})))).items
        assert (short.results, whole.results) == (None, {"text": "hello"})

    async def test_a_user_sees_only_what_he_may_read(self, store: Store) -> None:
        private = Job(job_type="a", user_id="ann")
        public = Job(job_type="b", user_id="ann", access_control=AccessControl(visibility="public"))
        shared = Job(
            job_type="c", user_id="ann", access_control=AccessControl(read_access=("bob",))
        )
        nobodys = Job(job_type="d")
        his = Job(job_type="e", user_id="bob")
        for job in (private, public, shared, nobodys, his):
            await store.add([job])

        async def visible_to(user: str | None) -> str:
            page = await store.find(JobQuery(visible_to=user))
            return "".join(job.job_type for job in page.items)

        assert await visible_to("bob") == "edcb"
        assert await visible_to("ann") == "dcba"
        assert await visible_to("eve") == "db"
        assert await visible_to(None) == "edcba"

    async def test_a_users_pages_have_no_gaps(self, store: Store) -> None:
        for n in range(10):
            await store.add([Job(job_type=str(n), user_id=("bob", None)[n % 2])])
        first = await store.find(JobQuery(visible_to="bob", limit=4))
        second = await store.find(JobQuery(visible_to="bob", limit=8, cursor=first.next_cursor))
        types = "".join(job.job_type for job in [*first.items, *second.items])
        assert types == "9876543210"


class TestIdempotency:
    async def test_the_same_key_and_request_is_answered_alike(self, store: Store) -> None:
        key = IdempotencyKey("k", "body-1")
        first = await store.add([Job()], idempotency=key)
        again = await store.add([Job()], idempotency=key)
        assert again.job_ids == first.job_ids
        assert (first.replayed, again.replayed) == (False, True)
        assert len((await store.find(JobQuery())).items) == 1

    async def test_the_same_key_with_another_request_is_a_conflict(self, store: Store) -> None:
        await store.add([Job()], idempotency=IdempotencyKey("k", "body-1"))
        with pytest.raises(Conflict):
            await store.add([Job()], idempotency=IdempotencyKey("k", "body-2"))
        assert len((await store.find(JobQuery())).items) == 1

    async def test_keys_of_different_users_do_not_meet(self, store: Store) -> None:
        first = await store.add([Job()], idempotency=IdempotencyKey("k", "x", scope="ann"))
        other = await store.add([Job()], idempotency=IdempotencyKey("k", "y", scope="bob"))
        assert first.job_ids != other.job_ids

    async def test_a_hundred_equal_requests_at_once_make_one_job(self, store: Store) -> None:
        key = IdempotencyKey("k", "body")
        added = await asyncio.gather(*(store.add([Job()], idempotency=key) for _ in range(100)))
        assert len({answer.job_ids[0] for answer in added}) == 1
        assert len((await store.find(JobQuery())).items) == 1

    async def test_an_old_key_is_forgotten(self, store: Store) -> None:
        past = utc_now() - timedelta(seconds=1)
        await store.add([Job()], idempotency=IdempotencyKey("k", "x", expires_at=past))
        again = await store.add([Job()], idempotency=IdempotencyKey("k", "y"))
        assert not again.replayed


class TestCancelling:
    async def test_a_pending_job_ends_at_once(self, store: Store) -> None:
        job = Job()
        await store.add([job])
        assert await store.cancel(only(job)) == [job.job_id]
        ended = await store.get(job.job_id)
        assert ended.status is JobStatus.CANCELLED
        assert ended.error is not None and ended.error.code == "CANCELLED"
        assert ended.completed_at is not None
        assert await claim(store) == []

    async def test_a_running_job_names_its_worker(self, store: Store) -> None:
        job = await claimed(store)
        assert await store.cancel(only(job)) == [job.job_id]
        running = await store.get(job.job_id)
        assert (running.status, running.cancel_requested) == (JobStatus.PROCESSING, True)
        assert await store.cancel(only(job)) == []

    async def test_an_ended_job_is_left_alone(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Completed())
        assert await store.cancel(only(job)) == []
        assert (await store.get(job.job_id)).status is JobStatus.COMPLETED

    async def test_cancelling_wakes_who_waits(self, store: Store) -> None:
        job = await claimed(store)
        since = await store.wait(-1, seconds=0)
        waiting = asyncio.create_task(store.wait(since, seconds=30))
        await asyncio.sleep(0)
        await store.cancel(only(job))
        assert await asyncio.wait_for(waiting, 10) != since


class TestRestarting:
    async def test_a_failed_job_starts_anew(self, store: Store) -> None:
        job = await claimed(store)
        await store.report(job, Progress(step="reading", percent=50))
        await store.finish(job, Failed(ERROR))
        assert await store.restart(only(job)) == [job.job_id]
        fresh = await store.get(job.job_id)
        assert (fresh.status, fresh.error, fresh.results) == (JobStatus.PENDING, None, None)
        assert (fresh.progress, fresh.completed_at) == (Progress(), None)
        assert (fresh.failures, fresh.crashes, fresh.cancel_requested) == (0, 0, False)
        (again,) = await claim(store)
        assert (again.job_id, again.attempt) == (job.job_id, 2)

    async def test_the_attempts_before_stay_readable(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Failed(ERROR))
        await store.restart(only(job))
        (attempt,) = (await store.get(job.job_id)).attempts
        assert (attempt.attempt, attempt.worker_id, attempt.error) == (1, "worker-1", ERROR)
        assert attempt.ended_at is not None

    async def test_a_running_or_pending_job_is_left_alone(self, store: Store) -> None:
        running, pending = await claimed(store), Job()
        await store.add([pending])
        assert await store.restart(only(running)) == []
        assert await store.restart(only(pending)) == []


class TestArchivingAndDeleting:
    async def test_an_archived_job_is_hidden_from_the_default_list(self, store: Store) -> None:
        job = Job()
        await store.add([job])
        assert await store.archive(only(job)) == [job.job_id]
        assert not (await store.find(JobQuery(archived=False))).items
        assert (await store.get(job.job_id)).archived
        assert await store.archive(only(job), archived=False) == [job.job_id]
        assert (await store.find(JobQuery(archived=False))).items

    async def test_an_ended_job_can_be_deleted(self, store: Store) -> None:
        job = await claimed(store)
        await store.finish(job, Completed({"text": "x"}))
        assert await store.delete(only(job)) == [job.job_id]
        with pytest.raises(NotFound):
            await store.get(job.job_id)

    async def test_a_running_or_pending_job_is_not_deleted(self, store: Store) -> None:
        running, pending = await claimed(store), Job()
        await store.add([pending])
        assert await store.delete(only(running)) == []
        assert await store.delete(only(pending)) == []

    async def test_changes_by_filter_go_on_until_nothing_is_left(self, store: Store) -> None:
        for _ in range(5):
            await store.add([Job(job_type="pdf")])
        await store.add([Job(job_type="audio")])
        query = JobQuery(job_type="pdf", limit=2)
        sizes = [len(await store.cancel(query)) for _ in range(4)]
        assert sizes == [2, 2, 1, 0]

    async def test_ended_jobs_are_found_when_they_are_old(self, store: Store) -> None:
        done, failed = await claimed(store), await claimed(store)
        await store.finish(done, Completed())
        await store.finish(failed, Failed(ERROR))
        await store.add([Job()])
        future = utc_now() + timedelta(minutes=1)
        assert await store.expired({JobStatus.COMPLETED: future}, limit=10) == [done.job_id]
        both = {JobStatus.COMPLETED: future, JobStatus.FAILED: future}
        assert len(await store.expired(both, limit=1)) == 1
        past = utc_now() - timedelta(minutes=1)
        assert await store.expired({JobStatus.COMPLETED: past}, limit=10) == []


class TestCounting:
    async def test_jobs_are_counted_by_type_and_state(self, store: Store) -> None:
        done = await claimed(store)
        await store.finish(done, Completed())
        await store.add([Job(job_type="pdf")])
        await store.add([Job(job_type="audio")])
        assert await store.counts() == {
            "pdf": {JobStatus.COMPLETED: 1, JobStatus.PENDING: 1},
            "audio": {JobStatus.PENDING: 1},
        }
        await store.delete(only(done))
        assert (await store.counts())["pdf"] == {JobStatus.PENDING: 1}
