"""Misbehaving jobs and dying workers: everything else continues, and nothing is left behind."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from secretary.core import processes
from secretary.core.job import Batch, Job, JobStatus
from secretary.store import JobQuery, Store, open_store

from ..polling import until
from .service import WorkerProcess, ended, environment


@pytest.fixture
def env(store_url: str, tmp_path: Path) -> dict[str, str]:
    return environment(
        tmp_path,
        store_url,
        SECRETARY_HANDLERS="tests.misbehaving_handlers:register",
        SECRETARY_GENERIC_WORKER__MEMORY_LIMIT_MB="300",
        SECRETARY_GENERIC_WORKER__SHUTDOWN_GRACE_SEC="1",
    )


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The embedded store where the worker expects it, or MongoDB if a test asks for it."""
    return f"sqlite://{tmp_path}/secretary.db"


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    store = open_store(store_url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def worker(env: dict[str, str], tmp_path: Path) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(env, tmp_path / "worker.log")
    yield worker
    worker.terminate()
    assert processes.descendants(worker.pid) == []


async def submit(store: Store, job_type: str, **fields: Any) -> str:
    job = Job(job_type=job_type, **fields)
    await store.add([job])
    return job.job_id


async def running(store: Store, job_id: str) -> Job:
    async def look() -> Job | None:
        job = await store.get(job_id)
        return job if job.progress.percent > 0 else None

    job: Job = await until(look, what=f"the start of {job_id}")
    return job


async def test_a_job_that_segfaults_fails_by_name_and_its_neighbours_finish(
    store: Store, worker: WorkerProcess
) -> None:
    neighbour = await submit(store, "decent", parameters={"seconds": 2})
    deadly = await submit(store, "segfault")
    failed, done = await ended(store, deadly), await ended(store, neighbour)
    assert failed.error is not None and failed.error.details is not None
    assert (failed.status, failed.error.code) == (JobStatus.FAILED, "WORKER_CRASHED")
    assert failed.error.details["signal"] == "SIGSEGV"
    assert (failed.crashes, len(failed.attempts)) == (2, 2)
    assert done.status is JobStatus.COMPLETED and done.attempt == 1


async def test_a_job_that_eats_memory_fails_by_name_and_its_neighbours_finish(
    store: Store, worker: WorkerProcess
) -> None:
    neighbour = await submit(store, "decent", parameters={"seconds": 2})
    hungry = await submit(store, "hungry")
    failed, done = await ended(store, hungry), await ended(store, neighbour)
    assert failed.error is not None and failed.error.details is not None
    assert (failed.status, failed.error.code) == (JobStatus.FAILED, "OUT_OF_MEMORY")
    assert failed.error.details["limit_bytes"] == 300 * 1024 * 1024
    assert done.status is JobStatus.COMPLETED and done.attempt == 1


async def test_a_job_that_never_returns_fails_by_name_and_its_neighbours_finish(
    store: Store, worker: WorkerProcess
) -> None:
    endless = await submit(store, "endless", timeout_s=1)
    neighbour = await submit(store, "decent", parameters={"seconds": 2})
    failed, done = await ended(store, endless), await ended(store, neighbour)
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (JobStatus.FAILED, "PROCESSING_TIMEOUT")
    assert done.status is JobStatus.COMPLETED and done.attempt == 1


async def test_cancelling_ends_the_whole_process_tree_of_a_job_that_will_not_end(
    store: Store, worker: WorkerProcess
) -> None:
    stubborn = await submit(store, "stubborn")
    neighbour = await submit(store, "decent", parameters={"seconds": 2})
    await running(store, stubborn)

    async def forked() -> bool:
        return len(_sleepers(worker)) == 3

    await until(forked, what="the fork")
    started = time.monotonic()
    await store.cancel(JobQuery(job_id=stubborn))
    cancelled = await ended(store, stubborn)
    assert time.monotonic() - started < 2.5
    assert cancelled.status is JobStatus.CANCELLED
    assert _sleepers(worker) == []
    assert (await ended(store, neighbour)).status is JobStatus.COMPLETED


def _sleepers(worker: WorkerProcess) -> list[int]:
    """The children forked by the stubborn handler."""
    pids = []
    for process in processes.descendants(worker.pid):
        try:
            command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"SIG_IGN" in command:
            pids.append(process.pid)
    return pids


async def test_after_kill_9_the_job_runs_again_within_15_seconds(
    store: Store, worker: WorkerProcess, env: dict[str, str], tmp_path: Path
) -> None:
    job_id = await submit(store, "decent", parameters={"seconds": 30})
    first = await running(store, job_id)
    worker.kill()
    killed_at = time.monotonic()
    second = WorkerProcess(env, tmp_path / "worker-2.log")
    try:

        async def again() -> Job | None:
            job = await store.get(job_id)
            return job if job.attempt == 2 else None

        job = await until(again, seconds=15, what="the second attempt")
        assert time.monotonic() - killed_at < 15
        assert (job.crashes, job.losses, job.worker_id != first.worker_id) == (0, 1, True)
    finally:
        second.terminate()


async def test_a_stopped_worker_does_not_work_on_while_another_has_its_job(
    store: Store, worker: WorkerProcess, env: dict[str, str], tmp_path: Path
) -> None:
    job_id = await submit(store, "decent", parameters={"seconds": 60})
    await running(store, job_id)
    at_work = [process.pid for process in processes.descendants(worker.pid)]
    worker.process.send_signal(signal.SIGSTOP)
    second = WorkerProcess(env, tmp_path / "worker-2.log")
    try:

        async def again() -> Job | None:
            job = await store.get(job_id)
            return job if job.attempt == 2 else None

        await until(again, seconds=20, what="the second attempt")
        remaining = [pid for pid in at_work if processes.find(pid) and not _is_watchdog(pid)]
        assert remaining == []
        worker.process.send_signal(signal.SIGCONT)
        await until(_all_enlisted(store, 2), what="the return of the first worker")
        job = await store.get(job_id)
        assert (job.status, job.attempt) == (JobStatus.PROCESSING, 2)
        assert (job.losses, job.strikes, job.crashes) == (0, 0, 0)  # the worker did not die of it
    finally:
        second.terminate()


def _is_watchdog(pid: int) -> bool:
    return b"processes.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _all_enlisted(store: Store, number: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return len(await store.workers()) == number

    return look


async def test_a_worker_that_was_stopped_for_a_moment_runs_its_job_again_at_no_cost(
    store: Store, worker: WorkerProcess
) -> None:
    job_id = await submit(store, "decent", parameters={"seconds": 60})
    await running(store, job_id)
    at_work = [p.pid for p in processes.descendants(worker.pid) if not _is_watchdog(p.pid)]
    worker.process.send_signal(signal.SIGSTOP)

    async def killed_by_its_watchdog() -> bool:
        return not any(processes.find(pid) for pid in at_work)

    await until(killed_by_its_watchdog, seconds=8, what="the end of its processes")
    worker.process.send_signal(signal.SIGCONT)

    async def again() -> Job | None:
        job = await store.get(job_id)
        return job if job.attempt == 2 else None

    job = await until(again, what="the second attempt")
    assert (job.crashes, job.failures) == (0, 0)


async def test_a_hundred_jobs_run_three_at_a_time_and_nothing_grows(
    store: Store, worker: WorkerProcess
) -> None:
    batch = Batch()
    parameters = {"seconds": 0.05}
    jobs = [
        Job(job_type="decent", batch_id=batch.batch_id, parameters=parameters) for _ in range(100)
    ]
    await store.add(jobs, batch=batch)
    most, threads, children = 0, set(), set()
    while (now := await store.get_batch(batch.batch_id)).completed_at is None:
        most = max(most, now.counts[JobStatus.PROCESSING])
        if now.counts[JobStatus.COMPLETED] > 10:  # the sandbox is warm
            threads.add(len(os.listdir(f"/proc/{worker.pid}/task")))
            children.add(len(processes.descendants(worker.pid)))
        await asyncio.sleep(0.01)
    assert most == 3
    assert now.counts[JobStatus.COMPLETED] == 100
    assert max(threads) - min(threads) <= 1
    assert max(children) - min(children) <= 1


async def test_a_drained_worker_gives_its_jobs_back_at_no_cost(
    store: Store, worker: WorkerProcess
) -> None:
    job_id = await submit(store, "decent", parameters={"seconds": 30})
    await running(store, job_id)
    assert worker.terminate() == 0
    job = await store.get(job_id)
    assert (job.status, job.crashes, job.failures) == (JobStatus.PENDING, 0, 0)


async def test_a_second_signal_ends_it_at_once(
    store: Store, env: dict[str, str], tmp_path: Path
) -> None:
    env = env | {"SECRETARY_GENERIC_WORKER__SHUTDOWN_GRACE_SEC": "600"}
    worker = WorkerProcess(env, tmp_path / "worker-2.log")
    job_id = await submit(store, "decent", parameters={"seconds": 60})
    await running(store, job_id)
    worker.process.terminate()

    async def drains() -> bool:
        return any(seen.draining for seen in await store.workers())

    await until(drains, what="the drain")
    worker.process.terminate()
    assert worker.process.wait(10) == 0
    assert (await store.get(job_id)).status is JobStatus.PENDING
