"""What clients may ask of jobs and batches, the same for every way in: HTTP or command line."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from ..core.errors import (
    AccessDenied,
    Conflict,
    InvalidParameters,
    NotFound,
    SecretaryError,
    StoreUnavailable,
)
from ..core.job import FINAL_STATUSES, Batch, Delivery, Job, JobStatus, OwnedResource, new_id
from ..core.parameters import drop_masked, flatten_parameters
from ..storage.artifacts import JobFiles
from ..storage.uploads import UPLOAD_IS_GONE, Upload
from ..store import BatchQuery, IdempotencyKey, JobQuery, JobStore, Page, WorkerInfo
from ..store.workers import is_alive
from .registry import Registry
from .submission import (
    BatchRequest,
    JobRequest,
    Request,
    UrlCheck,
    accept_any_url,
    fingerprint,
    make_batch,
    make_job,
    parse_request,
)

#: The ways to name what a job works on: who names another one means that one only.
SOURCE_PARAMETERS = frozenset({"url", "file_path", "file_source"})


def rerun_request(job: Job, changes: Mapping[str, Any], *, user: str | None) -> JobRequest:
    """Who asks is the owner. Without the webhook: nobody waits for news of this job."""
    return parse_request(
        JobRequest,
        {
            "job_type": job.job_type,
            "parameters": _changed(job.parameters, changes),
            "job_name": job.job_name,
            "user_id": user or job.user_id,
            "access_control": job.access_control,
            "priority": job.priority,
            "max_attempts": job.max_attempts,
            "timeout_s": job.timeout_s,
        },
    )


def _changed(parameters: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A null takes a parameter back."""
    changes = drop_masked(changes)
    gone = {name for name, value in changes.items() if value is None}
    if SOURCE_PARAMETERS & (changes.keys() - gone):
        gone |= SOURCE_PARAMETERS - changes.keys()
    changed = {name: value for name, value in parameters.items() if name not in gone}
    extra = changed.get("extra")
    if isinstance(extra, dict):
        changed["extra"] = {k: v for k, v in extra.items() if k not in changes}
    return changed | {name: value for name, value in changes.items() if value is not None}


def uploaded_source(job: Job) -> dict[str, Any] | None:
    """How the parameters name what came with the job; None if nothing came with it."""
    source = flatten_parameters(job.parameters).get("file_source")
    if not isinstance(source, dict) or source.get("type") != "upload" or not source.get("name"):
        return None
    return source


T = TypeVar("T", bound=OwnedResource)
Q = TypeVar("Q", JobQuery, BatchQuery)

PAGE_SIZE = 1000
RESULTS = frozenset({"results"})

