"""The routes for batches."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import JSONResponse

from ..core.errors import InvalidParameters
from ..core.job import Batch
from ..jobs.submission import BatchRequest
from ..store import BatchQuery
from .auth import Caller
from .dependencies import (
    ARCHIVED,
    BIG,
    Archived,
    Key,
    Limit,
    Number,
    job_service_of,
    listed,
    traced,
)
from .envelope import enqueued, success
from .jobs import shown

router = APIRouter(prefix="/api", tags=["batches"])

Active = Annotated[bool | None, Body(alias="isActive", embed=True)]


@router.post("/jobs/batch", status_code=202, name="submit_batch_of_jobs")
@router.post("/batches", status_code=202)
async def submit_batch(
    request: Request, batch: BatchRequest, user: Caller, key: Key = None
) -> JSONResponse:
    """Hand in several jobs, all or none."""
    asked = traced(request, batch)
    return answered(request, *await job_service_of(request).submit_batch(asked, user=user, key=key))


def answered(request: Request, stored: Batch, job_ids: list[str]) -> JSONResponse:
    """Where a new batch is, and its jobs."""
    data = {"batch_id": stored.batch_id, "job_ids": job_ids, "batch": stored.document()}
    response = enqueued(request, stored.batch_id, data)
    response.headers["Location"] = f"/api/batches/{stored.batch_id}"
    return response


@router.get("/batches")
async def list_batches(
    request: Request,
    user: Caller,
    user_id: str | None = None,
    archived: Archived = "false",
    limit: Limit = 100,
    cursor: str | None = None,
) -> JSONResponse:
    """Batches, the newest first."""
    query = BatchQuery(user_id=user_id, archived=ARCHIVED[archived], limit=limit, cursor=cursor)
    page = await job_service_of(request).batches(query, user=user)
    batches = [batch.document() for batch in page.items]
    return success(request, "batches", {"batches": batches, "next_cursor": page.next_cursor})


@router.get("/batch/{batch_id}", name="get_batch_by_old_path")
@router.get("/jobs/batch/{batch_id}", name="get_batch_of_jobs")
@router.get("/batches/{batch_id}")
async def get_batch(
    request: Request,
    batch_id: str,
    user: Caller,
    include: Annotated[list[str] | None, Query(description="`jobs`")] = None,
) -> JSONResponse:
    """One batch, with `include=jobs` its jobs too."""
    names = listed(include)
    if names - {"jobs"}:
        raise InvalidParameters("include: a batch has nothing more than jobs")
    batch = await job_service_of(request).batch(batch_id, user=user)
    document = batch.document()
    if "jobs" in names:
        jobs = await job_service_of(request).jobs_of_batch(batch_id, user=user)
        document["jobs"] = [job.document(without=BIG) for job in jobs]
    return success(request, "batches", document, process_id=batch_id)


@router.delete("/batches/{batch_id}")
async def delete_batch(request: Request, batch_id: str, user: Caller) -> JSONResponse:
    """Delete a batch that has ended, its jobs and their files."""
    await job_service_of(request).delete_batch(batch_id, user=user)
    data = {"batch_id": batch_id, "deleted": True}
    return success(request, "batches", data, process_id=batch_id)


@router.post("/batches/{batch_id}/archive")
async def archive_batch(request: Request, batch_id: str, user: Caller) -> JSONResponse:
    """Hide a batch and its jobs from lists; nothing is deleted."""
    return _told(request, await job_service_of(request).archive_batch(batch_id, user=user))


@router.post("/batches/{batch_id}/unarchive")
async def unarchive_batch(request: Request, batch_id: str, user: Caller) -> JSONResponse:
    """Show a batch and its jobs in lists again."""
    job_service = job_service_of(request)
    return _told(request, await job_service.archive_batch(batch_id, user=user, archived=False))


@router.post("/batches/{batch_id}/toggle-active")
async def toggle_active(
    request: Request, batch_id: str, user: Caller, active: Active = None
) -> JSONResponse:
    """Pause or resume a batch: as the body says, else the other way round than it is now."""
    job_service = job_service_of(request)
    return _told(request, await job_service.set_batch_active(batch_id, active, user=user))


@router.post("/batches/{batch_id}/cancel")
async def cancel_batch(request: Request, batch_id: str, user: Caller) -> JSONResponse:
    """Cancel all jobs of a batch that have not ended."""
    job_service = job_service_of(request)
    job_ids = await job_service.cancel_batch(batch_id, user=user)
    return _told(request, await job_service.batch(batch_id, user=user), job_ids)


@router.post("/batches/{batch_id}/restart-failed")
async def restart_failed(request: Request, batch_id: str, user: Caller) -> JSONResponse:
    """Run the failed jobs of a batch again."""
    job_service = job_service_of(request)
    job_ids = await job_service.restart_failed(batch_id, user=user)
    return _told(request, await job_service.batch(batch_id, user=user), job_ids)


@router.get("/batches/{batch_id}/deliveries")
async def list_deliveries_of_batch(request: Request, batch_id: str, user: Caller) -> JSONResponse:
    """What the batch's webhook was told, or could not be told."""
    batch = await job_service_of(request).batch(batch_id, user=user)
    data = {"deliveries": shown(batch.deliveries)}
    return success(request, "batches", data, process_id=batch_id)


@router.post("/batches/{batch_id}/deliveries/{n}/replay")
async def replay_delivery_of_batch(
    request: Request, batch_id: str, n: Number, user: Caller
) -> JSONResponse:
    """Tell the webhook once more how the batch ended."""
    delivery = await job_service_of(request).replay_batch(batch_id, n, user=user)
    return success(request, "batches", shown([delivery])[0], process_id=batch_id)


def _told(request: Request, batch: Batch, changed: list[str] | None = None) -> JSONResponse:
    """The batch, and which of its jobs were changed."""
    document: dict[str, Any] = batch.document()
    if changed is not None:
        document["job_ids"] = changed
    return success(request, "batches", document, process_id=batch.batch_id)
