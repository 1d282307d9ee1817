"""The periodic maintenance: rescuing, pruning, and recovery after a store outage."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from secretary.core.errors import StoreUnavailable
from secretary.core.job import Completed, Failed, Job, JobError, JobStatus
from secretary.core.processes import has_died, process_identity
from secretary.storage.artifacts import JobFiles
from secretary.store import Capacity, JobQuery, Rescued, Store, WorkerInfo
from secretary.worker.maintenance import Maintenance, MaintenanceOptions

from ..contract.factories import LAPSED, LEASE, claimed, worker


@pytest.fixture
def files(tmp_path: Path) -> JobFiles:
    return JobFiles(tmp_path)


async def test_the_jobs_of_a_process_that_died_here_come_back_at_once(
    store: Store, files: JobFiles
) -> None:
    dead = _process_that_died()
    await store.register_worker(dead, timedelta(hours=1))
    await store.add([Job(job_type="pdf")])
    (job,) = await store.claim(dead.worker_id, Capacity(slots=1))
    await Maintenance(store, files, MaintenanceOptions()).rescue()
    assert (await store.get(job.job_id)).status is JobStatus.PENDING
    assert await store.workers() == []


async def test_what_an_attempt_has_made_whose_process_died_is_removed(
    store: Store, files: JobFiles
) -> None:
    dead = _process_that_died()
    await store.register_worker(dead, timedelta(hours=1))
    await store.add([Job(job_type="pdf")])
    (job,) = await store.claim(dead.worker_id, Capacity(slots=1))
    for directory in ("1", "1.scratch"):
        (files.root / job.job_id / directory).mkdir(parents=True)
    await Maintenance(store, files, MaintenanceOptions()).rescue()
    assert list(files.root.iterdir()) == []


async def test_a_worker_that_lives_here_keeps_its_jobs(store: Store, files: JobFiles) -> None:
    living = replace(worker(), pid=os.getpid(), birth=process_identity(os.getpid()))
    await store.register_worker(living, LEASE)
    await store.add([Job(job_type="pdf")])
    (job,) = await store.claim(living.worker_id, Capacity(slots=1))
    await Maintenance(store, files, MaintenanceOptions()).rescue()
    assert (await store.get(job.job_id)).status is JobStatus.PROCESSING


def _process_that_died() -> WorkerInfo:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    info = replace(worker("worker-dead"), pid=process.pid, birth=process_identity(process.pid))
    assert not has_died(info.pid, info.birth)
    process.communicate(b"\n")
    return info


def test_of_another_machine_nothing_is_known() -> None:
    assert not has_died(1, "another-boot/pid:[4026531836]/12345")
    assert not has_died(999_999_999, "birth")


def test_a_pid_that_was_given_to_another_process_is_not_mistaken() -> None:
    boot, _, _ = process_identity(os.getpid()).rpartition("/")
    assert has_died(os.getpid(), f"{boot}/1")


async def test_old_jobs_are_removed_with_their_files_and_young_ones_stay(
    store: Store, files: JobFiles
) -> None:
    old, failed, young = [await claimed(store) for _ in range(3)]
    for job in (old, failed, young):
        directory = Path(files.attempt_directory(job))
        directory.mkdir(parents=True)
        (directory / "page_001.txt").write_text("x")
    await store.finish(old, Completed())
    await store.finish(failed, Failed(JobError(code="X", message="x")))
    keep = {JobStatus.COMPLETED: timedelta(microseconds=1), JobStatus.FAILED: timedelta(days=30)}
    assert await Maintenance(store, files, MaintenanceOptions(retention=keep)).prune() == 1
    remaining = {job.job_id for job in (await store.find(JobQuery())).items}
    assert remaining == {failed.job_id, young.job_id}
    assert {directory.name for directory in files.root.iterdir()} == remaining


async def test_a_job_with_its_own_retention_is_removed_when_that_has_ended(
    store: Store, files: JobFiles
) -> None:
    a_microsecond = 0.000_001 / 86_400
    for days in (a_microsecond, 30, 0):
        await store.finish(await claimed(store, retention_days=days), Completed())
    keep = {JobStatus.COMPLETED: timedelta(microseconds=1)}
    assert await Maintenance(store, files, MaintenanceOptions(retention=keep)).prune() == 1
    assert {job.retention_days for job in (await store.find(JobQuery())).items} == {30, 0}


async def test_many_old_jobs_are_removed_in_bounded_steps(
    store: Store, files: JobFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secretary.worker.maintenance.PRUNE_BATCH", 2)
    for _ in range(5):
        await store.finish(await claimed(store), Completed())
    keep = {JobStatus.COMPLETED: timedelta(microseconds=1)}
    assert await Maintenance(store, files, MaintenanceOptions(retention=keep)).prune() == 5


async def test_after_the_store_was_away_leases_are_pardoned_for_a_while(
    store: Store, files: JobFiles
) -> None:
    job = await claimed(store, lease=LAPSED)
    options = MaintenanceOptions(
        sweep_every=timedelta(milliseconds=5), rescue_grace=timedelta(milliseconds=300)
    )
    shaky = _AwayOnce(store)
    maintenance = asyncio.create_task(Maintenance(shaky, files, options).run())  # type: ignore[arg-type]
    await shaky.was_away.wait()
    await asyncio.sleep(0.1)
    assert (await store.get(job.job_id)).status is JobStatus.PROCESSING
    async with asyncio.timeout(10):
        while (await store.get(job.job_id)).status is JobStatus.PROCESSING:
            await asyncio.sleep(0.02)
    maintenance.cancel()
    await asyncio.gather(maintenance, return_exceptions=True)


async def test_after_a_pause_that_no_call_reported_leases_are_pardoned_too(
    store: Store, files: JobFiles
) -> None:
    """The driver retried until the store was back."""
    job = await claimed(store, lease=LAPSED)
    options = MaintenanceOptions(
        max_pause=timedelta(milliseconds=50), rescue_grace=timedelta(hours=1)
    )
    slow: Any = _SlowOnce(store)
    maintenance = Maintenance(slow, files, options)
    for _ in range(2):
        await maintenance.rescue()
        assert (await store.get(job.job_id)).status is JobStatus.PROCESSING
    await Maintenance(store, files, MaintenanceOptions()).rescue()
    assert (await store.get(job.job_id)).status is JobStatus.PENDING


class TestUploads:
    """An upload is removed when no job will read it, and not before."""

    @pytest.fixture
    def maintenance(self, store: Store, files: JobFiles) -> Maintenance:
        return Maintenance(store, files, MaintenanceOptions(upload_retention=timedelta(hours=24)))

    def upload(self, files: JobFiles, job_id: str, *, age: timedelta = timedelta(days=1)) -> Path:
        directory = files.uploads.root / job_id
        directory.mkdir(parents=True)
        (directory / "a.pdf").touch()
        at = directory.stat().st_mtime - age.total_seconds()
        for path in (directory / "a.pdf", directory):
            os.utime(path, (at, at))
        return directory

    async def test_one_without_a_job_is_removed(
        self, maintenance: Maintenance, files: JobFiles
    ) -> None:
        old = self.upload(files, "job-1")
        young = self.upload(files, "job-2", age=timedelta(hours=1))
        assert await maintenance.sweep_uploads() == 1
        assert (old.exists(), young.exists()) == (False, True)

    @pytest.mark.parametrize("running", [False, True])
    async def test_one_whose_job_has_not_ended_stays(
        self, store: Store, maintenance: Maintenance, files: JobFiles, running: bool
    ) -> None:
        job = await claimed(store) if running else Job(job_type="pdf")
        if not running:
            await store.add([job])
        directory = self.upload(files, job.job_id)
        assert await maintenance.sweep_uploads() == 0
        assert directory.exists()

    async def test_one_that_a_dead_process_left_behind_is_removed(
        self, store: Store, maintenance: Maintenance, files: JobFiles
    ) -> None:
        job = await claimed(store)
        await store.finish(job, Completed())
        directory = self.upload(files, job.job_id)
        assert await maintenance.sweep_uploads() == 1
        assert not directory.exists()

    @pytest.mark.parametrize("hours", [24, 0])
    async def test_one_whose_job_failed_is_kept_for_a_restart_but_not_for_ever(
        self, store: Store, files: JobFiles, hours: int
    ) -> None:
        job = await claimed(store, user_id="ann", stored_bytes=5)
        await store.finish(job, Failed(JobError(code="X", message="x")))
        directory = self.upload(files, job.job_id)
        options = MaintenanceOptions(upload_retention=timedelta(hours=hours))
        await Maintenance(store, files, options).sweep_uploads()
        assert directory.exists() == bool(hours)
        assert await store.stored_bytes("ann") == (5 if hours else 0)

    async def test_a_process_without_a_worker_removes_what_requests_have_left_too(
        self, store: Store, files: JobFiles
    ) -> None:
        directory = self.upload(files, "job-1")
        options = MaintenanceOptions(sweep_files_every=timedelta(milliseconds=10))
        sweeping = asyncio.create_task(Maintenance(store, files, options).sweep_local_uploads())
        async with asyncio.timeout(10):
            while directory.exists():
                await asyncio.sleep(0.01)
        sweeping.cancel()

    async def test_what_others_put_among_them_stays(
        self, maintenance: Maintenance, files: JobFiles
    ) -> None:
        shared = self.upload(files, "shared")
        assert await maintenance.sweep_uploads() == 0
        assert shared.exists()


class _AwayOnce:
    """A store that is unavailable the first time it is used."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.was_away = asyncio.Event()

    async def workers(self) -> Sequence[WorkerInfo]:
        if not self.was_away.is_set():
            self.was_away.set()
            raise StoreUnavailable("away")
        return await self._store.workers()

    async def rescue(self, **arguments: Any) -> list[Rescued]:
        return await self._store.rescue(**arguments)


class _SlowOnce(_AwayOnce):
    """A store that answers late the first time it is used."""

    async def workers(self) -> Sequence[WorkerInfo]:
        if not self.was_away.is_set():
            self.was_away.set()
            await asyncio.sleep(0.1)
        return await self._store.workers()
