"""The event-job API for older clients: the same jobs and batches in their response format."""

from typing import Annotated, Any, Literal

from fastapi import Query, Request
from fastapi.responses import Response
from pydantic.json_schema import SkipJsonSchema

from ..core.job import Batch, Job
from ..jobs.service import MAX_SKIP, OffsetPage
from ..jobs.submission import JobRequest
from ..store import BatchQuery, JobQuery
from . import models, requests
from .auth import Caller
from .batches import ActiveBody, BatchBody
from .models import ResponseModel
from .openapi import creates, make_router
from .responses import LEGACY_PREFIX, JsonResponse, warnings_field

router = make_router("event-job", prefix=LEGACY_PREFIX)

Skip = Annotated[int, Query(ge=0, le=MAX_SKIP, description="Number of entries to skip")]


class LegacyResponse(ResponseModel):
    status: Literal["success"]
    message: str


class LegacyJob(LegacyResponse):
    job: models.Job


class LegacyCreatedJob(LegacyJob):
    warnings: models.RequestWarnings = None


class LegacyDeletedJob(LegacyResponse):
    job: models.JobSummary


class LegacyBatch(LegacyResponse):
    batch: models.Batch


class LegacyCreatedBatch(LegacyBatch):
    job_ids: list[str]
    warnings: models.RequestWarnings = None


class LegacyPage(LegacyResponse):
    total: int
    total_is_exact: bool
    count: int
    limit: int
    skip: int


class LegacyJobPage(LegacyPage):
    jobs: list[models.JobSummary]


class LegacyBatchPage(LegacyPage):
    batches: list[models.Batch]


CREATED_JOB = creates(LegacyCreatedJob, "Created", status=201)


@router.post("/submit", **CREATED_JOB, name="submit_event_job")
@router.post("/jobs", **CREATED_JOB)
async def create_event_job(
    request: Request, job: JobRequest, user: Caller, key: requests.IdempotencyKey = None
) -> Response:
    """Submit a job; the default job type is `session`."""
    job_service, submitted = requests.job_service_of(request), requests.with_trace(request, job)
    stored = await job_service.submit(submitted, user=user, key=key)
    location = f"{LEGACY_PREFIX}/jobs/{stored.job_id}"
    warnings = warnings_field(job_service.warnings(submitted))
    message = f"Job {stored.job_id} was created"
    return _response(message, location, job=stored.document(), **warnings)


@router.get("/jobs", response_model=LegacyJobPage)
async def list_event_jobs(
    request: Request,
    user: Caller,
    status: requests.StatusFilter = None,
    batch_id: requests.OptionalText = None,
    user_id: requests.OptionalText = None,
    archived: requests.ArchivedFilter = "false",
    limit: requests.Limit = 100,
    skip: Skip = 0,
) -> Response:
    """List jobs, newest first, without results and logs."""
    query = JobQuery(
        status=requests.read_statuses(status),
        # These clients send an empty string for a filter that is not set.
        batch_id=batch_id or None,
        user_id=user_id or None,
        archived=requests.ARCHIVED[archived],
        limit=limit,
    )
    page = await requests.job_service_of(request).jobs_by_offset(skip, query, user=user)
    jobs = [job.summary() for job in page.items]
    return _page_response(page, "jobs", jobs, limit=limit, skip=skip)


@router.get("/status/{job_id}", response_model=LegacyJob, name="get_event_job_status")
@router.get("/jobs/{job_id}", response_model=LegacyJob)
async def get_event_job(request: Request, job_id: requests.JobId, user: Caller) -> Response:
    """Return a job with its results and logs."""
    job = await requests.job_service_of(request).job(job_id, user=user)
    return _response(f"Job {job_id} is {job.status}", job=job.document())


@router.delete("/jobs/{job_id}", response_model=LegacyDeletedJob)
async def delete_event_job(request: Request, job_id: requests.JobId, user: Caller) -> Response:
    """Delete a finished job and its files; return it one last time."""
    job_service = requests.job_service_of(request)
    job = await job_service.job(job_id, user=user)
    await job_service.delete(job_id, user=user)
    return _response(f"Job {job_id} was deleted", job=job.summary())


@router.post("/{job_id}/restart", response_model=LegacyJob)
async def restart_event_job(request: Request, job_id: requests.JobId, user: Caller) -> Response:
    """Run a finished job again. Clears its results, error and progress."""
    job = await requests.job_service_of(request).restart(job_id, user=user)
    return _response(f"Job {job_id} was restarted", job=job.document())