#: To pass over so many jobs takes some three seconds; a cursor takes none.
MAX_SKIP = 100_000
#: Lists that are counted are counted to here, and as far as they were asked for. To read a
#: batch is to count its jobs, so it costs more.
MAX_JOBS_COUNTED = 10_000
MAX_BATCHES_COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class OffsetPage(Generic[T]):
    """Some of a list, and how long the list is, or at least is."""

    items: list[T]
    total: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class JobService:
    """`user` is the one who asks, None for an operator, who may do everything. What a user may
    not read does not exist for them; what they may read but not change is `AccessDenied`."""

    store: JobStore
    registry: Registry
    files: JobFiles
    #: Raises AddressRefused for the URL of a webhook that may not be reached.
    check_url: UrlCheck = accept_any_url
    #: Called when a webhook may have to be told something.
    on_event: Callable[[], None] = lambda: None
    #: A list has no more long results than this: all of it is in memory when it is sent.
    max_results_bytes: int = 32 * 1024 * 1024

    # Jobs

    async def submit(
        self,
        request: JobRequest,
        *,
        user: str | None = None,
        key: str | None = None,
        job_id: str | None = None,
        upload: Upload | None = None,
    ) -> Job:
        """`upload` came with the request and is kept under `job_id`. When the key is known, the
        job that came of the first request is given back."""
        job = make_job(request, self.registry, user=user, check_url=self.check_url)
        if job_id is not None:
            job = job.model_copy(update={"job_id": job_id})
        job = _with_upload(job, upload)
        added = await self.store.add([job], idempotency=_idempotency(request, user, key))
        return await self._got(added.job_ids[0]) if added.replayed else job

    async def job(self, job_id: str, *, user: str | None = None) -> Job:
        """A job with all that is known about it."""
        return await self.with_results(await self.get_without_results(job_id, user=user))

    async def get_without_results(self, job_id: str, *, user: str | None = None) -> Job:
        """A job without those of its results that are in its files."""
        job = await self.store.get(job_id)
        if not job.may_read(user):
            raise NotFound(f"There is no job {job_id}")
        return job

    async def _got(self, job_id: str) -> Job:
        return await self.with_results(await self.store.get(job_id))

    async def with_results(self, job: Job) -> Job:
        """With those of its results that are in its files."""
        return await self.files.filled(job) if job.has_results_file else job

    async def peek(self, job_id: str, *, user: str | None = None) -> Job | None:
        """A job as it is now, without its log; None if there is none that this user may read."""
        found = await self.store.find(JobQuery(job_id=job_id, include=RESULTS, limit=1))
        job = next((job for job in found.items if job.may_read(user)), None)
        return await self.with_results(job) if job else None

    async def jobs(self, query: JobQuery, *, user: str | None = None) -> Page[Job]:
        try:
            found = await self.store.find(query.model_copy(update={"visible_to": user}))
        except ValueError:
            raise InvalidParameters("The cursor is not one that a list gave out") from None
        if not any(job.has_results_file for job in found.items):
            return found
        if (few := await self._as_many_as_fit(found.items)) < len(found.items):
            return await self.jobs(query.model_copy(update={"limit": few}), user=user)
        return replace(found, items=[await self.with_results(job) for job in found.items])

    async def _as_many_as_fit(self, jobs: Sequence[Job]) -> int:
        """Of so many the results can be held at once; of one they can, however long they are."""
        size = 0
        for number, job in enumerate(jobs):
            size += await self.files.more_bytes(job)
            if number and size > self.max_results_bytes:
                return number
        return len(jobs)

    async def jobs_by_offset(
        self, skip: int, query: JobQuery, *, user: str | None = None
    ) -> OffsetPage[Job]:
        """For clients that count what they have seen instead of following a cursor."""
        return await _part(
            partial(self.jobs, user=user), query, skip=skip, count_to=MAX_JOBS_COUNTED
        )

    async def cancel(self, job_id: str, *, user: str | None = None) -> Job:
        """Asked twice it does no harm; a job that ended otherwise is a `Conflict`."""
        await self._writable_job(job_id, user)
        await self.store.cancel(JobQuery(job_id=job_id))
        self.on_event()
        job = await self.store.get(job_id)
        if job.status in FINAL_STATUSES - {JobStatus.CANCELLED}:
            raise Conflict(f"The job {job_id} has already {job.status}")
        return job

    async def restart(self, job_id: str, *, user: str | None = None) -> Job:
        job = await self._writable_job(job_id, user)
        if job.status in FINAL_STATUSES:
            await self._require_upload(job)
        if not await self.store.restart(JobQuery(job_id=job_id)):
            raise Conflict(f"The job {job_id} is {job.status}; only an ended job can be restarted")
        return await self.store.get(job_id)

    async def rerun(
        self,
        job_id: str,
        changes: Mapping[str, Any],
        *,
        user: str | None = None,
        key: str | None = None,
    ) -> Job:
        """Another job like this one but for these parameters; what was uploaded goes with it."""
        job = await self._writable_job(job_id, user)
        request = rerun_request(job, changes, user=user)
        source = None if SOURCE_PARAMETERS & changes.keys() else uploaded_source(job)
        if source is None:
            return await self.submit(request, user=user, key=key)
        other = new_id("job")
        try:
            upload = await self.files.hand_on(job, source, other)
        except NotFound as error:
            raise Conflict(str(error)) from None
        try:
            made = await self.submit(request, user=user, key=key, job_id=other, upload=upload)
        except SecretaryError as error:
            # A store that broke off may have the job all the same; then it needs its file.
            if not isinstance(error, StoreUnavailable):
                await self.files.uploads.remove(other)
            raise
        if made.job_id != other:  # the same request came before
            await self.files.uploads.remove(other)
        return made

    async def archive(self, job_id: str, *, user: str | None = None, archived: bool = True) -> Job:
        await self._writable_job(job_id, user)
        await self.store.archive(JobQuery(job_id=job_id), archived=archived)
        return await self._got(job_id)

    async def delete(self, job_id: str, *, user: str | None = None) -> None:
        job = await self._writable_job(job_id, user)
        if job.status in FINAL_STATUSES:
            await self.files.remove(job_id)
        if not await self.store.delete(JobQuery(job_id=job_id)):
            raise Conflict(f"The job {job_id} is {job.status}; cancel it before you delete it")

    async def _require_upload(self, job: Job) -> None:
        """What came with a request is removed when its job has completed, if a moment later."""
        source = uploaded_source(job)
        if source is not None:
            gone = job.status is JobStatus.COMPLETED
            if gone or not await self.files.uploads.is_there(job.job_id, source):
                raise Conflict(UPLOAD_IS_GONE)

    async def replay(self, job_id: str, n: int, *, user: str | None = None) -> Delivery:
        """Tell the job's webhook once more how it ended."""
        await self._writable_job(job_id, user)
        return await self._replay(job_id, n)

    # Batches

    async def submit_batch(
        self,
        request: BatchRequest,
        *,
        user: str | None = None,
        key: str | None = None,
        uploads: Sequence[Upload | None] = (),
    ) -> tuple[Batch, list[str]]:
        """`uploads` came with the request: one for each job, None for a job without."""
        batch, jobs = make_batch(request, self.registry, user=user, check_url=self.check_url)
        if uploads:
            jobs = [_with_upload(*pair) for pair in zip(jobs, uploads, strict=True)]
        idempotency = _idempotency(request, user, key)
        added = await self.store.add(jobs, batch=batch, idempotency=idempotency)
        return await self.store.get_batch(added.batch_id or batch.batch_id), added.job_ids

    async def batch(self, batch_id: str, *, user: str | None = None) -> Batch:
        batch = await self.store.get_batch(batch_id)
        if not batch.may_read(user):
            raise NotFound(f"There is no batch {batch_id}")
        return batch

    async def peek_batch(self, batch_id: str, *, user: str | None = None) -> Batch | None:
        try:
            return await self.batch(batch_id, user=user)
        except NotFound:
            return None

    async def batches(self, query: BatchQuery, *, user: str | None = None) -> Page[Batch]:
        try:
            return await self.store.find_batches(query.model_copy(update={"visible_to": user}))
        except ValueError:
            raise InvalidParameters("The cursor is not one that a list gave out") from None

    async def batches_by_offset(
        self,
        skip: int,
        query: BatchQuery,
        *,
        user: str | None = None,
        wanted: Callable[[Batch], bool] = lambda _: True,
    ) -> OffsetPage[Batch]:
        """Of the batches that a query finds only the `wanted` ones are given and counted."""
        find = partial(self.batches, user=user)
        return await _part(find, query, skip=skip, count_to=MAX_BATCHES_COUNTED, wanted=wanted)

    async def jobs_of_batch(self, batch_id: str, *, user: str | None = None) -> list[Job]:
        query = JobQuery(batch_id=batch_id, visible_to=user, limit=PAGE_SIZE)
        return [job async for page, _ in self._pages(query) for job in page]

    async def set_batch_active(
        self, batch_id: str, active: bool | None = None, *, user: str | None = None
    ) -> Batch:
        """With None the other way round than it is now."""
        batch = await self._writable_batch(batch_id, user)
        active = not batch.is_active if active is None else active
        return await self.store.change_batch(batch_id, is_active=active)

    async def archive_batch(
        self, batch_id: str, *, user: str | None = None, archived: bool = True
    ) -> Batch:
        await self._writable_batch(batch_id, user)
        return await self.store.change_batch(batch_id, archived=archived)

    async def cancel_batch(self, batch_id: str, *, user: str | None = None) -> list[str]:
        """The ids of the jobs that ended or will end because of this."""
        await self._writable_batch(batch_id, user)
        ended = await self._on_all(JobQuery(batch_id=batch_id, limit=PAGE_SIZE), self.store.cancel)
        self.on_event()
        return ended

    async def restart_failed(self, batch_id: str, *, user: str | None = None) -> list[str]:
        await self._writable_batch(batch_id, user)
        failed = frozenset({JobStatus.FAILED})
        query = JobQuery(batch_id=batch_id, status=failed, limit=PAGE_SIZE)
        return await self._on_all(query, self.store.restart)

    async def delete_batch(self, batch_id: str, *, user: str | None = None) -> None:
        batch = await self._writable_batch(batch_id, user)
        if batch.counts.get(JobStatus.PENDING) or batch.counts.get(JobStatus.PROCESSING):
            raise Conflict(f"The batch {batch_id} has unfinished jobs; cancel it first")
        async for jobs, query in self._pages(JobQuery(batch_id=batch_id, limit=PAGE_SIZE)):
            for job in jobs:
                await self.files.remove(job.job_id)
            await self.store.delete(query)
        await self.store.delete_batch(batch_id)

    async def replay_batch(self, batch_id: str, n: int, *, user: str | None = None) -> Delivery:
        await self._writable_batch(batch_id, user)
        return await self._replay(batch_id, n)

    # Workers

    async def workers_alive(self) -> list[WorkerInfo]:
        return [worker for worker in await self.store.workers() if is_alive(worker)]

    async def _replay(self, owner_id: str, n: int) -> Delivery:
        delivery = await self.store.replay_event(owner_id, n)
        self.on_event()
        return delivery

    async def _writable_job(self, job_id: str, user: str | None) -> Job:
        return _writable(await self.get_without_results(job_id, user=user), user)

    async def _writable_batch(self, batch_id: str, user: str | None) -> Batch:
        """What is done to it is done to its jobs, which may be of others: an operator chose."""
        batch = _writable(await self.batch(batch_id, user=user), user)
        if user is not None:
            async for jobs, _ in self._pages(JobQuery(batch_id=batch_id, limit=PAGE_SIZE)):
                for job in jobs:
                    _writable(job, user)
        return batch

    async def _on_all(
        self, query: JobQuery, change: Callable[[JobQuery], Awaitable[list[str]]]
    ) -> list[str]:
        """Each job once: a restarted job that fails again at once must not keep us here."""
        return [job_id async for _, part in self._pages(query) for job_id in await change(part)]

    async def _pages(self, query: JobQuery) -> AsyncIterator[tuple[list[Job], JobQuery]]:
        """All jobs of a query, page by page, each with the query that finds just that page."""
        part: JobQuery | None = query
        while part is not None:
            page = await self.store.find(part)
            yield page.items, part
            cursor = page.next_cursor
            part = query.model_copy(update={"cursor": cursor}) if cursor else None


