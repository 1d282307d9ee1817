import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from secretary.colleagues import is_alive
from secretary.desk import Desk
from secretary.errors import AccessDenied, Conflict, InvalidParameters, NotFound
from secretary.files import JobFiles
from secretary.job import Completed, Failed, Job, JobError, Outcome, utc_now
from secretary.machine import birth
from secretary.network.client import Network
from secretary.registry import Registry
from secretary.store import BatchQuery, JobQuery, open_store
from secretary.submission import BatchRequest, JobRequest, read
from tests.contract.given import claim, worker

FAILED = Failed(JobError(code="FILE_CORRUPT", message="It is torn"))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    store = open_store(f"sqlite://{tmp_path}/jobs.db")
    await store.open()
    yield Desk(store, Registry(), JobFiles(tmp_path))
    await store.close()


async def submit(desk: Desk, *, user: str | None = None, **document: Any) -> Job:
    return await desk.submit(read(JobRequest, document), user=user)


async def submit_batch(desk: Desk, size: int, **document: Any) -> tuple[str, list[str]]:
    document = {"jobs": [{}] * size, **document}
    batch, job_ids = await desk.submit_batch(read(BatchRequest, document))
    return batch.batch_id, job_ids


async def end_next(desk: Desk, outcome: Outcome) -> Job:
    (job,) = await claim(desk.store)
    await desk.store.finish(job, outcome)
    return job


async def cannot_touch(desk: Desk, batch_id: str, user: str) -> None:
    for ask in (
        desk.cancel_batch,
        desk.archive_batch,
        desk.restart_failed,
        desk.set_batch_active,
        desk.delete_batch,
    ):
        with pytest.raises(AccessDenied):
            await ask(batch_id, user=user)


class TestOneJob:
    async def test_a_submitted_job_waits(self, desk: Desk) -> None:
        job = await submit(desk)
        assert (await desk.job(job.job_id)).status == "pending"

    async def test_the_same_key_and_request_give_the_same_job(self, desk: Desk) -> None:
        request = read(JobRequest, {"job_name": "once"})
        first = await desk.submit(request, key="k")
        again = await desk.submit(request, key="k")
        assert again.job_id == first.job_id
        assert len((await desk.jobs(JobQuery())).items) == 1

    async def test_the_same_key_with_another_request_is_a_conflict(self, desk: Desk) -> None:
        await desk.submit(read(JobRequest, {"job_name": "one"}), key="k")
        with pytest.raises(Conflict):
            await desk.submit(read(JobRequest, {"job_name": "two"}), key="k")

    async def test_users_do_not_share_their_keys(self, desk: Desk) -> None:
        request = read(JobRequest, {})
        of_ann = await desk.submit(request, user="ann", key="k")
        of_bob = await desk.submit(request, user="bob", key="k")
        assert of_ann.job_id != of_bob.job_id

    async def test_cancelling_twice_does_no_harm(self, desk: Desk) -> None:
        job = await submit(desk)
        assert (await desk.cancel(job.job_id)).status == "cancelled"
        assert (await desk.cancel(job.job_id)).status == "cancelled"

    async def test_a_running_job_is_asked_to_stop(self, desk: Desk) -> None:
        await submit(desk)
        (running,) = await claim(desk.store)
        job = await desk.cancel(running.job_id)
        assert (job.status, job.cancel_requested) == ("processing", True)

    async def test_a_job_that_completed_cannot_be_cancelled(self, desk: Desk) -> None:
        await submit(desk)
        job = await end_next(desk, Completed())
        with pytest.raises(Conflict, match="has already completed"):
            await desk.cancel(job.job_id)

    async def test_an_ended_job_can_be_restarted_a_waiting_one_not(self, desk: Desk) -> None:
        await submit(desk)
        job = await end_next(desk, FAILED)
        restarted = await desk.restart(job.job_id)
        assert (restarted.status, restarted.error) == ("pending", None)
        with pytest.raises(Conflict, match="is pending"):
            await desk.restart(job.job_id)

    async def test_an_archived_job_can_still_be_read(self, desk: Desk) -> None:
        job = await submit(desk)
        assert (await desk.archive(job.job_id)).archived
        assert (await desk.jobs(JobQuery(archived=False))).items == []
        assert not (await desk.archive(job.job_id, archived=False)).archived

    async def test_deleting_removes_the_files_too(self, desk: Desk) -> None:
        await submit(desk)
        job = await end_next(desk, Completed())
        directory = Path(desk.files.of_attempt(job))
        directory.mkdir(parents=True)
        await desk.delete(job.job_id)
        assert not directory.exists()
        with pytest.raises(NotFound):
            await desk.job(job.job_id)

    async def test_a_job_that_has_not_ended_cannot_be_deleted(self, desk: Desk) -> None:
        job = await submit(desk)
        with pytest.raises(Conflict, match="cancel it before"):
            await desk.delete(job.job_id)

    async def test_a_made_up_cursor_is_refused(self, desk: Desk) -> None:
        with pytest.raises(InvalidParameters, match="cursor"):
            await desk.jobs(JobQuery(cursor="x"))
        with pytest.raises(InvalidParameters, match="cursor"):
            await desk.batches(BatchQuery(cursor="x"))


