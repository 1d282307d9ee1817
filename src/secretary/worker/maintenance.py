"""The periodic duties: rescue jobs of vanished workers, remove what is too old, tidy the store."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..core.errors import NotFound, StoreUnavailable
from ..core.job import FINAL_STATUSES, Job, JobStatus, utc_now
from ..core.processes import has_died
from ..storage.artifacts import JobFiles
from ..storage.blob_store import BlobStore
from ..store import JobQuery, Store
from .observer import Observer, Unobserved

#: Entries used since then may belong to a job that runs. Their use is noted once an hour.
IN_USE = timedelta(hours=3)
CACHE, JOBS = "cache/", "jobs/"


@dataclass(slots=True)
class _Entry:
    used_at: float = 0.0
    size: int = 0


async def prune_cache(blob_store: BlobStore, max_bytes: int) -> int:
    """Remove what was not used for longest until the rest fits. The number of entries."""
    entries: dict[str, _Entry] = {}
    async for kept in blob_store.below(CACHE):
        entry = entries.setdefault("/".join(kept.key.split("/")[:4]) + "/", _Entry())
        entry.used_at = max(entry.used_at, kept.kept_at)
        entry.size += kept.size
    surplus = sum(entry.size for entry in entries.values()) - max_bytes
    before = time.time() - IN_USE.total_seconds()
    removed = 0
    for prefix, entry in sorted(entries.items(), key=lambda one: one[1].used_at):
        if surplus <= 0 or entry.used_at > before:
            break
        await blob_store.remove(prefix)
        surplus -= entry.size
        removed += 1
    return removed


async def jobs_of(blob_store: BlobStore, *, older_than: timedelta) -> AsyncIterator[str]:
    """The ids of jobs that have files which were put there that long ago."""
    before = time.time() - older_than.total_seconds()
    seen = ""
    async for kept in blob_store.below(JOBS):
        job_id = kept.key.split("/")[1]
        if job_id != seen and kept.kept_at < before:
            seen = job_id
            yield job_id


logger = logging.getLogger(__name__)

PRUNE_BATCH = 200
#: No upload takes as long as this, so one without a job by then will not get one.
UPLOAD_TIME = timedelta(hours=6)
#: Files in a depot without a job belong to none when they are as old as this.
STRAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOptions:
    sweep_every: timedelta = timedelta(seconds=1)
    tidy_every: timedelta = timedelta(minutes=1)
    #: After the store was away, no lease is taken for lapsed for so long.
    pardon: timedelta = timedelta(seconds=5)
    max_crashes: int = 2
    #: How long ended jobs are kept, by state; a state that is missing is kept for ever.
    keep: Mapping[JobStatus, timedelta] = field(default_factory=dict)
    #: How long an upload is kept whose job failed or was cancelled: for a restart.
    keep_uploads: timedelta = timedelta(days=1)
    #: For what takes a look at every file.
    look_through_every: timedelta = timedelta(minutes=10)
    look_through_depot_every: timedelta = timedelta(hours=1)


class Maintenance:
    """Any number of processes may do this at once: each duty is harmless when done twice."""

    def __init__(
        self,
        store: Store,
        files: JobFiles,
        options: MaintenanceOptions,
        observer: Observer | None = None,
    ) -> None:
        self._observer = observer or Unobserved()
        self._store = store
        self._files = files
        self._options = options
        self._rescue_from = 0.0
        self._sweep_at = 0.0
        # Not at the start: many that start together need not all look.
        self._depot_at = time.monotonic() + options.look_through_depot_every.total_seconds()

    async def run(self) -> None:
        tidy_at = time.monotonic() + self._options.tidy_every.total_seconds()
        while True:
            try:
                await self.rescue()
                if time.monotonic() >= tidy_at:
                    tidy_at = time.monotonic() + self._options.tidy_every.total_seconds()
                    await self.prune()
                    await self._store.tidy()
                    await self._sweep_in_time()
            except StoreUnavailable as error:
                # Leases lapsed while no one could renew them: let the living do so first.
                self._rescue_from = time.monotonic() + self._options.pardon.total_seconds()
                logger.error("Upkeep could not be done, will try again: %s", error)
            except Exception:
                logger.exception("Upkeep broke, will try again")
            await asyncio.sleep(self._options.sweep_every.total_seconds())

    async def sweep_this_machine(self) -> None:
        """For a process without a worker: what requests that broke off have left here."""
        while True:
            await asyncio.sleep(self._options.look_through_every.total_seconds())
            try:
                await self.sweep_uploads()
            except StoreUnavailable as error:
                logger.error("Uploads could not be looked through, will try again: %s", error)
            except Exception:
                logger.exception("Looking through uploads broke, will try again")

    async def rescue(self) -> None:
        """Leases lapse after seconds; of a process on this machine we know at once."""
        if time.monotonic() < self._rescue_from:
            return
        workers = await self._store.workers()
        dead = [worker.worker_id for worker in workers if has_died(worker.pid, worker.birth)]
        rescued = await self._store.rescue(dead=dead, max_crashes=self._options.max_crashes)
        self._observer.rescued(rescued)
        for job in rescued:
            end = "failed: it took its worker down too often" if job.failed else "queued again"
            end = "cancelled, as was asked for" if job.cancelled else end
            logger.warning("Worker %s vanished; %s is %s", job.worker_id, job.job_id, end)
        for job in rescued:
            await self._files.abandon(job.job_id, job.attempt)

    async def prune(self) -> int:
        """Remove jobs that are too old, files first: a job without files can be removed again,
        files without a job would stay for ever."""
        now = utc_now()
        older_than = {status: now - age for status, age in self._options.keep.items()}
        removed = 0
        while ids := await self._store.expired(older_than, limit=PRUNE_BATCH):
            for job_id in ids:
                await self._files.remove(job_id)
                removed += len(await self._store.delete(JobQuery(job_id=job_id)))
            await asyncio.sleep(0.01)  # others want to write too
        if removed:
            logger.info("Removed %d jobs that were kept long enough", removed)
        return removed

    async def _sweep_in_time(self) -> None:
        if time.monotonic() >= self._sweep_at:
            self._sweep_at = time.monotonic() + self._options.look_through_every.total_seconds()
            await self.sweep_uploads()
            await self.prune_cache()
            await self.clear_this_machine()
        if self._files.blob_store is not None and time.monotonic() >= self._depot_at:
            self._depot_at = (
                time.monotonic() + self._options.look_through_depot_every.total_seconds()
            )
            await self.look_through_depot(self._files.blob_store)

    async def prune_cache(self) -> int:
        removed = await asyncio.to_thread(self._files.cache.prune)
        if removed:
            logger.info("Removed %d entries of the cache, those not used for longest", removed)
        return removed

    async def clear_this_machine(self) -> int:
        """Where files are kept in a depot: remove those from this machine whose work a process
        left behind that died."""
        removed = 0
        for job_id in await asyncio.to_thread(self._files.left_here, UPLOAD_TIME):
            try:
                job = await self._store.get(job_id)
            except NotFound:
                job = None
            if job is None or job.status is not JobStatus.PROCESSING:
                await self._files.clear(job_id)
                removed += 1
        return removed

    async def look_through_depot(self, blob_store: BlobStore) -> None:
        """Remove what is too much there, and what belongs to no job: a worker that had lost its
        job may have carried files there after the job was deleted."""
        await blob_store.tidy()
        entries = await prune_cache(blob_store, self._files.cache.max_bytes)
        strays = 0
        async for job_id in jobs_of(blob_store, older_than=STRAY):
            try:
                await self._store.get(job_id)
            except NotFound:
                await self._files.remove(job_id)
                strays += 1
        if entries or strays:
            logger.info("Removed %d entries of the depot's cache, %d strays", entries, strays)

    async def sweep_uploads(self) -> int:
        """Remove uploads that no job will read: a process died before it could, a job failed for
        good, a request ended half-way."""
        uploads, keep = self._files.uploads, self._options.keep_uploads
        removed = 0
        for job_id in await uploads.stale(UPLOAD_TIME):
            try:
                job = await self._store.get(job_id)
            except NotFound:
                needed = False
            else:
                needed = _may_need_upload(job, utc_now() - keep)
            if not needed:
                await uploads.remove(job_id)
                removed += 1
        if removed:
            logger.info("Removed %d uploads that no job needs", removed)
        return removed


def _may_need_upload(job: Job, ended_after: datetime) -> bool:
    if job.status not in FINAL_STATUSES:
        return True
    if job.status is JobStatus.COMPLETED or job.completed_at is None:
        return False
    return job.completed_at > ended_after
