"""Periodic maintenance: rescue jobs of lost workers, enforce retention, clean up files."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from ..core.errors import NotFound, StoreUnavailable
from ..core.job import FINAL_STATUSES, Job, JobStatus, utc_now
from ..core.processes import has_died
from ..jobs.events import Observer
from ..storage.artifacts import JobFiles
from ..storage.blob_store import BlobStore
from ..storage.cache import evictable
from ..storage.sources import stale_job_directories
from ..store import JobQuery, WorkerStore

logger = logging.getLogger(__name__)

#: Cache entries used this recently may belong to a running job. Use is recorded once an hour.
IN_USE = timedelta(hours=3)
CACHE, JOBS = "cache/", "jobs/"
PRUNE_BATCH = 200
#: Uploads without a job after this time are abandoned: no upload takes that long.
MAX_UPLOAD_TIME = timedelta(hours=6)
#: Files in the blob store without a job are orphaned once they are this old.
ORPHAN_AGE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOptions:
    sweep_every: timedelta = timedelta(seconds=1)
    tidy_every: timedelta = timedelta(minutes=1)
    #: After a store outage, how long workers have to renew their leases before jobs are rescued.
    rescue_grace: timedelta = timedelta(seconds=5)
    #: A sweep that takes longer means an outage too: the driver may have retried, or this process
    #: was suspended, perhaps with all workers of its machine.
    max_pause: timedelta = timedelta(seconds=4)
    #: Retention of ended jobs by status; a status that is missing is kept forever.
    retention: Mapping[JobStatus, timedelta] = field(default_factory=dict)
    #: How long the upload of a failed or cancelled job is kept, so that it can be restarted.
    upload_retention: timedelta = timedelta(days=1)
    #: Interval of the sweeps that list every file.
    sweep_files_every: timedelta = timedelta(minutes=10)
    sweep_blob_store_every: timedelta = timedelta(hours=1)


class Maintenance:
    """Any number of processes may run this at once: every task is idempotent."""

    def __init__(
        self,
        store: WorkerStore,
        files: JobFiles,
        options: MaintenanceOptions,
        observer: Observer | None = None,
    ) -> None:
        self._observer = observer or Observer()
        self._store = store
        self._files = files
        self._options = options
        self._no_rescue_before = 0.0
        #: When the store last answered.
        self._answered_at = time.monotonic()
        self._sweep_files_at = 0.0
        # Not right at the start: processes that start together need not all sweep.
        self._sweep_blob_store_at = _after(options.sweep_blob_store_every)

    async def run(self) -> None:
        tidy_at = _after(self._options.tidy_every)
        self._answered_at = time.monotonic()
        while True:
            try:
                await self.rescue()
                if time.monotonic() >= tidy_at:
                    tidy_at = _after(self._options.tidy_every)
                    await self.prune()
                    await self._store.tidy()
                    await self._sweep_if_due()
                self._answered_at = time.monotonic()
            except StoreUnavailable as error:
                # Nobody could renew a lease meanwhile: give the live workers time to do so.
                self._no_rescue_before = _after(self._options.rescue_grace)
                logger.error("Maintenance failed; retrying: %s", error)
            except Exception:
                logger.exception("Unexpected error in maintenance; retrying")
            await asyncio.sleep(self._options.sweep_every.total_seconds())

    async def sweep_local_uploads(self) -> None:
        """For processes without a worker: remove what aborted uploads left on this machine."""
        while True:
            await asyncio.sleep(self._options.sweep_files_every.total_seconds())
            try:
                await self.sweep_uploads()
            except StoreUnavailable as error:
                logger.error("Could not sweep uploads; retrying: %s", error)
            except Exception:
                logger.exception("Unexpected error while sweeping uploads; retrying")

    async def rescue(self) -> None:
        """Requeue the jobs of workers whose lease expired or whose local process died."""
        if time.monotonic() < self._no_rescue_before:
            return
        workers = await self._store.workers()
        paused_for = time.monotonic() - self._answered_at
        self._answered_at = time.monotonic()
        if paused_for > self._options.max_pause.total_seconds():
            self._no_rescue_before = _after(self._options.rescue_grace)
            logger.warning("The last sweep was %.0f s ago; waiting for workers", paused_for)
            return
        dead = [worker.worker_id for worker in workers if has_died(worker.pid, worker.birth)]
        rescued = await self._store.rescue(dead=dead)
        self._observer.rescued(rescued)
        for job in rescued:
            outcome = "queued again, to run alone" if job.suspect else "queued again"
            outcome = "failed: it took workers down while it ran alone" if job.failed else outcome
            outcome = "cancelled, as requested" if job.cancelled else outcome
            logger.warning("Worker %s was lost; %s is %s", job.worker_id, job.job_id, outcome)
        for job in rescued:
            await self._files.remove_attempt(job.job_id, job.attempt)

    async def prune(self) -> int:
        """Delete jobs past their retention. Files go first: a job without files can be deleted
        again, files without a job would stay forever."""
        now = utc_now()
        older_than = {status: now - age for status, age in self._options.retention.items()}
        removed = 0
        while ids := await self._store.expired(older_than, limit=PRUNE_BATCH):
            for job_id in ids:
                await self._files.remove(job_id)
                removed += len(await self._store.delete(JobQuery(job_id=job_id)))
            await asyncio.sleep(0.01)  # let other writers through
        if removed:
            logger.info("Deleted %d jobs past their retention", removed)
        return removed

    async def _sweep_if_due(self) -> None:
        if time.monotonic() >= self._sweep_files_at:
            self._sweep_files_at = _after(self._options.sweep_files_every)
            await self.sweep_uploads()
            await self.prune_cache()
            await self.clear_local_files()
        if self._files.blob_store is not None and time.monotonic() >= self._sweep_blob_store_at:
            self._sweep_blob_store_at = _after(self._options.sweep_blob_store_every)
            await self.sweep_blob_store(self._files.blob_store)

    async def prune_cache(self) -> int:
        removed = await asyncio.to_thread(self._files.cache.prune)
        if removed:
            logger.info("Evicted %d least recently used cache entries", removed)
        return removed

    async def clear_local_files(self) -> int:
        """With a shared blob store: remove local files that a process left behind when it died."""
        removed = 0
        if self._files.blob_store is None:
            return removed
        root = self._files.root
        for job_id in await asyncio.to_thread(stale_job_directories, root, MAX_UPLOAD_TIME):
            job = await self._find(job_id)
            if job is None or job.status is not JobStatus.PROCESSING:
                await self._files.remove_local(job_id)
                removed += 1
        return removed

    async def sweep_blob_store(self, blob_store: BlobStore) -> None:
        """Evict cache entries and remove orphans: a worker that lost its lease may have uploaded
        files after the job was deleted."""
        await blob_store.remove_incomplete()
        entries: dict[str, tuple[float, int]] = {}
        async for blob in blob_store.list_blobs(CACHE):
            prefix = "/".join(blob.key.split("/")[:4]) + "/"
            used_at, size = entries.get(prefix, (0.0, 0))
            entries[prefix] = (max(used_at, blob.stored_at), size + blob.size)
        by_use = ((used_at, size, prefix) for prefix, (used_at, size) in entries.items())
        evicted = evictable(by_use, self._files.cache.max_bytes, in_use=IN_USE)
        for prefix in evicted:
            await blob_store.remove(prefix)
        orphans = 0
        before, seen = time.time() - ORPHAN_AGE.total_seconds(), ""
        async for blob in blob_store.list_blobs(JOBS):
            job_id = blob.key.split("/")[1]
            if job_id != seen and blob.stored_at < before:
                seen = job_id
                if await self._find(job_id) is None:
                    await self._files.remove(job_id)
                    orphans += 1
        if evicted or orphans:
            text = "Removed %d cache entries and %d orphaned jobs from the blob store"
            logger.info(text, len(evicted), orphans)

    async def sweep_uploads(self) -> int:
        """Remove uploads that no job will read: the process died, the job failed for good, or the
        request was aborted."""
        uploads = self._files.uploads
        removed = 0
        for job_id in await uploads.stale(MAX_UPLOAD_TIME):
            job = await self._find(job_id)
            if job is None or not self._may_need_upload(job):
                await uploads.remove(job_id)
                if job is not None and job.stored_bytes and job.status is not JobStatus.COMPLETED:
                    await self._store.forget_files(job_id)
                removed += 1
        if removed:
            logger.info("Removed %d unneeded uploads", removed)
        return removed

    def _may_need_upload(self, job: Job) -> bool:
        if job.status not in FINAL_STATUSES:
            return True
        if job.status is JobStatus.COMPLETED or job.completed_at is None:
            return False
        return job.completed_at > utc_now() - self._options.upload_retention

    async def _find(self, job_id: str) -> Job | None:
        try:
            return await self._store.get(job_id)
        except NotFound:
            return None


def _after(delay: timedelta) -> float:
    return time.monotonic() + delay.total_seconds()