class TestDeliveries:
    HOOK: ClassVar = {"url": "https://example.org/hook"}

    async def test_the_end_of_a_job_can_be_told_again(self, desk: Desk) -> None:
        await submit(desk, webhook=self.HOOK)
        job = await end_next(desk, Completed())
        delivery = await desk.replay(job.job_id, 1)
        assert (delivery.n, delivery.event) == (1, "completed")
        assert delivery.replayed_at is not None

    async def test_who_sends_is_told_of_what_there_is_to_send(self, desk: Desk) -> None:
        news: list[str] = []
        desk = replace(desk, on_event=lambda: news.append("!"))
        job = await submit(desk, webhook=self.HOOK)
        await desk.cancel(job.job_id)
        await desk.replay(job.job_id, 1)
        assert news == ["!", "!"]

    async def test_only_who_may_change_a_job_may_replay(self, desk: Desk) -> None:
        access = {"read_access": ["bob"]}
        job = await submit(desk, user="ann", webhook=self.HOOK, access_control=access)
        await desk.cancel(job.job_id)
        with pytest.raises(NotFound):
            await desk.replay(job.job_id, 1, user="eve")
        with pytest.raises(AccessDenied):
            await desk.replay(job.job_id, 1, user="bob")

    async def test_a_url_that_may_not_be_reached_is_refused(self, desk: Desk) -> None:
        desk = replace(desk, check_url=lambda url: Network().check(url, https_only=True))
        for url in ("http://example.org/", "https://127.0.0.1/", "https://10.0.0.1/", "ftp://a.b/"):
            with pytest.raises(InvalidParameters, match=r"webhook\.url"):
                await submit(desk, webhook={"url": url})
        await submit(desk, webhook={"url": "https://example.org/{jobId}"})


class TestAccess:
    async def test_a_strangers_job_does_not_exist(self, desk: Desk) -> None:
        job = await submit(desk, user="ann")
        for ask in (desk.job, desk.cancel, desk.restart, desk.archive, desk.delete):
            with pytest.raises(NotFound):
                await ask(job.job_id, user="eve")
        assert (await desk.jobs(JobQuery(), user="eve")).items == []

    async def test_a_reader_may_look_but_not_touch(self, desk: Desk) -> None:
        job = await submit(desk, user="ann", access_control={"read_access": ["bob"]})
        assert (await desk.job(job.job_id, user="bob")).job_id == job.job_id
        for ask in (desk.cancel, desk.restart, desk.archive, desk.delete):
            with pytest.raises(AccessDenied):
                await ask(job.job_id, user="bob")

    async def test_the_same_holds_for_batches(self, desk: Desk) -> None:
        access = {"read_access": ["bob"]}
        batch_id, _ = await submit_batch(desk, 1, user_id="ann", access_control=access)
        with pytest.raises(NotFound):
            await desk.batch(batch_id, user="eve")
        await cannot_touch(desk, batch_id, "bob")

    async def test_nobody_reaches_jobs_of_others_by_the_batch_that_they_are_in(
        self, desk: Desk
    ) -> None:
        """A batch without a user is everybody's; the jobs that an operator put into it are not."""
        jobs = [{"user_id": "bob"}, {"user_id": "ann"}]
        batch_id, job_ids = await submit_batch(desk, 2, jobs=jobs)
        await cannot_touch(desk, batch_id, "bob")
        assert (await desk.job(job_ids[1])).status == "pending"
        assert await desk.cancel_batch(batch_id) == job_ids[::-1]


