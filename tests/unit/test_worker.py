"""The worker's loop: claiming, slots, cancelling, draining, recovering from a lost lease."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from secretary import JobContext, Registry, handles
from secretary.core.errors import LeaseLost
from secretary.core.job import Batch, Job, JobStatus
from secretary.jobs.handler import AnyParameters
from secretary.storage.artifacts import JobFiles
from secretary.storage.sources import Sources
from secretary.store import JobQuery, Store
from secretary.worker.executor import Executor
from secretary.worker.sandbox import Sandbox
from secretary.worker.worker import LoopMonitor, Worker, WorkerOptions
from tests.contract.factories import lose_workers
from tests.polling import until

Context = JobContext[AnyParameters]

POLL = timedelta(seconds=0.05)


class Stage:
    """A handler whose jobs run until they are stopped, and the number of running ones."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.started = 0
        self.may_end = asyncio.Event()

    async def __call__(self, ctx: Context) -> None:
        self.started += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.may_end.wait()
        finally:
            self.running -= 1


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def _chat(ctx: Context) -> None:
    """A job that does not wait for the stage."""


@asynccontextmanager
async def working(
    store: Store, stage: Stage, tmp_path: Path, **options: Any
) -> AsyncIterator[tuple[Worker, "asyncio.Task[None]"]]:
    executor = Executor(
        store=store,
        registry=Registry([handles("wait")(stage), handles("chat", io_bound=True)(_chat)]),
        sandbox=Sandbox(1),
        files=JobFiles(tmp_path),
        sources=Sources(tmp_path),
    )
    worker = Worker(store, executor, WorkerOptions(**options))
    task = asyncio.create_task(worker.run())
    try:
        yield worker, task
    finally:
        stage.may_end.set()
        worker.drain()
        worker.drain()
        await task


async def add(store: Store, count: int, **fields: Any) -> list[str]:
    batch = Batch()
    fields = {"job_type": "wait", **fields}
    jobs = [Job(batch_id=batch.batch_id, **fields) for _ in range(count)]
    await store.add(jobs, batch=batch)
    return [job.job_id for job in jobs]


async def count(store: Store, status: JobStatus) -> int:
    return (await store.counts()).get("wait", {}).get(status, 0)


