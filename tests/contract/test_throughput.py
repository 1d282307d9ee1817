"""Finished jobs by time and type: counted as they finish, whatever happens to the jobs later."""

from datetime import datetime, timedelta

import pytest

from secretary.core.job import Cancelled, Completed, Failed, Job, JobError, JobStatus, utc_now
from secretary.store import JobQuery, Store
from secretary.store.stats import EPOCH, SLOT, Throughput, bucket_of, quantile, slot_of

from .factories import claim, claimed, lose_workers, worker

CORRUPT = JobError(code="FILE_CORRUPT", message="It is damaged")


def an_hour_ago() -> datetime:
    return EPOCH + slot_of(utc_now() - timedelta(hours=1)) * SLOT


async def throughput_of(store: Store, user_id: str | None = None) -> dict[str, Throughput]:
    """The jobs that finished in the last hour or so, by type."""
    throughput = await store.throughput(
        an_hour_ago(), step=2 * SLOT * 31, intervals=1, user_id=user_id
    )
    return {one.job_type: one for one in throughput}


async def test_ends_are_counted_by_type_and_kind(store: Store) -> None:
    for _ in range(2):
        await store.finish(await claimed(store, job_type="pdf"), Completed())
    await store.finish(await claimed(store, job_type="pdf"), Failed(CORRUPT))
    await store.finish(await claimed(store, job_type="a.b$c"), Cancelled())
    await claimed(store, job_type="audio")
    throughput = await throughput_of(store)
    assert set(throughput) == {"pdf", "a.b$c"}
    assert (throughput["pdf"].completed, throughput["pdf"].failed) == (2, {"FILE_CORRUPT": 1})
    assert sum(throughput["pdf"].waits.values()) == 3
    assert (throughput["a.b$c"].completed, throughput["a.b$c"].cancelled) == (0, 1)


async def test_an_attempt_that_is_tried_again_is_no_end(store: Store) -> None:
    job = await claimed(store)
    await store.finish(job, Failed(CORRUPT, retry_at=utc_now()))
    assert await throughput_of(store) == {}


async def test_a_job_cancelled_before_it_started_has_no_waiting_time(store: Store) -> None:
    job = Job(job_type="pdf")
    await store.add([job])
    await store.cancel(JobQuery(job_id=job.job_id))
    throughput = (await throughput_of(store))["pdf"]
    assert (throughput.cancelled, throughput.waits) == (1, {})


async def test_a_job_that_took_its_worker_down_too_often_counts_as_failed(store: Store) -> None:
    await store.add([Job(job_type="pdf")])
    await lose_workers(store)
    assert (await throughput_of(store))["pdf"].failed == {"WORKER_CRASHED": 1}


async def test_each_part_of_a_span_has_its_own_count(store: Store) -> None:
    now = EPOCH + slot_of(utc_now()) * SLOT  # the job may finish in the next slot
    await store.finish(await claimed(store), Completed())
    throughput = await store.throughput(now - 9 * SLOT, step=SLOT, intervals=11)
    assert [one.interval for one in throughput] in ([9], [10])
    assert await store.throughput(now - 20 * SLOT, step=SLOT, intervals=10) == []


async def test_a_user_sees_only_their_own_jobs(store: Store) -> None:
    await store.finish(await claimed(store, user_id="ann"), Completed())
    await store.finish(await claimed(store, user_id="bob"), Failed(CORRUPT))
    await store.finish(await claimed(store), Completed())
    assert (await throughput_of(store))["pdf"].completed == 2
    assert (await throughput_of(store, "ann"))["pdf"].completed == 1
    assert (await throughput_of(store, "bob"))["pdf"].failed == {"FILE_CORRUPT": 1}
    assert await throughput_of(store, "eve") == {}
    assert await store.counts_of_user("ann") == {JobStatus.COMPLETED: 1}
    assert await store.counts_of_user("eve") == {}


async def test_what_is_restarted_or_deleted_stays_counted(store: Store) -> None:
    failed = await claimed(store)
    await store.finish(failed, Failed(CORRUPT))
    await store.restart(JobQuery(job_id=failed.job_id))
    (again,) = await claim(store)
    await store.finish(again, Completed())
    done = (await throughput_of(store))["pdf"]
    assert (done.completed, done.failed) == (1, {"FILE_CORRUPT": 1})
    await store.delete(JobQuery(job_id=failed.job_id))
    assert (await throughput_of(store))["pdf"] == done


async def test_tidying_keeps_what_is_recent(store: Store) -> None:
    await store.finish(await claimed(store, user_id="ann"), Completed())
    await store.tidy()
    assert (await throughput_of(store, "ann"))["pdf"].completed == 1


async def test_the_number_of_jobs_of_each_worker_and_type_is_reported(store: Store) -> None:
    await claimed(store)
    await claimed(store)
    await claimed(store, job_type="audio")
    await claimed(store, "worker-2")
    await store.register_worker(worker("worker-3"), timedelta(seconds=60))
    assert await store.busy_slots() == {"worker-1": {"pdf": 2, "audio": 1}, "worker-2": {"pdf": 1}}


@pytest.mark.parametrize("seconds", [0.004, 0.3, 2.0, 47.0, 5000.0])
def test_a_waiting_time_is_right_to_within_a_tenth(seconds: float) -> None:
    estimate = quantile({bucket_of(timedelta(seconds=seconds)): 1}, 0.95)
    assert estimate is not None
    assert abs(estimate - seconds) <= seconds / 10


def test_quantiles_are_those_of_all_jobs() -> None:
    waits = {bucket_of(timedelta(seconds=1)): 94, bucket_of(timedelta(seconds=60)): 6}
    assert quantile(waits, 0.5) == pytest.approx(1, rel=0.1)
    assert quantile(waits, 0.95) == pytest.approx(60, rel=0.1)
    assert quantile({}, 0.5) is None