async def _part(
    find: Callable[[Q], Awaitable[Page[T]]],
    query: Q,
    *,
    skip: int,
    count_to: int,
    wanted: Callable[[T], bool] = lambda _: True,
) -> OffsetPage[T]:
    """A store goes on behind a cursor only, so the way to the start is walked."""
    if skip > MAX_SKIP:
        raise InvalidParameters(f"skip: {skip:,} is more than {MAX_SKIP:,}; use filters instead")
    end = skip + query.limit
    enough = max(count_to, end + 1)  # who asks again while `skip` is below the total sees it all
    items: list[T] = []
    total = looked_at = 0
    async for item in _walk(find, query):
        looked_at += 1
        if looked_at > MAX_SKIP + 2 * PAGE_SIZE:
            raise InvalidParameters("The list is too long to look through; use more filters")
        if not wanted(item):
            continue
        if total == enough:
            return OffsetPage(items, total, is_exact=False)
        if skip <= total < end:
            items.append(item)
        total += 1
    return OffsetPage(items, total, is_exact=True)


async def _walk(find: Callable[[Q], Awaitable[Page[T]]], query: Q) -> AsyncIterator[T]:
    cursor: str | None = None
    while True:
        page = await find(query.model_copy(update={"limit": PAGE_SIZE, "cursor": cursor}))
        for item in page.items:
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return


def _with_upload(job: Job, upload: Upload | None) -> Job:
    """The job that its upload was kept for."""
    if upload is None:
        return job
    source = {**upload.source(), "path": upload.path}
    parameters = {**job.parameters, "file_source": source}
    return job.model_copy(update={"job_id": upload.job_id, "parameters": parameters})


def _writable(owned: T, user: str | None) -> T:
    if not owned.may_write(user):
        raise AccessDenied("You may read this, but not change it")
    return owned


def _idempotency(request: Request, user: str | None, key: str | None) -> IdempotencyKey | None:
    if key is None:
        return None
    return IdempotencyKey(key=key, fingerprint=fingerprint(request), scope=user or "")