class TestBatches:
    async def test_a_batch_holds_its_jobs(self, desk: Desk) -> None:
        batch_id, job_ids = await submit_batch(desk, 3)
        assert {job.job_id for job in await desk.jobs_of_batch(batch_id)} == set(job_ids)

    async def test_a_large_batch_is_changed_whole(self, desk: Desk) -> None:
        batch_id, job_ids = await submit_batch(desk, 2500)
        assert sorted(await desk.cancel_batch(batch_id)) == sorted(job_ids)
        assert len(await desk.jobs_of_batch(batch_id)) == 2500

    async def test_only_failed_jobs_are_restarted(self, desk: Desk) -> None:
        batch_id, _ = await submit_batch(desk, 2)
        await end_next(desk, Completed())
        failed = await end_next(desk, FAILED)
        assert await desk.restart_failed(batch_id) == [failed.job_id]
        assert await desk.restart_failed(batch_id) == []

    async def test_a_batch_can_be_paused_resumed_and_toggled(self, desk: Desk) -> None:
        batch_id, _ = await submit_batch(desk, 1)
        assert not (await desk.set_batch_active(batch_id, False)).is_active
        assert not (await desk.set_batch_active(batch_id, False)).is_active
        assert (await desk.set_batch_active(batch_id)).is_active

    async def test_a_paused_batch_starts_nothing(self, desk: Desk) -> None:
        await submit_batch(desk, 1, isActive=False)
        assert await claim(desk.store) == []

    async def test_a_batch_can_be_deleted_once_it_has_ended(self, desk: Desk) -> None:
        batch_id, job_ids = await submit_batch(desk, 2)
        with pytest.raises(Conflict, match="unfinished"):
            await desk.delete_batch(batch_id)
        await desk.cancel_batch(batch_id)
        await desk.delete_batch(batch_id)
        with pytest.raises(NotFound):
            await desk.batch(batch_id)
        with pytest.raises(NotFound):
            await desk.job(job_ids[0])


class TestLongResults:
    async def test_a_list_has_as_many_as_fit_and_goes_on_behind_them(self, desk: Desk) -> None:
        for number in range(5):
            await submit(desk, job_name=str(number))
            job = await end_next(desk, Completed({"more_in": "texts.json"}))
            directory = Path(desk.files.of_attempt(job))
            directory.mkdir(parents=True)
            (directory / "texts.json").write_text(json.dumps({"text": "x" * 1000}))
        small = replace(desk, max_results_bytes=2500)
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
        assert len((await replace(desk, max_results_bytes=1).jobs(query)).items) == 1
        assert len((await desk.jobs(JobQuery())).items) == 5


class TestSkipping:
    async def test_it_passes_over_as_many_as_asked(self, desk: Desk) -> None:
        await submit_batch(desk, 2500)
        whole = [job.job_id for job in (await desk.jobs(JobQuery(limit=1000))).items]
        part = await desk.jobs_from(990, JobQuery(limit=20))
        assert [job.job_id for job in part.items][:10] == whole[990:]
        assert (len(part.items), part.total, part.is_exact) == (20, 2500, True)
        part = await desk.jobs_from(2495, JobQuery(limit=20))
        assert len(part.items) == 5
        part = await desk.jobs_from(2500, JobQuery(limit=20))
        assert (part.items, part.total) == ([], 2500)

    async def test_a_long_list_is_counted_beyond_what_is_given(self, desk: Desk) -> None:
        for _ in range(2):
            await submit_batch(desk, 6_000)
        part = await desk.jobs_from(0, JobQuery(limit=1))
        assert (part.total, part.is_exact) == (10_000, False)
        part = await desk.jobs_from(10_500, JobQuery(limit=500))
        assert (len(part.items), part.total, part.is_exact) == (500, 11_001, False)
        part = await desk.jobs_from(11_500, JobQuery(limit=500))
        assert (len(part.items), part.total, part.is_exact) == (500, 12_000, True)

    async def test_what_is_not_wanted_does_not_count(self, desk: Desk) -> None:
        ids = [(await submit_batch(desk, 1, batch_name=name))[0] for name in "abab"]
        part = await desk.batches_from(
            1, BatchQuery(limit=1), wanted=lambda batch: batch.batch_name == "a"
        )
        assert [batch.batch_id for batch in part.items] == ids[:1]
        assert part.total == 2

    async def test_who_skips_too_much_is_told(self, desk: Desk) -> None:
        with pytest.raises(InvalidParameters, match="skip: 100,001 is more than 100,000"):
            await desk.jobs_from(100_001, JobQuery())


class TestWorkers:
    def test_a_worker_that_was_just_seen_is_alive(self) -> None:
        assert is_alive(worker())

    def test_a_worker_that_fell_silent_is_not(self) -> None:
        assert not is_alive(replace(worker(), seen_at=utc_now() - timedelta(minutes=1)))

    async def test_only_those_alive_are_listed(self, desk: Desk) -> None:
        mine = birth(os.getpid())
        gone = f"{mine.rpartition('/')[0]}/1"
        for info in (
            replace(worker("here"), pid=os.getpid(), birth=mine),
            replace(worker("gone"), pid=os.getpid(), birth=gone),
        ):
            await desk.store.enlist(info, timedelta(seconds=60))
        assert [one.worker_id for one in await desk.workers_alive()] == ["here"]
