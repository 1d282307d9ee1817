"""What any client can do with jobs and batches, over HTTP or on the command line."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from ..core import errors
from ..core.job import (
    FINAL_STATUSES,
    Batch,
    Delivery,
    Job,
    JobStatus,
    JobWarning,
    OwnedResource,
    new_id,
)
from ..storage.artifacts import JobFiles
from ..storage.sources import UPLOAD_GONE, Upload
from ..store import Added, BatchQuery, IdempotencyKey, JobCharge, JobQuery, Page, Store
from .handler import Registry
from .quotas import Quotas
from .submission import (
    SOURCE_PARAMETERS,
    BatchRequest,
    JobRequest,
    Request,
    UrlCheck,
    accept_any_url,
    callback_key,
    check_retention,
    fingerprint,
    make_batch,
    make_job,
    rerun_request,
    uploaded_sources,
)
from .unknown_fields import unknown_field_warnings

T = TypeVar("T", bound=OwnedResource)
Q = TypeVar("Q", JobQuery, BatchQuery)

PAGE_SIZE = 1000
RESULTS = frozenset({"results"})

#: Skipping this many jobs takes about three seconds; a cursor takes no time.
MAX_SKIP = 100_000
#: Totals are exact up to here, or up to the requested page. Reading a batch counts its jobs, so
#: batches cost more.
MAX_JOBS_COUNTED = 10_000
MAX_BATCHES_COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class OffsetPage(Generic[T]):
    """A page of a list; `total` is a lower bound unless `is_exact`."""

    items: list[T]
    total: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class JobService:
    """Everything a client can do.

    `user` is the caller; None is an operator, who may do everything. What users may not read is
    `NotFound` for them; what they may read but not change is `AccessDenied`.
    """

    store: Store
    registry: Registry
    files: JobFiles
    #: Raises AddressRefused for a webhook URL that must not be reached.
    check_url: UrlCheck = accept_any_url
    #: Called when a webhook event may be due.
    on_event: Callable[[], None] = lambda: None
    quotas: Quotas = field(default_factory=Quotas)
    #: The longest `retention_days` a client may ask for; 0 means any.
    max_retention_days: float = 0
    #: A list holds results up to this size: all of it is in memory when it is sent.
    max_results_bytes: int = 32 * 1024 * 1024

    # Jobs

    async def submit(
        self,
        request: JobRequest,
        *,
        user: str | None = None,
        key: str | None = None,
        uploads: Sequence[Upload] = (),
    ) -> Job:
        """Add a job. `uploads` came with the request; the job gets their id. If the idempotency
        key was used before, return the job of that request."""
        job = self._new_job(request, user, uploads)
        idempotency = _idempotency(request, user, key)
        charges = await self.quotas.charges(self.store, [job])
        added = await self.store.add([job], idempotency=idempotency, charges=charges)
        return await self._added(job, added)

    def _new_job(self, request: JobRequest, user: str | None, uploads: Sequence[Upload]) -> Job:
        check_retention(request, self.max_retention_days)
        job = make_job(request, self.registry, user=user, check_url=self.check_url)
        return self._with_uploads(job, uploads)

    def _with_uploads(self, job: Job, uploads: Sequence[Upload]) -> Job:
        """The job with the id, the sources and, if it counts, the size of its uploads."""
        if not uploads:
            return job
        sources = [{**upload.source(), "path": upload.path} for upload in uploads]
        source = {"file_sources": sources} if len(sources) > 1 else {"file_source": sources[0]}
        parameters = {**job.parameters, **source}
        update: dict[str, Any] = {"job_id": uploads[0].job_id, "parameters": parameters}
        if self.quotas.enabled and job.user_id is not None:
            update["stored_bytes"] = sum(upload.size for upload in uploads)
        return job.model_copy(update=update)

    async def submit_for_callback(
        self, request: JobRequest, *, user: str | None = None, uploads: Sequence[Upload] = ()
    ) -> Job:
        """Add a job that a client may submit again with the same callback URL and a new token, say
        because it did not get the response in time. Only one of these jobs reports to the client;
        while the first is unfinished and the request is the same, it is returned."""
        job = self._new_job(request, user, uploads)
        callback = callback_key(request, job.user_id)
        charges = await self.quotas.charges(self.store, [job])
        added = await self.store.add([job], callback=callback, charges=charges)
        return await self._added(job, added)

    async def _added(self, job: Job, added: Added) -> Job:
        if not added.replayed:
            return job
        return await self.files.load_results(await self.store.get(added.job_ids[0]))

    def warnings(self, request: JobRequest | BatchRequest) -> list[JobWarning]:
        """What the client should know about a request that was accepted."""
        jobs = [request] if isinstance(request, JobRequest) else request.jobs
        shared = (request.model_extra or {}) if isinstance(request, BatchRequest) else {}
        return unknown_field_warnings(
            self.registry,
            (
                (job.job_type, {**shared, **(job.model_extra or {}), **job.parameters})
                for job in jobs
            ),
        )

    async def reporting_job(self, process_id: str, *, user: str | None = None) -> Job:
        """The job whose files a client means when it names the `process.id` of an event: the last
        one submitted for the same callback. Without the results that are stored in a file."""
        job_id = await self.store.reporting_job(process_id)
        return await self.get_without_results(job_id or process_id, user=user)

    @asynccontextmanager
    async def adding(self, uploads: Sequence[Upload]) -> AsyncIterator[list[str]]:
        """The caller appends the ids of the jobs it adds; uploads without a job are removed."""
        job_ids: list[str] = []

        async def remove_unused() -> None:
            for upload in uploads:
                if upload.job_id not in job_ids:
                    await self.files.uploads.remove(upload.job_id)

        try:
            yield job_ids
        except errors.StoreUnavailable:
            raise  # the jobs may exist all the same; then they need their uploads
        except errors.SecretaryError:
            await remove_unused()
            raise
        await remove_unused()  # if the idempotency key was used before

    async def job(self, job_id: str, *, user: str | None = None) -> Job:
        """A job with all of its results."""
        return await self.files.load_results(await self.get_without_results(job_id, user=user))

    async def get_without_results(self, job_id: str, *, user: str | None = None) -> Job:
        """A job without the results that are stored in a file."""
        job = await self.store.get(job_id)
        if not job.may_read(user):
            raise errors.NotFound(f"There is no job {job_id}")
        return job

    async def peek(self, job_id: str, *, user: str | None = None) -> Job | None:
        """A job without its log; None if there is none that this user may read."""
        page = await self.store.find(JobQuery(job_id=job_id, include=RESULTS, limit=1))
        job = next((job for job in page.items if job.may_read(user)), None)
        return await self.files.load_results(job) if job else None

    async def jobs(self, query: JobQuery, *, user: str | None = None) -> Page[Job]:
        try:
            page = await self.store.find(query.model_copy(update={"visible_to": user}))
        except ValueError:
            raise errors.InvalidParameters("Invalid cursor") from None
        if not any(job.has_results_file for job in page.items):
            return page
        size = 0
        for number, job in enumerate(page.items):
            size += await self.files.results_file_size(job)
            if number and size > self.max_results_bytes:
                return await self.jobs(query.model_copy(update={"limit": number}), user=user)
        return replace(page, items=[await self.files.load_results(job) for job in page.items])

    async def jobs_by_offset(
        self, skip: int, query: JobQuery, *, user: str | None = None
    ) -> OffsetPage[Job]:
        """For clients that page by offset instead of by cursor."""
        find = partial(self.jobs, user=user)
        return await _offset_page(find, query, skip=skip, count_to=MAX_JOBS_COUNTED)

    async def cancel(self, job_id: str, *, user: str | None = None) -> Job:
        """Idempotent; `Conflict` for a job that has completed or failed."""
        await self._writable_job(job_id, user)
        await self.store.cancel(JobQuery(job_id=job_id))
        self.on_event()
        job = await self.store.get(job_id)
        if job.status in FINAL_STATUSES - {JobStatus.CANCELLED}:
            raise errors.Conflict(f"The job {job_id} has already {job.status}")
        return job

    async def restart(self, job_id: str, *, user: str | None = None) -> Job:
        job = await self._writable_job(job_id, user)
        sources = uploaded_sources(job)
        if sources and job.status in FINAL_STATUSES:
            # They are removed shortly after their job has completed.
            is_removed = job.status is JobStatus.COMPLETED
            if is_removed or not await self.files.uploads.exists(job_id, sources[0]):
                raise errors.Conflict(UPLOAD_GONE)
        charges = await self._charge_restart([job] if job.status in FINAL_STATUSES else [])
        if not await self.store.restart(JobQuery(job_id=job_id)):
            if charges:
                undone = [replace(one, jobs=-one.jobs, limit=None) for one in charges]
                await self.store.charge(undone)
            text = f"The job {job_id} is {job.status}; only an ended job can be restarted"
            raise errors.Conflict(text)
        return await self.store.get(job_id)

    async def _charge_restart(self, jobs: Sequence[Job]) -> list[JobCharge]:
        """A restarted job counts like a new one."""
        if charges := await self.quotas.charges(self.store, jobs, restarted=True):
            await self.store.charge(charges)
        return charges

    async def rerun(
        self,
        job_id: str,
        changes: Mapping[str, Any],
        *,
        user: str | None = None,
        key: str | None = None,
    ) -> Job:
        """Submit the job again with changed parameters; its upload is reused."""
        job = await self._writable_job(job_id, user)
        request = rerun_request(job, changes, user=user)
        if self.max_retention_days and request.retention_days is not None:  # the limit was lowered
            days = min(request.retention_days or self.max_retention_days, self.max_retention_days)
            request = request.model_copy(update={"retention_days": days})
        sources = [] if SOURCE_PARAMETERS & changes.keys() else uploaded_sources(job)
        new_job_id, uploads = new_id("job"), []
        try:
            for source in sources:
                uploads.append(await self.files.copy_upload(job, source, new_job_id))
        except errors.NotFound as error:
            await self.files.uploads.remove(new_job_id)
            raise errors.Conflict(str(error)) from None
        async with self.adding(uploads) as job_ids:
            new_job = await self.submit(request, user=user, key=key, uploads=uploads)
            job_ids.append(new_job.job_id)
        return new_job

    async def archive(self, job_id: str, *, user: str | None = None, archived: bool = True) -> Job:
        await self._writable_job(job_id, user)
        await self.store.archive(JobQuery(job_id=job_id), archived=archived)
        return await self.files.load_results(await self.store.get(job_id))

    async def delete(self, job_id: str, *, user: str | None = None) -> None:
        job = await self._writable_job(job_id, user)
        if job.status in FINAL_STATUSES:
            await self.files.remove(job_id)
        if not await self.store.delete(JobQuery(job_id=job_id)):
            text = f"The job {job_id} is {job.status}; cancel it before you delete it"
            raise errors.Conflict(text)
        self.quotas.files_removed(job.user_id)

    async def replay(self, job_id: str, n: int, *, user: str | None = None) -> Delivery:
        """Deliver a final webhook event once more."""
        await self._writable_job(job_id, user)
        delivery = await self.store.replay_event(job_id, n)
        self.on_event()
        return delivery

    # Batches

    async def submit_batch(
        self,
        request: BatchRequest,
        *,
        user: str | None = None,
        key: str | None = None,
        uploads: Sequence[Upload | None] = (),
    ) -> tuple[Batch, list[str]]:
        """Add a batch of jobs. `uploads` has one entry per job, None for a job without."""
        check_retention(request, self.max_retention_days)
        batch, jobs = make_batch(request, self.registry, user=user, check_url=self.check_url)
        if uploads:
            pairs = zip(jobs, uploads, strict=True)
            jobs = [self._with_uploads(job, [upload] if upload else []) for job, upload in pairs]
        idempotency = _idempotency(request, user, key)
        charges = await self.quotas.charges(self.store, jobs)
        added = await self.store.add(jobs, batch=batch, idempotency=idempotency, charges=charges)
        return await self.store.get_batch(added.batch_id or batch.batch_id), added.job_ids

    async def batch(self, batch_id: str, *, user: str | None = None) -> Batch:
        batch = await self.store.get_batch(batch_id)
        if not batch.may_read(user):
            raise errors.NotFound(f"There is no batch {batch_id}")
        return batch

    async def batches(self, query: BatchQuery, *, user: str | None = None) -> Page[Batch]:
        try:
            return await self.store.find_batches(query.model_copy(update={"visible_to": user}))
        except ValueError:
            raise errors.InvalidParameters("Invalid cursor") from None

    async def batches_by_offset(
        self,
        skip: int,
        query: BatchQuery,
        *,
        user: str | None = None,
        wanted: Callable[[Batch], bool] = lambda _: True,
    ) -> OffsetPage[Batch]:
        """Page by offset through the batches for which `wanted` is true."""
        find, count_to = partial(self.batches, user=user), MAX_BATCHES_COUNTED
        return await _offset_page(find, query, skip=skip, count_to=count_to, wanted=wanted)

    async def jobs_of_batch(self, batch_id: str, *, user: str | None = None) -> list[Job]:
        query = JobQuery(batch_id=batch_id, visible_to=user, limit=PAGE_SIZE)
        return [job async for page, _ in _pages(self.store.find, query) for job in page]

    async def set_batch_active(
        self, batch_id: str, active: bool | None = None, *, user: str | None = None
    ) -> Batch:
        """Pause or resume a batch; None toggles it."""
        batch = await self._writable_batch(batch_id, user)
        active = not batch.is_active if active is None else active
        return await self.store.change_batch(batch_id, is_active=active)

    async def archive_batch(
        self, batch_id: str, *, user: str | None = None, archived: bool = True
    ) -> Batch:
        await self._writable_batch(batch_id, user)
        return await self.store.change_batch(batch_id, archived=archived)

    async def cancel_batch(self, batch_id: str, *, user: str | None = None) -> list[str]:
        """Cancel all unfinished jobs and return their ids."""
        await self._writable_batch(batch_id, user)
        ended = await self._on_all(JobQuery(batch_id=batch_id, limit=PAGE_SIZE), self.store.cancel)
        self.on_event()
        return ended

    async def restart_failed(self, batch_id: str, *, user: str | None = None) -> list[str]:
        await self._writable_batch(batch_id, user)
        failed = frozenset({JobStatus.FAILED})
        query = JobQuery(batch_id=batch_id, status=failed, limit=PAGE_SIZE)
        if self.quotas.enabled:  # all of them, or none
            pages = _pages(self.store.find, query)
            await self._charge_restart([job async for jobs, _ in pages for job in jobs])
        return await self._on_all(query, self.store.restart)

    async def delete_batch(self, batch_id: str, *, user: str | None = None) -> None:
        batch = await self._writable_batch(batch_id, user)
        if batch.counts.get(JobStatus.PENDING) or batch.counts.get(JobStatus.PROCESSING):
            raise errors.Conflict(f"The batch {batch_id} has unfinished jobs; cancel it first")
        all_jobs = JobQuery(batch_id=batch_id, limit=PAGE_SIZE)
        async for jobs, query in _pages(self.store.find, all_jobs):
            for job in jobs:
                await self.files.remove(job.job_id)
            await self.store.delete(query)
            for job in jobs:
                self.quotas.files_removed(job.user_id)
        await self.store.delete_batch(batch_id)

    async def replay_batch(self, batch_id: str, n: int, *, user: str | None = None) -> Delivery:
        await self._writable_batch(batch_id, user)
        delivery = await self.store.replay_event(batch_id, n)
        self.on_event()
        return delivery

    async def _writable_job(self, job_id: str, user: str | None) -> Job:
        return _writable(await self.get_without_results(job_id, user=user), user)

    async def _writable_batch(self, batch_id: str, user: str | None) -> Batch:
        """Changing a batch changes its jobs, so the user needs write access to all of them."""
        batch = _writable(await self.batch(batch_id, user=user), user)
        if user is not None:
            query = JobQuery(batch_id=batch_id, limit=PAGE_SIZE)
            async for jobs, _ in _pages(self.store.find, query):
                for job in jobs:
                    _writable(job, user)
        return batch

    async def _on_all(
        self, query: JobQuery, change: Callable[[JobQuery], Awaitable[list[str]]]
    ) -> list[str]:
        """Change each job once, even if a restarted job matches the query again."""
        pages = _pages(self.store.find, query)
        return [job_id async for _, page in pages for job_id in await change(page)]


async def _pages(
    find: Callable[[Q], Awaitable[Page[T]]], query: Q
) -> AsyncIterator[tuple[list[T], Q]]:
    """What a query finds page by page, each with the query for exactly that page."""
    page_query: Q | None = query
    while page_query is not None:
        page = await find(page_query)
        yield page.items, page_query
        cursor = page.next_cursor
        page_query = query.model_copy(update={"cursor": cursor}) if cursor else None


async def _offset_page(
    find: Callable[[Q], Awaitable[Page[T]]],
    query: Q,
    *,
    skip: int,
    count_to: int,
    wanted: Callable[[T], bool] = lambda _: True,
) -> OffsetPage[T]:
    """Stores page by cursor only, so everything before the offset is read too."""
    if skip > MAX_SKIP:
        raise errors.InvalidParameters(f"skip: {skip:,} is more than {MAX_SKIP:,}; use filters")
    end = skip + query.limit
    enough = max(count_to, end + 1)  # so that paging while `skip < total` reaches the end
    items: list[T] = []
    total = examined = 0
    async for page, _ in _pages(find, query.model_copy(update={"limit": PAGE_SIZE})):
        for item in page:
            examined += 1
            if examined > MAX_SKIP + 2 * PAGE_SIZE:
                text = "The list is too long to page through; use more filters"
                raise errors.InvalidParameters(text)
            if not wanted(item):
                continue
            if total == enough:
                return OffsetPage(items, total, is_exact=False)
            if skip <= total < end:
                items.append(item)
            total += 1
    return OffsetPage(items, total, is_exact=True)


def _writable(owned: T, user: str | None) -> T:
    if not owned.may_write(user):
        raise errors.AccessDenied("You have read access only")
    return owned


def _idempotency(request: Request, user: str | None, key: str | None) -> IdempotencyKey | None:
    if key is None:
        return None
    return IdempotencyKey(key=key, fingerprint=fingerprint(request), scope=user or "")
