"""Routes for jobs: submit, inspect and control one job or many."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from ..core.errors import InvalidParameters
from ..core.job import LARGE_FIELDS, Delivery, Job, JobWarning, UtcTime, iso, utc_now
from ..jobs import bulk
from ..jobs.bulk import BulkAction
from ..jobs.submission import JobRequest, UtcDatetime
from ..store import JobQuery
from . import models, requests
from .auth import Caller
from .models import DeliveryList, EnqueuedJob, Envelope, JsonObject, ResponseModel
from .openapi import creates, make_router
from .responses import code_of, enqueued, message_of, success

router = make_router("jobs")

#: How long a list searches before it returns what it has found and where to continue.
SEARCH_SECONDS = 0.04
FULL_ID = re.compile(f"(job|batch)-{requests.UUID}")

ENQUEUED = creates(Envelope[EnqueuedJob], "The job is waiting for a worker")


@router.post("/jobs", **ENQUEUED)
async def submit_job(
    request: Request, job: JobRequest, user: Caller, key: requests.IdempotencyKey = None
) -> Response:
    """Submit a job."""
    job_service, submitted = requests.job_service_of(request), requests.with_trace(request, job)
    stored = await job_service.submit(submitted, user=user, key=key)
    return _enqueued(request, stored, job_service.warnings(submitted))


class Changes(BaseModel):
    parameters: dict[str, Any] = Field(
        default={}, description="Overrides for the new run; null removes a parameter"
    )


UNCHANGED = Changes()


@router.post("/jobs/{job_id}/again", **ENQUEUED)
async def rerun_job(
    request: Request,
    job_id: requests.JobId,
    user: Caller,
    changes: Changes = UNCHANGED,
    key: requests.IdempotencyKey = None,
) -> Response:
    """Submit a copy of a job with changed parameters. The copy reuses the uploaded file while it
    exists, and has no webhook."""
    job_service = requests.job_service_of(request)
    copy = await job_service.rerun(job_id, changes.parameters, user=user, key=key)
    sent = JobRequest(job_type=copy.job_type, parameters=changes.parameters)
    return _enqueued(request, copy, job_service.warnings(sent))


def _enqueued(request: Request, job: Job, warnings: Sequence[JobWarning]) -> Response:
    ids = {"job_id": job.job_id, "job_ids": [job.job_id], "batch_id": job.batch_id}
    data = {**ids, "job": job.document()}
    return enqueued(request, f"/api/jobs/{job.job_id}", data, warnings)


class JobPage(ResponseModel):
    jobs: list[models.JobSummary]
    next_cursor: str | None
    searched_to: UtcTime | None


@router.get("/jobs", response_model=Envelope[JobPage])
async def list_jobs(
    request: Request,
    user: Caller,
    status: requests.StatusFilter = None,
    job_type: requests.OptionalText = None,
    batch_id: requests.OptionalText = None,
    user_id: requests.OptionalText = None,
    archived: requests.ArchivedFilter = "false",
    q: Annotated[
        requests.OptionalText, Query(description="Part of an id or name", max_length=200)
    ] = None,
    error_code: requests.OptionalText = None,
    created_after: requests.TimeFilter = None,
    created_before: requests.TimeFilter = None,
    include: requests.IncludeLarge = None,
    limit: requests.Limit = 100,
    cursor: requests.Cursor = None,
) -> Response:
    """List jobs, newest first. A search that takes long returns short pages: `searched_to` is how
    far back this page looked, and `next_cursor` continues from there."""
    included = requests.read_names("include", include, sorted(LARGE_FIELDS))
    query = JobQuery(
        status=requests.read_statuses(status),
        job_type=job_type,
        batch_id=batch_id,
        user_id=user_id,
        archived=requests.ARCHIVED[archived],
        text=q or None,
        error_code=error_code or None,
        created_after=created_after,
        created_before=created_before,
        search_seconds=SEARCH_SECONDS,
        include=included,
        limit=limit,
        cursor=cursor,
    )
    page = await requests.job_service_of(request).jobs(_match_full_id(query), user=user)
    data = {
        "jobs": [job.document(without=LARGE_FIELDS - included) for job in page.items],
        "next_cursor": page.next_cursor,
        "searched_to": iso(page.searched_to) if page.searched_to else None,
    }
    return success(request, "jobs", data)


def _match_full_id(query: JobQuery) -> JobQuery:
    """A search for a full id is a lookup of that job, or of the jobs of that batch."""
    match = FULL_ID.fullmatch(query.text or "")
    field = f"{match[1]}_id" if match else None
    if field is None or getattr(query, field) is not None:
        return query
    return query.model_copy(update={field: query.text, "text": None})


#: Empty means no filter, as in a query string. The length limit makes Pydantic check the text,
#: which refuses lone surrogates.
FilterText = Annotated[str | None, Field(max_length=200)]


class Filter(BaseModel):
    """Filters as in `GET /api/jobs`. Unknown fields are refused: ignoring a misspelt filter would
    select too many jobs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: str | list[str] | None = Field(None, description="One or more, separated by commas")
    job_type: FilterText = None
    batch_id: FilterText = None
    user_id: FilterText = None
    archived: Literal["false", "true", "all"] = "false"
    q: FilterText = None
    error_code: FilterText = None
    created_after: UtcDatetime | None = None
    created_before: UtcDatetime | None = None

    def query(self, cursor: str | None) -> JobQuery:
        given: dict[str, Any] = {name: value or None for name, value in self}
        status = [self.status] if isinstance(self.status, str) else self.status
        given |= {
            "status": requests.read_statuses(status),
            "archived": requests.ARCHIVED[self.archived],
            "text": given.pop("q"),
        }
        return JobQuery(**given, cursor=cursor)


