"""The Prometheus metrics."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from secretary import JobContext, Registry, handles
from secretary.core.errors import FileCorrupt, StoreUnavailable, UpstreamFailed
from secretary.core.job import Job
from secretary.jobs.handler import AnyParameters
from secretary.jobs.service import JobService
from secretary.observability.metrics import Metrics, ServiceStats
from secretary.storage.artifacts import JobFiles
from secretary.storage.sources import Sources
from secretary.store import Store
from secretary.worker.executor import Execution, Executor, Stop
from secretary.worker.maintenance import Maintenance, MaintenanceOptions
from secretary.worker.sandbox import Sandbox

from ..contract.factories import LAPSED, LEASE, claim, worker

Context = JobContext[AnyParameters]


@handles("good")
async def good(ctx: Context) -> None: ...


@handles("bad")
async def bad(ctx: Context) -> None:
    raise FileCorrupt("torn")


@handles("flaky", max_attempts=3)
async def flaky(ctx: Context) -> None:
    raise UpstreamFailed("503")


@handles("slow")
async def slow(ctx: Context) -> None:
    await asyncio.sleep(60)


@pytest.fixture
def job_service(store: Store, tmp_path: Path) -> JobService:
    return JobService(store, Registry([good, bad, flaky, slow]), JobFiles(tmp_path))


@pytest.fixture
def metrics(job_service: JobService) -> Metrics:
    return Metrics(job_service.registry.job_types, ServiceStats(job_service))


@pytest.fixture
def executor(job_service: JobService, metrics: Metrics, tmp_path: Path) -> Executor:
    return Executor(
        store=job_service.store,
        registry=job_service.registry,
        sandbox=Sandbox(1),
        files=job_service.files,
        sources=Sources(tmp_path),
        observer=metrics,
    )


async def run(
    executor: Executor, job_type: str, *, stop: Stop | None = None, lease: timedelta = LEASE
) -> None:
    await executor.store.add([Job(job_type=job_type)])
    (job,) = await claim(executor.store, lease=lease)
    execution = Execution(executor, job)
    if stop is not None:
        await asyncio.sleep(0)
        execution.stop(stop)
    await execution.task


async def scrape(metrics: Metrics) -> dict[str, float]:
    lines = (await metrics.exposition()).decode().splitlines()
    samples = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in samples}


async def test_it_counts_job_outcomes(executor: Executor, metrics: Metrics) -> None:
    for job_type in ("good", "good", "bad", "flaky"):
        await run(executor, job_type)
    await run(executor, "slow", stop=Stop.CANCELLED)
    await run(executor, "slow", stop=Stop.INTERRUPTED)
    samples = await scrape(metrics)
    ended = "secretary_jobs_ended_total"
    assert samples[f'{ended}{{code="",job_type="good",status="completed"}}'] == 2
    assert samples[f'{ended}{{code="FILE_CORRUPT",job_type="bad",status="failed"}}'] == 1
    assert samples[f'{ended}{{code="CANCELLED",job_type="slow",status="cancelled"}}'] == 1
    assert samples['secretary_job_retries_total{code="UPSTREAM_FAILED",job_type="flaky"}'] == 1
    assert samples['secretary_jobs_released_total{job_type="slow"}'] == 1
    assert samples['secretary_job_wait_seconds_count{job_type="good"}'] == 2
    assert samples['secretary_job_run_seconds_count{job_type="slow"}'] == 2


async def test_it_counts_lost_leases_and_rescued_jobs(
    executor: Executor, metrics: Metrics, job_service: JobService
) -> None:
    await run(executor, "slow", stop=Stop.LOST, lease=LAPSED)
    await Maintenance(job_service.store, job_service.files, MaintenanceOptions(), metrics).rescue()
    samples = await scrape(metrics)
    assert samples['secretary_leases_lost_total{job_type="slow"}'] == 1
    assert samples['secretary_jobs_rescued_total{end="queued"}'] == 1
    assert 'secretary_job_run_seconds_count{job_type="slow"}' not in samples


async def test_it_reports_what_the_store_holds(metrics: Metrics, store: Store) -> None:
    for job_type in ("good", "good", "bad"):
        await store.add([Job(job_type=job_type)])
    await store.register_worker(worker(), LEASE)
    samples = await scrape(metrics)
    assert samples['secretary_jobs{job_type="good",status="pending"}'] == 2
    assert samples['secretary_jobs{job_type="bad",status="pending"}'] == 1
    assert 0 <= samples['secretary_queue_wait_seconds{job_type="good"}'] < 60
    assert (samples["secretary_workers"], samples["secretary_worker_slots"]) == (1, 3)
    assert samples["secretary_store_up"] == 1


async def test_types_that_clients_make_up_share_one_series(
    executor: Executor, metrics: Metrics, store: Store
) -> None:
    for n in range(3):
        await run(executor, f"made-up-{n}")
        await store.add([Job(job_type=f"made-up-{n}")])
    samples = await scrape(metrics)
    assert not [name for name in samples if "made-up" in name]
    assert samples['secretary_jobs{job_type="other",status="failed"}'] == 3
    ended = 'secretary_jobs_ended_total{code="UNKNOWN_JOB_TYPE",job_type="other",status="failed"}'
    assert samples[ended] == 3


async def test_without_the_store_it_reports_what_it_knows(tmp_path: Path) -> None:
    class Away:
        async def counts(self) -> None:
            raise StoreUnavailable("away")

        workers = waiting_since = next_event_due_at = counts

    job_service = JobService(Away(), Registry(), JobFiles(tmp_path))  # type: ignore[arg-type]  # never valid
    metrics = Metrics((), ServiceStats(job_service))
    metrics.answered("GET", "/api/jobs", 503, 0.1)
    samples = await scrape(metrics)
    assert samples["secretary_store_up"] == 0
    requests = 'secretary_http_requests_total{method="GET",route="/api/jobs",status="503"}'
    assert samples[requests] == 1


async def test_two_in_one_process_do_not_meet(job_service: JobService) -> None:
    one, other = (Metrics(["good"], ServiceStats(job_service)) for _ in range(2))
    one.answered("GET", "/api/jobs", 200, 0.1)
    assert "secretary_http_requests_total{" in (await one.exposition()).decode()
    assert "secretary_http_requests_total{" not in (await other.exposition()).decode()


async def test_it_reports_free_disk_space(metrics: Metrics, tmp_path: Path) -> None:
    samples = await scrape(metrics)
    assert 0 < samples["secretary_disk_free_bytes"] < samples["secretary_disk_total_bytes"]


async def test_a_data_directory_that_went_away_is_no_reason_to_be_silent(store: Store) -> None:
    job_service = JobService(store, Registry(), JobFiles(Path("/nowhere/at/all")))
    samples = await scrape(Metrics((), ServiceStats(job_service)))
    assert "secretary_disk_free_bytes" not in samples
    assert samples["secretary_store_up"] == 1
