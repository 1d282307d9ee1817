import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from secretary.core.errors import AccessDenied, Conflict, InvalidParameters, NotFound
from secretary.core.job import Completed, Failed, Job, JobError, Outcome, utc_now
from secretary.core.processes import process_identity
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.jobs.submission import BatchRequest, JobRequest, parse_request
from secretary.network.client import Network
from secretary.observability.metrics import ServiceStats
from secretary.storage.artifacts import JobFiles
from secretary.store import BatchQuery, JobQuery, open_store
from secretary.store.claims import is_alive
from tests.contract.factories import claim, worker

FAILED = Failed(JobError(code="FILE_CORRUPT", message="It is torn"))


@pytest.fixture
async def job_service(tmp_path: Path) -> AsyncIterator[JobService]:
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield JobService(store, Registry(), JobFiles(tmp_path))
    await store.close()


async def submit(job_service: JobService, *, user: str | None = None, **document: Any) -> Job:
    return await job_service.submit(parse_request(JobRequest, document), user=user)


async def submit_batch(
    job_service: JobService, size: int, **document: Any
) -> tuple[str, list[str]]:
    document = {"jobs": [{}] * size, **document}
    batch, job_ids = await job_service.submit_batch(parse_request(BatchRequest, document))
    return batch.batch_id, job_ids


async def end_next(job_service: JobService, outcome: Outcome) -> Job:
    (job,) = await claim(job_service.store)
    await job_service.store.finish(job, outcome)
    return job


async def cannot_touch(job_service: JobService, batch_id: str, user: str) -> None:
    for ask in (
        job_service.cancel_batch,
        job_service.archive_batch,
        job_service.restart_failed,
        job_service.set_batch_active,
        job_service.delete_batch,
    ):
        with pytest.raises(AccessDenied):
            await ask(batch_id, user=user)


class TestOneJob:
    async def test_a_submitted_job_waits(self, job_service: JobService) -> None:
        job = await submit(job_service)
        assert (await job_service.job(job.job_id)).status == "pending"

    async def test_the_same_key_and_request_give_the_same_job(
        self, job_service: JobService
    ) -> None:
        request = parse_request(JobRequest, {"job_name": "once"})
        first = await job_service.submit(request, key="k")
        again = await job_service.submit(request, key="k")
        assert again.job_id == first.job_id
        assert len((await job_service.jobs(JobQuery())).items) == 1

    async def test_the_same_key_with_another_request_is_a_conflict(
        self, job_service: JobService
    ) -> None:
        await job_service.submit(parse_request(JobRequest, {"job_name": "one"}), key="k")
        with pytest.raises(Conflict):
            await job_service.submit(parse_request(JobRequest, {"job_name": "two"}), key="k")

    async def test_users_do_not_share_their_keys(self, job_service: JobService) -> None:
        request = parse_request(JobRequest, {})
        of_ann = await job_service.submit(request, user="ann", key="k")
        of_bob = await job_service.submit(request, user="bob", key="k")
        assert of_ann.job_id != of_bob.job_id

    async def test_cancelling_twice_does_no_harm(self, job_service: JobService) -> None:
        job = await submit(job_service)
        assert (await job_service.cancel(job.job_id)).status == "cancelled"
        assert (await job_service.cancel(job.job_id)).status == "cancelled"

    async def test_a_running_job_is_asked_to_stop(self, job_service: JobService) -> None:
        await submit(job_service)
        (running,) = await claim(job_service.store)
        job = await job_service.cancel(running.job_id)
        assert (job.status, job.cancel_requested) == ("processing", True)

    async def test_a_job_that_completed_cannot_be_cancelled(self, job_service: JobService) -> None:
        await submit(job_service)
        job = await end_next(job_service, Completed())
        with pytest.raises(Conflict, match="has already completed"):
            await job_service.cancel(job.job_id)

    async def test_an_ended_job_can_be_restarted_a_waiting_one_not(
        self, job_service: JobService
    ) -> None:
        await submit(job_service)
        job = await end_next(job_service, FAILED)
        restarted = await job_service.restart(job.job_id)
        assert (restarted.status, restarted.error) == ("pending", None)
        with pytest.raises(Conflict, match="is pending"):
            await job_service.restart(job.job_id)

    async def test_an_archived_job_can_still_be_read(self, job_service: JobService) -> None:
        job = await submit(job_service)
        assert (await job_service.archive(job.job_id)).archived
        assert (await job_service.jobs(JobQuery(archived=False))).items == []
        assert not (await job_service.archive(job.job_id, archived=False)).archived

    async def test_deleting_removes_the_files_too(self, job_service: JobService) -> None:
        await submit(job_service)
        job = await end_next(job_service, Completed())
        directory = Path(job_service.files.attempt_directory(job))
        directory.mkdir(parents=True)
        await job_service.delete(job.job_id)
        assert not directory.exists()
        with pytest.raises(NotFound):
            await job_service.job(job.job_id)

    async def test_a_job_that_has_not_ended_cannot_be_deleted(
        self, job_service: JobService
    ) -> None:
        job = await submit(job_service)
        with pytest.raises(Conflict, match="cancel it before"):
            await job_service.delete(job.job_id)

    async def test_a_made_up_cursor_is_refused(self, job_service: JobService) -> None:
        with pytest.raises(InvalidParameters, match="cursor"):
            await job_service.jobs(JobQuery(cursor="x"))
        with pytest.raises(InvalidParameters, match="cursor"):
            await job_service.batches(BatchQuery(cursor="x"))