async def test_never_more_jobs_run_than_there_are_slots(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    await add(store, 100)
    async with working(store, stage, tmp_path, slots=3):
        await until(lambda: stage.running == 3)
        assert await count(store, JobStatus.PROCESSING) == 3
        assert await count(store, JobStatus.PENDING) == 97
        stage.may_end.set()
        seen = []
        while await count(store, JobStatus.COMPLETED) < 100:
            seen.append(await count(store, JobStatus.PROCESSING))
            await asyncio.sleep(0.001)
    assert (stage.most, stage.started) == (3, 100)
    assert max(seen, default=0) <= 3


async def test_a_job_starts_as_soon_as_it_is_added(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    async with working(store, stage, tmp_path, poll_interval=timedelta(hours=1)):
        await until(lambda: _is_idle(store))
        await add(store, 1)
        await until(lambda: stage.running == 1)


async def _is_idle(store: Store) -> bool:
    return len(await store.workers()) == 1


async def test_a_job_with_a_start_time_starts_then(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    stage.may_end.set()
    async with working(store, stage, tmp_path, poll_interval=timedelta(seconds=0.05)):
        job = Job(job_type="wait")
        job = job.model_copy(update={"run_at": job.created_at + timedelta(seconds=0.5)})
        await store.add([job])
        await until(lambda: stage.started == 1)
        done = await store.get(job.job_id)
        assert done.processing_started_at is not None and job.run_at is not None
        assert done.processing_started_at >= job.run_at


async def test_a_running_job_is_cancelled_within_two_seconds(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    (job_id,) = await add(store, 1)
    async with working(store, stage, tmp_path):
        await until(lambda: stage.running == 1)
        started = time.monotonic()
        await store.cancel(JobQuery(job_id=job_id))
        await until(lambda: stage.running == 0)
        assert time.monotonic() - started < 2
        await until(lambda: _has_status(store, job_id, JobStatus.CANCELLED))


async def _has_status(store: Store, job_id: str, status: JobStatus) -> bool:
    return (await store.get(job_id)).status is status


async def test_draining_claims_nothing_more_and_waits_for_what_runs(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    ids = await add(store, 2)
    async with working(store, stage, tmp_path, slots=1) as (worker, task):
        await until(lambda: stage.running == 1)
        worker.drain()
        await until(lambda: _drains(store))
        assert not task.done()
        stage.may_end.set()
        await asyncio.wait_for(task, 10)
        assert await _has_status(store, ids[0], JobStatus.COMPLETED)
        assert await _has_status(store, ids[1], JobStatus.PENDING)
        assert await store.workers() == []


async def _drains(store: Store) -> bool:
    return any(worker.draining for worker in await store.workers())


async def test_a_job_that_outlasts_the_drain_goes_back_at_no_cost(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    (job_id,) = await add(store, 1)
    options = {"grace": timedelta(seconds=0.05)}
    async with working(store, stage, tmp_path, **options) as (worker, task):
        await until(lambda: stage.running == 1)
        worker.drain()
        await asyncio.wait_for(task, 10)
    job = await store.get(job_id)
    assert (job.status, job.failures, job.crashes) == (JobStatus.PENDING, 0, 0)


async def test_a_second_request_to_drain_does_not_wait(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    (job_id,) = await add(store, 1)
    async with working(store, stage, tmp_path, grace=timedelta(hours=1)) as (worker, task):
        await until(lambda: stage.running == 1)
        worker.drain()
        worker.drain()
        await asyncio.wait_for(task, 10)
    assert await _has_status(store, job_id, JobStatus.PENDING)


async def test_a_worker_taken_for_dead_stops_its_jobs_and_comes_back_as_a_new_one(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    (job_id,) = await add(store, 1)
    async with working(store, stage, tmp_path) as (worker, _):
        await until(lambda: stage.running == 1)
        before = worker.worker_id
        await store.rescue(dead=[before])
        await until(lambda: worker.worker_id != before)
        await until(lambda: stage.started == 2)
        assert stage.most == 1
        stage.may_end.set()
        await until(lambda: _has_status(store, job_id, JobStatus.COMPLETED))
    job = await store.get(job_id)
    assert [attempt.worker_id for attempt in job.attempts] == [before, worker.worker_id]


async def test_a_worker_taken_for_dead_is_registered_once_though_two_loops_notice_it(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    slow: Any = SlowRegistration(store)
    await add(store, 1)
    often = {"poll_interval": timedelta(seconds=0.05), "lease": timedelta(seconds=1)}
    async with working(slow, stage, tmp_path, **often) as (worker, _):
        await until(lambda: stage.running == 1)
        slow.may_register.clear()
        await store.rescue(dead=[worker.worker_id])
        try:
            await until(lambda: slow.refused == {"claim", "renew"})
        finally:
            slow.may_register.set()
        await until(lambda: stage.started == 2)
        assert [one.worker_id for one in await store.workers()] == [worker.worker_id]


class SlowRegistration:
    """The store, which tells a worker by both calls that its lease is lost before it registers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.refused: set[str] = set()
        self.may_register = asyncio.Event()
        self.may_register.set()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return partial(self._noted, name, call) if name in ("claim", "renew") else call

    async def _noted(self, name: str, call: Any, worker_id: str, *args: Any) -> Any:
        try:
            return await call(worker_id, *args)
        except LeaseLost:
            self.refused.add(name)
            raise

    async def register_worker(self, *args: Any, **kwargs: Any) -> None:
        await self.may_register.wait()
        await self._store.register_worker(*args, **kwargs)


async def test_a_job_whose_worker_loses_its_lease_again_and_again_completes(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    """As on a machine that is paused: the worker returns each time, so the job is not the cause."""
    (job_id,) = await add(store, 1)
    async with working(store, stage, tmp_path, poll_interval=timedelta(seconds=0.05)) as (
        worker,
        _,
    ):
        for losses in range(5):
            await until(partial(_has_started, stage, losses + 1))
            await store.rescue(dead=[worker.worker_id])
        await until(lambda: stage.started == 6)
        stage.may_end.set()
        await until(lambda: _has_status(store, job_id, JobStatus.COMPLETED))
    job = await store.get(job_id)
    assert (job.attempt, job.losses, job.strikes, job.crashes) == (6, 0, 0, 0)


def _has_started(stage: Stage, number: int) -> bool:
    return stage.started == number


async def test_nothing_runs_beside_a_suspect(store: Store, stage: Stage, tmp_path: Path) -> None:
    await add(store, 1)
    await lose_workers(store, 2)
    counting: Any = CountingClaims(store)
    options: dict[str, Any] = {"slots": 3, "io_slots": 2, "io_types": {"chat"}}
    async with working(counting, stage, tmp_path, poll_interval=POLL, **options):
        await until(lambda: stage.running == 1)
        await add(store, 5)
        chats = await add(store, 2, job_type="chat")
        waits = counting.waits
        await until(lambda: counting.waits > waits + 2)  # it had the occasion to claim them
        assert (stage.running, counting.claims) == (1, 1)
        stage.may_end.set()
        await until(lambda: _all_done(store, 6))
        await until(partial(_has_status, store, chats[-1], JobStatus.COMPLETED))


async def test_a_suspect_gets_its_turn_while_other_jobs_keep_the_worker_busy(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    first, second = await add(store, 2)
    counting: Any = CountingClaims(store)
    async with working(counting, stage, tmp_path, slots=2, poll_interval=POLL):
        await until(lambda: stage.running == 2)
        (suspect,) = await add(store, 1, job_type="chat")
        await lose_workers(store, 2, job_types={"chat"})
        await add(store, 2)
        claims = counting.claims
        await store.cancel(JobQuery(job_id=first))
        await until(lambda: counting.claims > claims + 1)
        assert stage.started == 2  # it waits for the second job to end
        await store.cancel(JobQuery(job_id=second))
        await until(lambda: _has_status(store, suspect, JobStatus.COMPLETED))
        await until(lambda: stage.running == 2)


async def test_an_event_loop_that_a_job_blocks_is_noticed() -> None:
    monitor = LoopMonitor(interval=0.01)
    monitor.start()
    try:
        await until(lambda: monitor.blocked_seconds > 0.02)  # nothing calls `beat`
        monitor.reset()
        assert monitor.blocked_seconds < 0.02
    finally:
        monitor.stop()


async def test_limits_by_type_and_user_hold(store: Store, stage: Stage, tmp_path: Path) -> None:
    await add(store, 4, user_id="ann")
    await add(store, 4, user_id="bob")
    options: dict[str, Any] = {"slots": 8, "max_per_type": {"wait": 3}, "max_per_user": 2}
    async with working(store, stage, tmp_path, **options):
        await until(lambda: stage.running == 3)
        users = [job.user_id for job in (await store.find(PROCESSING)).items]
        assert sorted(str(user) for user in users) in (["ann", "ann", "bob"], ["ann", "bob", "bob"])
        stage.may_end.set()
        await until(lambda: _all_done(store, 8))
    assert stage.most == 3


async def test_a_job_that_waits_for_the_network_starts_though_all_other_slots_are_busy(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    await add(store, 5)
    options: dict[str, Any] = {"slots": 2, "io_slots": 2, "io_types": {"chat"}}
    async with working(store, stage, tmp_path, poll_interval=timedelta(hours=1), **options):
        await until(lambda: stage.running == 2)
        for job_id in await add(store, 3, job_type="chat"):
            await until(partial(_has_status, store, job_id, JobStatus.COMPLETED))
        assert (stage.running, stage.started) == (2, 2)
        stage.may_end.set()
        await until(lambda: _all_done(store, 5))
    assert stage.most == 2


class CountingClaims:
    """The store, how often jobs were claimed from it, and how often it was waited for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.claims = 0
        self.waits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, *args: Any) -> list[Job]:
        self.claims += 1
        return await self._store.claim(*args)

    async def wait(self, *args: Any, **kwargs: Any) -> int:
        self.waits += 1
        return await self._store.wait(*args, **kwargs)


@pytest.mark.parametrize("io_slots", [0, 16])
async def test_an_idle_worker_claims_once_per_poll_whatever_slots_it_has(
    store: Store, stage: Stage, tmp_path: Path, io_slots: int
) -> None:
    counting: Any = CountingClaims(store)
    options: dict[str, Any] = {"slots": 3, "io_slots": io_slots, "io_types": {"chat"}}
    poll_interval = timedelta(seconds=0.1)
    async with working(counting, stage, tmp_path, poll_interval=poll_interval, **options):
        await until(lambda: counting.claims > 0)
        counting.claims = 0
        await asyncio.sleep(1)
        assert 5 <= counting.claims <= 11


PROCESSING = JobQuery(status=frozenset({JobStatus.PROCESSING}))


async def _all_done(store: Store, number: int) -> bool:
    return await count(store, JobStatus.COMPLETED) == number
