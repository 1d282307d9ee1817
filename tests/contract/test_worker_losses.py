"""What becomes of the jobs of a lost worker: innocent ones complete, a culprit is found."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from secretary.core.job import (
    Batch,
    Completed,
    Failed,
    Job,
    JobError,
    JobStatus,
    Released,
    Webhook,
    utc_now,
)
from secretary.store import JobQuery, Store, open_store
from secretary.store.claims import GROUPS, STRIKE_EVERY

from .factories import LAPSED, LEASE, add_batch, claim, lose_workers, worker

HOOK = Webhook(url="https://example.org/hook")
ERROR = JobError(code="UPSTREAM_FAILED", message="503")


async def suspect(store: Store, **fields: Any) -> str:
    """A job that has to run alone."""
    job = Job(**{"job_type": "pdf", **fields})
    await store.add([job])
    await lose_workers(store, 2)
    assert (await store.get(job.job_id)).group_size == 1
    return job.job_id


def ids(jobs: Sequence[Job]) -> list[str]:
    return [job.job_id for job in jobs]


async def complete(store: Store, jobs: Sequence[Job]) -> None:
    for job in jobs:
        await store.finish(job, Completed())


class TestVerdicts:
    async def test_a_job_that_takes_its_worker_down_alone_twice_fails(self, store: Store) -> None:
        job = Job(job_type="pdf", webhook=HOOK)
        await store.add([job])
        for _ in range(3):
            (rescued,) = await lose_workers(store, 1)
            assert not rescued.failed
        (rescued,) = await lose_workers(store, 1)
        failed = await store.get(job.job_id)
        assert (rescued.failed, failed.status) == (True, JobStatus.FAILED)
        assert (failed.crashes, failed.failures, failed.losses) == (0, 0, 4)
        assert failed.error is not None and failed.error.code == "WORKER_CRASHED"
        assert failed.error.message == "The job took its worker down 2 times while it ran alone"
        assert failed.error.details == {"worker_id": rescued.worker_id, "losses": 4}
        assert [delivery.event for delivery in failed.deliveries] == ["error"]
        assert [attempt.error and attempt.error.message for attempt in failed.attempts] == [
            *["The worker was lost while running the job"] * 3,
            failed.error.message,
        ]
        assert "the next attempt runs alone" in failed.logs[1].message

    async def test_a_job_that_kills_its_workers_fails_and_the_seven_beside_it_complete(
        self, store: Store
    ) -> None:
        _, jobs = await add_batch(store, 8)
        culprit, *innocent = ids(jobs)
        deaths = 0
        while claimed := await claim(store, f"worker-{deaths}", slots=8):
            if culprit in ids(claimed):
                deaths += 1
                await store.rescue(dead=[str(claimed[0].worker_id)])
            else:
                await complete(store, claimed)
        assert deaths == 4
        assert (await store.get(culprit)).status is JobStatus.FAILED
        ends = {(await store.get(job_id)).status for job_id in innocent}
        assert ends == {JobStatus.COMPLETED}

    async def test_a_job_on_a_machine_that_is_paused_again_and_again_completes(
        self, store: Store
    ) -> None:
        await store.add([Job(job_type="pdf")])
        for n in range(12):
            (job,) = await claim(store, f"worker-{n}", lease=LAPSED, busy=1)
            (rescued,) = await store.rescue()
            assert not rescued.failed
            back = worker(f"worker-{n}-back")
            await store.register_worker(back, LEASE, survived=[(job.job_id, job.attempt)])
        (job,) = await claim(store, busy=1)
        assert (job.attempt, job.losses, job.strikes, job.crashes) == (13, 0, 0, 0)
        await store.finish(job, Completed())

    async def test_a_suspect_is_cleared_when_its_worker_returns(self, store: Store) -> None:
        await store.add([Job(job_type="pdf")])
        await lose_workers(store, 1)
        (job,) = await claim(store, lease=LAPSED)
        (rescued,) = await store.rescue()
        assert rescued.suspect
        survived = [(job.job_id, job.attempt)]
        await store.register_worker(worker("returned"), LEASE, survived=survived)
        (again,) = await claim(store, busy=1)
        assert (again.job_id, again.strikes, again.group_size) == (job.job_id, 0, None)

    async def test_nor_is_one_that_another_worker_already_runs_a_suspect_then(
        self, store: Store
    ) -> None:
        (job,) = [await store.get(await suspect(store))]
        (running,) = await claim(store)
        await store.register_worker(worker("returned"), LEASE, survived=[(job.job_id, job.attempt)])
        assert (await store.get(job.job_id)).losses == 0
        await store.finish(running, Completed())

    async def test_a_job_on_workers_that_are_killed_one_after_the_other_completes(
        self, store: Store
    ) -> None:
        """Workers without the job die too, so their deaths prove nothing."""
        await store.add([Job(job_type="pdf")])
        for n in range(3 * STRIKE_EVERY):
            await claim(store, f"worker-{n}")
            await store.register_worker(worker(f"idle-{n}"), LEASE)
            (rescued,) = await store.rescue(dead=[f"worker-{n}", f"idle-{n}"])
            assert not rescued.failed
        await complete(store, await claim(store))

    async def test_a_lost_worker_that_had_run_a_job_before_proves_nothing_about_it(
        self, store: Store
    ) -> None:
        job_id = await suspect(store)
        (job,) = await claim(store, "earlier")
        await store.finish(job, Released())
        (rescued,) = await lose_workers(store, 1)  # alone, for the first time
        assert (await store.get(job_id)).strikes == 3
        await store.rescue(dead=["earlier"])
        (rescued,) = await lose_workers(store, 1)
        assert not rescued.failed

    async def test_workers_that_are_lost_all_at_once_make_no_suspects(self, store: Store) -> None:
        _, jobs = await add_batch(store, 6)
        for n in range(2):
            workers = [f"{name}-{n}" for name in "abc"]
            for name in workers:
                await claim(store, name, slots=2)
            rescued = await store.rescue(dead=workers)
            assert len(rescued) == 6 and not any(one.suspect for one in rescued)
        assert sorted(ids(await claim(store, slots=6))) == sorted(ids(jobs))

    async def test_a_job_that_takes_the_whole_fleet_down_fails_too(self, store: Store) -> None:
        job = Job(job_type="pdf")
        await store.add([job])
        for n in range(4 * STRIKE_EVERY):
            await claim(store, f"worker-{n}")
            await store.register_worker(worker(f"idle-{n}"), LEASE)
            await store.rescue(dead=[f"worker-{n}", f"idle-{n}"])
        assert (await store.get(job.job_id)).status is JobStatus.FAILED

    async def test_many_suspects_run_in_groups_that_shrink_to_one(self, store: Store) -> None:
        size = 2 * GROUPS
        await add_batch(store, size)
        await lose_workers(store, 2, slots=size)
        group = await claim(store, slots=size)
        assert len(group) == 2
        (first, second) = await store.rescue(dead=["worker-1"])
        assert not (first.failed or second.failed)
        alone = [await store.get(one.job_id) for one in (first, second)]
        assert [job.group_size for job in alone] == [1, 1]

    async def test_a_restarted_job_is_no_suspect(self, store: Store) -> None:
        job_id = await suspect(store)
        await lose_workers(store, 2)
        await store.restart(JobQuery(job_id=job_id))
        (job,) = await claim(store, busy=1)
        assert (job.losses, job.strikes, job.group_size) == (0, 0, None)


class TestTurns:
    async def test_a_suspect_runs_alone(self, store: Store) -> None:
        job_id = await suspect(store)
        (other,) = ids((await add_batch(store, 1))[1])
        assert ids(await claim(store, slots=3)) == [job_id]
        assert ids(await claim(store, "worker-2", slots=3)) == [other]

    async def test_a_busy_worker_stops_claiming_until_it_is_idle_and_can_run_a_suspect(
        self, store: Store
    ) -> None:
        job_id = await suspect(store)
        await add_batch(store, 5)
        assert await claim(store, slots=2, busy=1) == []
        assert ids(await claim(store, slots=3)) == [job_id]

    async def test_one_worker_prepares_for_a_suspect_and_the_others_go_on(
        self, store: Store
    ) -> None:
        await suspect(store)
        await add_batch(store, 5)
        assert await claim(store, slots=2, busy=1) == []
        assert len(await claim(store, "worker-2", slots=2, busy=1)) == 2
        assert await claim(store, slots=2, busy=1) == []

    async def test_a_worker_goes_on_when_another_has_taken_the_suspect(self, store: Store) -> None:
        await suspect(store)
        await add_batch(store, 5)
        assert await claim(store, slots=2, busy=1) == []
        assert len(await claim(store, "worker-2", slots=3)) == 1
        assert len(await claim(store, slots=2, busy=1)) == 2

    async def test_suspects_and_others_take_turns_on_an_idle_worker(self, store: Store) -> None:
        job_id = await suspect(store)
        (other,) = ids((await add_batch(store, 1))[1])
        assert ids(await claim(store, slots=3, suspects_first=False)) == [other]
        assert ids(await claim(store, slots=3, suspects_first=False)) == [job_id]

    async def test_a_suspect_of_another_worker_does_not_hold_up_a_busy_one(
        self, store: Store
    ) -> None:
        await suspect(store, job_type="audio")
        (other,) = ids((await add_batch(store, 1))[1])
        assert ids(await claim(store, busy=1, job_types={"pdf"})) == [other]
        assert await claim(store, job_types={"pdf"}) == []

    async def test_limits_hold_for_suspects(self, store: Store) -> None:
        job_id = await suspect(store, user_id="ann")
        await store.add([Job(job_type="audio", user_id="ann")])
        limits: dict[str, Any] = {"max_per_user": 1}
        (first,) = await claim(store, suspects_first=False, **limits)
        assert await claim(store, "worker-2", **limits) == []
        await store.add([Job(job_type="audio")])
        assert len(await claim(store, "worker-2", busy=1, **limits)) == 1
        await store.finish(first, Completed())
        assert ids(await claim(store, "worker-2", **limits)) == [job_id]

    async def test_a_suspect_whose_batch_is_paused_waits_and_is_still_one_afterwards(
        self, store: Store
    ) -> None:
        batch = Batch()
        job = Job(job_type="pdf", batch_id=batch.batch_id)
        await store.add([job], batch=batch)
        await lose_workers(store, 2)
        await store.change_batch(batch.batch_id, is_active=False)
        assert await claim(store) == []
        await store.change_batch(batch.batch_id, is_active=True)
        (again,) = await claim(store, slots=3)
        assert (again.job_id, again.group_size) == (job.job_id, 1)

    async def test_a_suspect_that_is_tried_again_is_still_one(self, store: Store) -> None:
        job_id = await suspect(store)
        (job,) = await claim(store)
        await store.finish(job, Failed(ERROR, retry_at=utc_now()))
        await store.add([Job(job_type="pdf")])
        assert ids(await claim(store, slots=3)) == [job_id]

    async def test_a_waiting_suspect_can_be_cancelled(self, store: Store) -> None:
        job_id = await suspect(store)
        assert await store.cancel(JobQuery(job_id=job_id)) == [job_id]
        assert await claim(store) == []

    async def test_the_wait_of_a_suspect_is_reported(self, store: Store) -> None:
        job_id = await suspect(store)
        job = await store.get(job_id)
        since = (await store.waiting_since())["pdf"]
        assert abs((since - job.updated_at).total_seconds()) < 60


async def test_a_database_of_the_previous_version_opens_with_its_jobs(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = open_store(f"sqlite://{path}")
    await store.open()
    job = Job(job_type="pdf")
    await store.add([job])
    await store.close()
    db = apsw.Connection(str(path))
    db.execute("DROP INDEX jobs_suspect; DROP TABLE lost_workers; DROP TABLE preparing_workers")
    for column in ("losses", "strikes", "group_size"):
        db.execute(f"ALTER TABLE jobs DROP COLUMN {column}")
    db.close()
    store = open_store(f"sqlite://{path}")
    await store.open()
    try:
        (claimed,) = await claim(store)
        assert (claimed.job_id, claimed.losses, claimed.group_size) == (job.job_id, 0, None)
    finally:
        await store.close()