class TestDeliveries:
    HOOK: ClassVar = {"url": "https://example.org/hook"}

    async def test_the_outcome_event_of_a_job_can_be_replayed(
        self, job_service: JobService
    ) -> None:
        await submit(job_service, webhook=self.HOOK)
        job = await end_next(job_service, Completed())
        delivery = await job_service.replay(job.job_id, 1)
        assert (delivery.n, delivery.event) == (1, "completed")
        assert delivery.replayed_at is not None

    async def test_the_sender_is_notified_of_new_events(self, job_service: JobService) -> None:
        notifications: list[str] = []
        job_service = replace(job_service, on_event=lambda: notifications.append("!"))
        job = await submit(job_service, webhook=self.HOOK)
        await job_service.cancel(job.job_id)
        await job_service.replay(job.job_id, 1)
        assert notifications == ["!", "!"]

    async def test_only_who_may_change_a_job_may_replay(self, job_service: JobService) -> None:
        access = {"read_access": ["bob"]}
        job = await submit(job_service, user="ann", webhook=self.HOOK, access_control=access)
        await job_service.cancel(job.job_id)
        with pytest.raises(NotFound):
            await job_service.replay(job.job_id, 1, user="eve")
        with pytest.raises(AccessDenied):
            await job_service.replay(job.job_id, 1, user="bob")

    async def test_a_url_that_may_not_be_reached_is_refused(self, job_service: JobService) -> None:
        job_service = replace(
            job_service, check_url=lambda url: Network().check(url, https_only=True)
        )
        for url in ("http://example.org/", "https://127.0.0.1/", "https://10.0.0.1/", "ftp://a.b/"):
            with pytest.raises(InvalidParameters, match=r"webhook\.url"):
                await submit(job_service, webhook={"url": url})
        await submit(job_service, webhook={"url": "https://example.org/{jobId}"})


class TestAccess:
    async def test_a_strangers_job_does_not_exist(self, job_service: JobService) -> None:
        job = await submit(job_service, user="ann")
        for ask in (
            job_service.job,
            job_service.cancel,
            job_service.restart,
            job_service.archive,
            job_service.delete,
        ):
            with pytest.raises(NotFound):
                await ask(job.job_id, user="eve")
        assert (await job_service.jobs(JobQuery(), user="eve")).items == []

    async def test_a_reader_may_look_but_not_touch(self, job_service: JobService) -> None:
        job = await submit(job_service, user="ann", access_control={"read_access": ["bob"]})
        assert (await job_service.job(job.job_id, user="bob")).job_id == job.job_id
        for ask in (
            job_service.cancel,
            job_service.restart,
            job_service.archive,
            job_service.delete,
        ):
            with pytest.raises(AccessDenied):
                await ask(job.job_id, user="bob")

    async def test_the_same_holds_for_batches(self, job_service: JobService) -> None:
        access = {"read_access": ["bob"]}
        batch_id, _ = await submit_batch(job_service, 1, user_id="ann", access_control=access)
        with pytest.raises(NotFound):
            await job_service.batch(batch_id, user="eve")
        await cannot_touch(job_service, batch_id, "bob")

    async def test_nobody_reaches_jobs_of_others_by_the_batch_that_they_are_in(
        self, job_service: JobService
    ) -> None:
        """Everyone may access a batch without a user, but not the jobs an operator put into it."""
        jobs = [{"user_id": "bob"}, {"user_id": "ann"}]
        batch_id, job_ids = await submit_batch(job_service, 2, jobs=jobs)
        await cannot_touch(job_service, batch_id, "bob")
        assert (await job_service.job(job_ids[1])).status == "pending"
        assert await job_service.cancel_batch(batch_id) == job_ids[::-1]


