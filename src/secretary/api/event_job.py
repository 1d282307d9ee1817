"""The routes of the older clients: the same jobs and batches, in the form those clients read."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from ..core.job import Batch, Job
from ..jobs.service import MAX_SKIP, OffsetPage
from ..jobs.submission import BatchRequest, JobRequest
from ..store import BatchQuery, JobQuery
from .auth import Caller
from .batches import Active
from .dependencies import (
    ARCHIVED,
    BIG,
    Archived,
    Key,
    Limit,
    Statuses,
    job_service_of,
    statuses,
    traced,
)
from .envelope import JsonAnswer
from .errors import OLDER_ROUTES

router = APIRouter(prefix=OLDER_ROUTES, tags=["event-job"])

Skip = Annotated[int, Query(ge=0, le=MAX_SKIP, description="How many to pass over")]


@router.post("/submit", status_code=201, name="submit_event_job")
@router.post("/jobs", status_code=201)
async def create_event_job(
    request: Request, job: JobRequest, user: Caller, key: Key = None
) -> JSONResponse:
    """Hand in a job; without a type it is a session."""
    stored = await job_service_of(request).submit(traced(request, job), user=user, key=key)
    response = _told(f"Job {stored.job_id} was created", 201, job=stored.document())
    response.headers["Location"] = f"{OLDER_ROUTES}/jobs/{stored.job_id}"
    return response


@router.get("/jobs")
async def list_event_jobs(
    request: Request,
    user: Caller,
    status: Statuses = None,
    batch_id: str | None = None,
    user_id: str | None = None,
    archived: Archived = "false",
    limit: Limit = 100,
    skip: Skip = 0,
) -> JSONResponse:
    """Jobs, the newest first, without their results and logs."""
    query = JobQuery(
        status=statuses(status),
        # These clients send an empty text for a filter that is not set.
        batch_id=batch_id or None,
        user_id=user_id or None,
        archived=ARCHIVED[archived],
        limit=limit,
    )
    part = await job_service_of(request).jobs_by_offset(skip, query, user=user)
    jobs = [job.document(without=BIG) for job in part.items]
    return _told(_found(part, "jobs"), **_extent(part, query.limit, skip), jobs=jobs)


@router.get("/status/{job_id}", name="get_event_job_status")
@router.get("/jobs/{job_id}")
async def get_event_job(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """One job with its results and logs."""
    job = await job_service_of(request).job(job_id, user=user)
    return _told(f"Job {job_id} is {job.status}", job=job.document())


@router.delete("/jobs/{job_id}")
async def delete_event_job(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """Delete an ended job and its files; the answer shows it for the last time."""
    job_service = job_service_of(request)
    job = await job_service.job(job_id, user=user)
    await job_service.delete(job_id, user=user)
    return _told(f"Job {job_id} was deleted", job=job.document(without=BIG))


@router.post("/{job_id}/restart")
async def restart_event_job(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """Run an ended job again; its results, error and progress are cleared."""
    job = await job_service_of(request).restart(job_id, user=user)
    return _told(f"Job {job_id} was restarted", job=job.document())


@router.post("/batches", status_code=201)
async def create_event_batch(
    request: Request, batch: BatchRequest, user: Caller, key: Key = None
) -> JSONResponse:
    """Hand in several jobs, all or none."""
    stored, job_ids = await job_service_of(request).submit_batch(
        traced(request, batch), user=user, key=key
    )
    text = f"Batch {stored.batch_id} was created with {len(job_ids)} jobs"
    response = _told(text, 201, batch=stored.document(), job_ids=job_ids)
    response.headers["Location"] = f"{OLDER_ROUTES}/batches/{stored.batch_id}"
    return response


@router.get("/batches")
async def list_event_batches(
    request: Request,
    user: Caller,
    status: Statuses = None,
    user_id: str | None = None,
    archived: Archived = "false",
    active: Annotated[bool | None, Query(alias="isActive")] = None,
    limit: Limit = 100,
    skip: Skip = 0,
) -> JSONResponse:
    """Batches, the newest first."""
    among = statuses(status)
    query = BatchQuery(user_id=user_id or None, archived=ARCHIVED[archived], limit=limit)

    def wanted(batch: Batch) -> bool:
        return (among is None or batch.status in among) and active in (None, batch.is_active)

    part = await job_service_of(request).batches_by_offset(skip, query, user=user, wanted=wanted)
    batches = [batch.document() for batch in part.items]
    return _told(_found(part, "batches"), **_extent(part, limit, skip), batches=batches)


@router.get("/batches/{batch_id}")
async def get_event_batch(request: Request, batch_id: str, user: Caller) -> JSONResponse:
    """One batch."""
    batch = await job_service_of(request).batch(batch_id, user=user)
    return _told(f"Batch {batch_id} is {batch.status}", batch=batch.document())


@router.delete("/batches/{batch_id}")
async def delete_event_batch(request: Request, batch_id: str, user: Caller) -> JSONResponse:
    """Delete a batch that has ended, its jobs and their files."""
    job_service = job_service_of(request)
    batch = await job_service.batch(batch_id, user=user)
    await job_service.delete_batch(batch_id, user=user)
    return _told(f"Batch {batch_id} was deleted", batch=batch.document())


@router.post("/batches/{batch_id}/archive")
async def archive_event_batch(request: Request, batch_id: str, user: Caller) -> JSONResponse:
    """Hide a batch and its jobs from lists; nothing is deleted."""
    batch = await job_service_of(request).archive_batch(batch_id, user=user)
    return _told(f"Batch {batch_id} was archived", batch=batch.document())


@router.post("/batches/{batch_id}/toggle-active")
async def toggle_event_batch(
    request: Request, batch_id: str, user: Caller, active: Active = None
) -> JSONResponse:
    """Pause or resume a batch: as the body says, else the other way round than it is now."""
    batch = await job_service_of(request).set_batch_active(batch_id, active, user=user)
    now = "active" if batch.is_active else "paused"
    return _told(f"Batch {batch_id} is {now}", batch=batch.document())


def _told(message: str, status: int = 200, **content: Any) -> JSONResponse:
    return JsonAnswer({"status": "success", **content, "message": message}, status)


def _extent(part: OffsetPage[Any], limit: int, skip: int) -> dict[str, Any]:
    return {
        "total": part.total,
        "total_is_exact": part.is_exact,
        "count": len(part.items),
        "limit": limit,
        "skip": skip,
    }


def _found(part: OffsetPage[Job] | OffsetPage[Batch], what: str) -> str:
    total = f"{part.total}" if part.is_exact else f"more than {part.total}"
    return f"{len(part.items)} of {total} {what}"