@router.post("/batches", **creates(LegacyCreatedBatch, "Created", status=201))
async def create_event_batch(
    request: Request, batch: BatchBody, user: Caller, key: requests.IdempotencyKey = None
) -> Response:
    """Submit several jobs, all or nothing."""
    job_service, batch = requests.job_service_of(request), requests.with_trace(request, batch)
    stored, job_ids = await job_service.submit_batch(batch, user=user, key=key)
    message = f"Batch {stored.batch_id} was created with {len(job_ids)} jobs"
    location = f"{LEGACY_PREFIX}/batches/{stored.batch_id}"
    warnings = warnings_field(job_service.warnings(batch))
    return _response(message, location, batch=stored.document(), job_ids=job_ids, **warnings)


@router.get("/batches", response_model=LegacyBatchPage)
async def list_event_batches(
    request: Request,
    user: Caller,
    status: requests.StatusFilter = None,
    user_id: requests.OptionalText = None,
    archived: requests.ArchivedFilter = "false",
    active: Annotated[bool | SkipJsonSchema[None], Query(alias="isActive")] = None,
    limit: requests.Limit = 100,
    skip: Skip = 0,
) -> Response:
    """List batches, newest first."""
    statuses = requests.read_statuses(status)
    query = BatchQuery(user_id=user_id or None, archived=requests.ARCHIVED[archived], limit=limit)

    def matches(batch: Batch) -> bool:
        has_status = statuses is None or batch.status in statuses
        return has_status and active in (None, batch.is_active)

    page = await requests.job_service_of(request).batches_by_offset(
        skip, query, user=user, wanted=matches
    )
    batches = [batch.document() for batch in page.items]
    return _page_response(page, "batches", batches, limit=limit, skip=skip)


@router.get("/batches/{batch_id}", response_model=LegacyBatch)
async def get_event_batch(request: Request, batch_id: requests.BatchId, user: Caller) -> Response:
    """Return a batch."""
    batch = await requests.job_service_of(request).batch(batch_id, user=user)
    return _response(f"Batch {batch_id} is {batch.status}", batch=batch.document())


@router.delete("/batches/{batch_id}", response_model=LegacyBatch)
async def delete_event_batch(
    request: Request, batch_id: requests.BatchId, user: Caller
) -> Response:
    """Delete a finished batch, its jobs and their files."""
    job_service = requests.job_service_of(request)
    batch = await job_service.batch(batch_id, user=user)
    await job_service.delete_batch(batch_id, user=user)
    return _response(f"Batch {batch_id} was deleted", batch=batch.document())


@router.post("/batches/{batch_id}/archive", response_model=LegacyBatch)
async def archive_event_batch(
    request: Request, batch_id: requests.BatchId, user: Caller
) -> Response:
    """Hide a batch and its jobs from default listings. Nothing is deleted."""
    batch = await requests.job_service_of(request).archive_batch(batch_id, user=user)
    return _response(f"Batch {batch_id} was archived", batch=batch.document())


@router.post("/batches/{batch_id}/toggle-active", response_model=LegacyBatch)
async def toggle_event_batch(
    request: Request, batch_id: requests.BatchId, user: Caller, active: ActiveBody = None
) -> Response:
    """Pause or resume a batch. Without a body, toggles the current state."""
    batch = await requests.job_service_of(request).set_batch_active(batch_id, active, user=user)
    state = "active" if batch.is_active else "paused"
    return _response(f"Batch {batch_id} is {state}", batch=batch.document())


def _page_response(
    page: OffsetPage[Job] | OffsetPage[Batch],
    name: Literal["jobs", "batches"],
    documents: list[dict[str, Any]],
    *,
    limit: int,
    skip: int,
) -> Response:
    count, total = len(documents), page.total if page.is_exact else f"more than {page.total}"
    extent: dict[str, Any] = {"total": page.total, "total_is_exact": page.is_exact, "count": count}
    extent |= {"limit": limit, "skip": skip, name: documents}
    return _response(f"{count} of {total} {name}", **extent)


def _response(message: str, created: str | None = None, **content: Any) -> Response:
    """`created` is the path of a new job or batch."""
    document = {"status": "success", **content, "message": message}
    return JsonResponse(document, 201, {"Location": created}) if created else JsonResponse(document)