class TestBatches:
    async def test_a_batch_holds_its_jobs(self, job_service: JobService) -> None:
        batch_id, job_ids = await submit_batch(job_service, 3)
        assert {job.job_id for job in await job_service.jobs_of_batch(batch_id)} == set(job_ids)

    async def test_a_large_batch_is_changed_whole(self, job_service: JobService) -> None:
        batch_id, job_ids = await submit_batch(job_service, 2500)
        assert sorted(await job_service.cancel_batch(batch_id)) == sorted(job_ids)
        assert len(await job_service.jobs_of_batch(batch_id)) == 2500

    async def test_only_failed_jobs_are_restarted(self, job_service: JobService) -> None:
        batch_id, _ = await submit_batch(job_service, 2)
        await end_next(job_service, Completed())
        failed = await end_next(job_service, FAILED)
        assert await job_service.restart_failed(batch_id) == [failed.job_id]
        assert await job_service.restart_failed(batch_id) == []

    async def test_a_batch_can_be_paused_resumed_and_toggled(self, job_service: JobService) -> None:
        batch_id, _ = await submit_batch(job_service, 1)
        assert not (await job_service.set_batch_active(batch_id, False)).is_active
        assert not (await job_service.set_batch_active(batch_id, False)).is_active
        assert (await job_service.set_batch_active(batch_id)).is_active

    async def test_a_paused_batch_starts_nothing(self, job_service: JobService) -> None:
        await submit_batch(job_service, 1, isActive=False)
        assert await claim(job_service.store) == []

    async def test_a_batch_can_be_deleted_once_it_has_ended(self, job_service: JobService) -> None:
        batch_id, job_ids = await submit_batch(job_service, 2)
        with pytest.raises(Conflict, match="unfinished"):
            await job_service.delete_batch(batch_id)
        await job_service.cancel_batch(batch_id)
        await job_service.delete_batch(batch_id)
        with pytest.raises(NotFound):
            await job_service.batch(batch_id)
        with pytest.raises(NotFound):
            await job_service.job(job_ids[0])


class TestLongResults:
    async def test_a_list_has_as_many_as_fit_and_goes_on_behind_them(
        self, job_service: JobService
    ) -> None:
        for number in range(5):
            await submit(job_service, job_name=str(number))
            job = await end_next(job_service, Completed({"more_in": "texts.json"}))
            directory = Path(job_service.files.attempt_directory(job))
            directory.mkdir(parents=True)
            (directory / "texts.json").write_text(json.dumps({"text": "x" * 1000}))
        small = replace(job_service, max_results_bytes=2500)
        query = JobQuery(include=frozenset({"results"}))
        pages = [page := await small.jobs(query)]
        while page.next_cursor is not None:
            page = await small.jobs(query.model_copy(update={"cursor": page.next_cursor}))
            pages.append(page)
        assert [[job.job_name for job in page.items] for page in pages] == [
            ["4", "3"],
            ["2", "1"],
            ["0"],
        ]
        assert {len((job.results or {})["text"]) for page in pages for job in page.items} == {1000}
        assert len((await replace(job_service, max_results_bytes=1).jobs(query)).items) == 1
        assert len((await job_service.jobs(JobQuery())).items) == 5


class TestSkipping:
    async def test_it_passes_over_as_many_as_asked(self, job_service: JobService) -> None:
        await submit_batch(job_service, 2500)
        whole = [job.job_id for job in (await job_service.jobs(JobQuery(limit=1000))).items]
        part = await job_service.jobs_by_offset(990, JobQuery(limit=20))
        assert [job.job_id for job in part.items][:10] == whole[990:]
        assert (len(part.items), part.total, part.is_exact) == (20, 2500, True)
        part = await job_service.jobs_by_offset(2495, JobQuery(limit=20))
        assert len(part.items) == 5
        part = await job_service.jobs_by_offset(2500, JobQuery(limit=20))
        assert (part.items, part.total) == ([], 2500)

    async def test_a_long_list_is_counted_beyond_what_is_given(
        self, job_service: JobService
    ) -> None:
        for _ in range(2):
            await submit_batch(job_service, 6_000)
        part = await job_service.jobs_by_offset(0, JobQuery(limit=1))
        assert (part.total, part.is_exact) == (10_000, False)
        part = await job_service.jobs_by_offset(10_500, JobQuery(limit=500))
        assert (len(part.items), part.total, part.is_exact) == (500, 11_001, False)
        part = await job_service.jobs_by_offset(11_500, JobQuery(limit=500))
        assert (len(part.items), part.total, part.is_exact) == (500, 12_000, True)

    async def test_what_is_not_wanted_does_not_count(self, job_service: JobService) -> None:
        ids = [(await submit_batch(job_service, 1, batch_name=name))[0] for name in "abab"]
        part = await job_service.batches_by_offset(
            1, BatchQuery(limit=1), wanted=lambda batch: batch.batch_name == "a"
        )
        assert [batch.batch_id for batch in part.items] == ids[:1]
        assert part.total == 2

    async def test_skipping_too_many_jobs_is_refused(self, job_service: JobService) -> None:
        with pytest.raises(InvalidParameters, match="skip: 100,001 is more than 100,000"):
            await job_service.jobs_by_offset(100_001, JobQuery())


class TestWorkers:
    def test_a_worker_that_was_just_seen_is_alive(self) -> None:
        assert is_alive(worker())

    def test_a_worker_that_fell_silent_is_not(self) -> None:
        assert not is_alive(replace(worker(), seen_at=utc_now() - timedelta(minutes=1)))

    async def test_only_those_alive_are_listed(self, job_service: JobService) -> None:
        mine = process_identity(os.getpid())
        gone = f"{mine.rpartition('/')[0]}/1"
        for info in (
            replace(worker("here"), pid=os.getpid(), birth=mine),
            replace(worker("gone"), pid=os.getpid(), birth=gone),
        ):
            await job_service.store.register_worker(info, timedelta(seconds=60))
        alive = await ServiceStats(job_service).workers()
        assert [one.worker_id for one in alive] == ["here"]