BULK_EXAMPLE: JsonObject = {
    "action": "restart", "filter": {"status": "failed", "job_type": "pdf"}, "dry_run": True,
}  # fmt: skip


class BulkRequest(BaseModel):
    """An action on many jobs: those in `job_ids`, or those that match `filter`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_extra={"examples": [BULK_EXAMPLE]}
    )

    action: BulkAction
    job_ids: list[Annotated[str, Field(max_length=200)]] | None = Field(
        None, max_length=bulk.CHUNK_SIZE
    )
    filter: Filter | None = None
    dry_run: bool = Field(False, description="Only count the jobs the action would affect")
    cursor: str | None = Field(
        None, min_length=1, description="`next_cursor` of the previous response"
    )


class BulkRefusal(ResponseModel):
    job_id: str
    code: str
    message: str


class BulkOutcome(ResponseModel):
    action: BulkAction
    dry_run: bool
    count: int
    refused: int
    refusals: list[BulkRefusal]
    next_cursor: str | None
    as_of: UtcTime


@router.post("/jobs/bulk", response_model=Envelope[BulkOutcome])
async def change_jobs(request: Request, submitted: BulkRequest, user: Caller) -> Response:
    """Cancel, restart, archive or delete many jobs. Each call handles one page; repeat it with
    `next_cursor` until that is null."""
    as_of, job_service, action = utc_now(), requests.job_service_of(request), submitted.action
    if submitted.job_ids is not None and submitted.filter is None:
        if submitted.cursor is not None:
            raise InvalidParameters("cursor: only valid with a filter")
        by_id = bulk.count_by_ids if submitted.dry_run else bulk.apply_to_ids
        outcome = await by_id(job_service, action, submitted.job_ids, user=user)
    elif submitted.filter is not None and submitted.job_ids is None:
        by_filter = bulk.count_matching if submitted.dry_run else bulk.apply_to_matching
        query = submitted.filter.query(submitted.cursor)
        outcome = await by_filter(job_service, action, query, user=user)
    else:
        raise InvalidParameters("job_ids: either job_ids or filter is required, not both")
    data = {
        "action": action,
        "dry_run": submitted.dry_run,
        "count": outcome.count,
        "refused": len(outcome.errors),
        "refusals": [
            {"job_id": job_id, "code": code_of(error), "message": message_of(error)}
            for job_id, error in outcome.errors.items()
        ],
        "next_cursor": outcome.next_cursor,
        "as_of": iso(as_of),
    }
    return success(request, "jobs", data)


JOB: Any = {"response_model": Envelope[models.Job]}


@router.get("/jobs/{job_id}", **JOB)
async def get_job(request: Request, job_id: requests.JobId, user: Caller) -> Response:
    """Return a job with its results and logs."""
    return _job_response(request, await requests.job_service_of(request).job(job_id, user=user))


class DeletedJob(ResponseModel):
    job_id: str
    deleted: Literal[True]


@router.delete("/jobs/{job_id}", response_model=Envelope[DeletedJob])
async def delete_job(request: Request, job_id: requests.JobId, user: Caller) -> Response:
    """Delete a finished job and its files."""
    await requests.job_service_of(request).delete(job_id, user=user)
    return success(request, "jobs", {"job_id": job_id, "deleted": True}, process_id=job_id)


@router.post("/jobs/{job_id}/cancel", **JOB)
async def cancel_job(request: Request, job_id: requests.JobId, user: Caller) -> Response:
    """Cancel a job. A pending job is cancelled immediately, a running one within two seconds."""
    return _job_response(request, await requests.job_service_of(request).cancel(job_id, user=user))


@router.post("/jobs/{job_id}/restart", **JOB)
async def restart_job(request: Request, job_id: requests.JobId, user: Caller) -> Response:
    """Run a finished job again. Clears its results, error and progress."""
    return _job_response(request, await requests.job_service_of(request).restart(job_id, user=user))


@router.post("/jobs/{job_id}/archive", **JOB)
async def archive_job(request: Request, job_id: requests.JobId, user: Caller) -> Response:
    """Hide a job from default listings. Nothing is deleted."""
    return _job_response(request, await requests.job_service_of(request).archive(job_id, user=user))


@router.post("/jobs/{job_id}/unarchive", **JOB)
async def unarchive_job(request: Request, job_id: requests.JobId, user: Caller) -> Response:
    """Show an archived job in listings again."""
    job_service = requests.job_service_of(request)
    return _job_response(request, await job_service.archive(job_id, user=user, archived=False))


def _job_response(request: Request, job: Job) -> Response:
    return success(request, "jobs", job.document(), process_id=job.job_id)


@router.get("/jobs/{job_id}/deliveries", response_model=Envelope[DeliveryList])
async def list_deliveries(request: Request, job_id: requests.JobId, user: Caller) -> Response:
    """List the deliveries of the job's webhook, with every attempt."""
    job = await requests.job_service_of(request).job(job_id, user=user)
    return deliveries_response(request, "jobs", job.deliveries, process_id=job_id)


