"""The routes for jobs."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from ..core.errors import InvalidParameters
from ..core.job import Delivery, Job
from ..jobs.handler import Handler
from ..jobs.submission import JobRequest, UtcDatetime
from ..store import JobQuery
from .auth import Caller
from .dependencies import (
    ARCHIVED,
    BIG,
    Archived,
    Key,
    Limit,
    Number,
    Statuses,
    job_service_of,
    listed,
    statuses,
    traced,
)
from .envelope import enqueued, in_utc, success

router = APIRouter(prefix="/api", tags=["jobs"])

#: A list looks for jobs for so long. Then it gives what it has found, and where to go on.
SEARCH_SECONDS = 0.04
WHOLE_ID = re.compile(r"(job|batch)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@router.post("/jobs", status_code=202)
async def submit_job(
    request: Request, job: JobRequest, user: Caller, key: Key = None
) -> JSONResponse:
    """Hand in a job."""
    return _enqueued(
        request, await job_service_of(request).submit(traced(request, job), user=user, key=key)
    )


def _enqueued(request: Request, stored: Job) -> JSONResponse:
    data = {
        "job_id": stored.job_id,
        "job_ids": [stored.job_id],
        "batch_id": stored.batch_id,
        "job": stored.document(),
    }
    response = enqueued(request, stored.job_id, data)
    response.headers["Location"] = f"/api/jobs/{stored.job_id}"
    return response


@router.get("/jobs")
async def list_jobs(
    request: Request,
    user: Caller,
    status: Statuses = None,
    job_type: str | None = None,
    batch_id: str | None = None,
    user_id: str | None = None,
    archived: Archived = "false",
    q: Annotated[str | None, Query(description="Found in ids and names", max_length=200)] = None,
    error_code: str | None = None,
    created_after: UtcDatetime | None = None,
    created_before: UtcDatetime | None = None,
    include: Annotated[list[str] | None, Query(description="`results`, `logs`")] = None,
    limit: Limit = 100,
    cursor: str | None = None,
) -> JSONResponse:
    """Jobs, the newest first. What takes long to find comes in short pages: `searched_to` says how
    far back this one looked, and `next_cursor` goes on from there."""
    included = _included(include)
    query = JobQuery(
        status=statuses(status),
        job_type=job_type,
        batch_id=batch_id,
        user_id=user_id,
        archived=ARCHIVED[archived],
        text=q or None,
        error_code=error_code or None,
        created_after=created_after,
        created_before=created_before,
        search_seconds=SEARCH_SECONDS,
        include=included,
        limit=limit,
        cursor=cursor,
    )
    page = await job_service_of(request).jobs(by_whole_id(query), user=user)
    jobs = [job.document(without=BIG - included) for job in page.items]
    searched_to = in_utc(page.searched_to) if page.searched_to else None
    data = {"jobs": jobs, "next_cursor": page.next_cursor, "searched_to": searched_to}
    return success(request, "jobs", data)


def by_whole_id(query: JobQuery) -> JobQuery:
    """Who looks for a whole id wants that job, or the jobs of that batch, wherever they are."""
    if query.text is None or not WHOLE_ID.fullmatch(query.text):
        return query
    term = "job_id" if query.text.startswith("job-") else "batch_id"
    if getattr(query, term) is not None:
        return query
    return query.model_copy(update={term: query.text, "text": None})


@router.get("/jobs/{job_id}")
async def get_job(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """One job with its results and logs."""
    return _told(request, await job_service_of(request).job(job_id, user=user))


@router.delete("/jobs/{job_id}")
async def delete_job(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """Delete an ended job and its files."""
    await job_service_of(request).delete(job_id, user=user)
    return success(request, "jobs", {"job_id": job_id, "deleted": True}, process_id=job_id)


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """Cancel a job: a waiting one at once, a running one within two seconds."""
    return _told(request, await job_service_of(request).cancel(job_id, user=user))


@router.post("/jobs/{job_id}/restart")
async def restart_job(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """Run an ended job again; its results, error and progress are cleared."""
    return _told(request, await job_service_of(request).restart(job_id, user=user))


class Changes(BaseModel):
    """What is to be otherwise this time; null takes a parameter back."""

    parameters: dict[str, Any] = {}


UNCHANGED = Changes()


@router.post("/jobs/{job_id}/again", status_code=202)
async def do_again(
    request: Request, job_id: str, user: Caller, changes: Changes = UNCHANGED, key: Key = None
) -> JSONResponse:
    """Hand in another job like this one, with changed parameters. It has the file that came with
    this one as long as that is kept, and no webhook."""
    job_service = job_service_of(request)
    return _enqueued(
        request, await job_service.rerun(job_id, changes.parameters, user=user, key=key)
    )


@router.post("/jobs/{job_id}/archive")
async def archive_job(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """Hide a job from lists; nothing is deleted."""
    return _told(request, await job_service_of(request).archive(job_id, user=user))


@router.post("/jobs/{job_id}/unarchive")
async def unarchive_job(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """Show a job in lists again."""
    return _told(request, await job_service_of(request).archive(job_id, user=user, archived=False))


@router.get("/jobs/{job_id}/deliveries")
async def list_deliveries(request: Request, job_id: str, user: Caller) -> JSONResponse:
    """What the job's webhook was told, or could not be told."""
    job = await job_service_of(request).job(job_id, user=user)
    return success(request, "jobs", {"deliveries": shown(job.deliveries)}, process_id=job_id)


@router.post("/jobs/{job_id}/deliveries/{n}/replay")
async def replay_delivery(request: Request, job_id: str, n: Number, user: Caller) -> JSONResponse:
    """Tell the webhook once more how the job ended, with the same `webhook-id`."""
    delivery = await job_service_of(request).replay(job_id, n, user=user)
    return success(request, "jobs", shown([delivery])[0], process_id=job_id)


@router.get("/job-types")
async def job_types(request: Request, user: Caller) -> JSONResponse:
    """The job types there are handlers for, with the JSON Schema of their parameters."""
    registry = job_service_of(request).registry
    described = [_described(registry[name]) for name in sorted(registry.job_types)]
    return success(request, "job-types", {"job_types": described})


def _told(request: Request, job: Job) -> JSONResponse:
    return success(request, "jobs", job.document(), process_id=job.job_id)


def shown(deliveries: Iterable[Delivery]) -> list[dict[str, Any]]:
    return [delivery.model_dump(mode="json") for delivery in deliveries]


def _included(texts: list[str] | None) -> frozenset[str]:
    names = listed(texts)
    if wrong := names - BIG:
        raise InvalidParameters(f"include: {', '.join(sorted(wrong))!r} is none of results, logs")
    return names


def _described(handler: Handler[Any]) -> dict[str, Any]:
    limits = {
        "timeout_s": handler.timeout.total_seconds() if handler.timeout else None,
        "max_attempts": handler.max_attempts,
    }
    parameters: Any = handler.parameters
    return {
        "job_type": handler.job_type,
        "parameters": _schema(parameters),
        "limits": limits,
    }


@cache
def _schema(parameters: type[BaseModel]) -> dict[str, Any]:
    """Pydantic makes it anew each time, and that takes longer than all the rest."""
    return parameters.model_json_schema()