@router.post("/jobs/{job_id}/deliveries/{n}/replay", response_model=Envelope[Delivery])
async def replay_delivery(
    request: Request, job_id: requests.JobId, n: requests.DeliveryNumber, user: Caller
) -> Response:
    """Send the final event of the job again, with the same `webhook-id`."""
    delivery = await requests.job_service_of(request).replay(job_id, n, user=user)
    return success(request, "jobs", delivery.model_dump(mode="json"), process_id=job_id)


def deliveries_response(
    request: Request, processor: str, deliveries: Iterable[Delivery], *, process_id: str
) -> Response:
    data = {"deliveries": [delivery.model_dump(mode="json") for delivery in deliveries]}
    return success(request, processor, data, process_id=process_id)


class JobTypeLimits(ResponseModel):
    timeout_s: float | None
    max_attempts: int | None


class JobType(ResponseModel):
    job_type: str
    parameters: JsonObject = Field(description="The JSON Schema of the parameters")
    limits: JobTypeLimits


class JobTypeList(ResponseModel):
    job_types: list[JobType]


@router.get("/job-types", response_model=Envelope[JobTypeList])
async def job_types(request: Request, user: Caller) -> Response:
    """List the registered job types with the JSON Schema of their parameters."""
    registry = requests.job_service_of(request).registry
    described: list[dict[str, Any]] = []
    for job_type in sorted(registry.job_types):
        handler = registry[job_type]
        timeout_s = handler.timeout.total_seconds() if handler.timeout else None
        limits = {"timeout_s": timeout_s, "max_attempts": handler.max_attempts}
        model: type[BaseModel] = handler.parameters
        described.append({"job_type": job_type, "parameters": _schema(model), "limits": limits})
    return success(request, "job-types", {"job_types": described})


@cache
def _schema(parameters: type[BaseModel]) -> dict[str, Any]:
    """Cached because Pydantic generates it anew on each call, which is slow."""
    return parameters.model_json_schema()
