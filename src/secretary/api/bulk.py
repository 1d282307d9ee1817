"""The route that changes many jobs: named ones, or all that fit a filter."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from ..core.errors import InvalidParameters
from ..core.job import utc_now
from ..jobs import bulk
from ..jobs.bulk import BulkAction
from ..jobs.submission import UtcDatetime
from ..store import JobQuery
from .auth import Caller
from .dependencies import ARCHIVED, job_service_of, statuses
from .envelope import in_utc, success
from .errors import code_of

router = APIRouter(prefix="/api", tags=["jobs"])

#: So many refusals are told one by one.
SHOWN = 10
EXAMPLE: dict[str, Any] = {
    "action": "restart",
    "filter": {"status": "failed", "job_type": "pdf"},
    "dry_run": True,
}

#: With a bound it is looked at closely: half a character is refused.
Id = Annotated[str, Field(max_length=200)]
#: An empty text is no filter, as in the query of a list.
Text = Annotated[str | None, Field(max_length=200)]


class Filter(BaseModel):
    """As in `GET /api/jobs`. A misspelt one is refused: without it too many jobs would fit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: str | list[str] | None = Field(None, description="One or more, also with commas")
    job_type: Text = None
    batch_id: Text = None
    user_id: Text = None
    archived: Literal["false", "true", "all"] = "false"
    q: Text = None
    error_code: Text = None
    created_after: UtcDatetime | None = None
    created_before: UtcDatetime | None = None

    def query(self, cursor: str | None) -> JobQuery:
        return JobQuery(
            status=statuses([self.status] if isinstance(self.status, str) else self.status),
            job_type=self.job_type or None,
            batch_id=self.batch_id or None,
            user_id=self.user_id or None,
            archived=ARCHIVED[self.archived],
            text=self.q or None,
            error_code=self.error_code or None,
            created_after=self.created_after,
            created_before=self.created_before,
            cursor=cursor,
        )


class BulkRequest(BaseModel):
    """What is to be done with which jobs: `job_ids`, or those that fit a `filter`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_extra={"examples": [EXAMPLE]}
    )

    action: BulkAction
    job_ids: list[Id] | None = Field(None, max_length=bulk.CHUNK_SIZE)
    filter: Filter | None = None
    dry_run: bool = Field(False, description="Only tell how many jobs it would concern")
    cursor: str | None = Field(None, min_length=1, description="`next_cursor` of the answer before")


@router.post("/jobs/bulk")
async def change_jobs(request: Request, asked: BulkRequest, user: Caller) -> JSONResponse:
    """Cancel, restart, archive or delete many jobs, part by part: ask again with `next_cursor`."""
    began = utc_now()
    outcome = await _done(request, asked, user)
    told: dict[str, Any] = {
        "action": asked.action.value,
        "dry_run": asked.dry_run,
        "count": outcome.count,
        "refused": len(outcome.errors),
        "refusals": [
            {"job_id": one.job_id, "code": code_of(one.error), "message": str(one.error)}
            for one in outcome.errors[:SHOWN]
        ],
        "next_cursor": outcome.next_cursor,
        "as_of": in_utc(began),
    }
    return success(request, "jobs", told)


async def _done(request: Request, asked: BulkRequest, user: str | None) -> bulk.BulkResult:
    job_service = job_service_of(request)
    if asked.job_ids is not None and asked.filter is None:
        if asked.cursor is not None:
            raise InvalidParameters("cursor: only a filter has one")
        named = bulk.count_by_ids if asked.dry_run else bulk.apply_to_ids
        return await named(job_service, asked.action, asked.job_ids, user=user)
    if asked.filter is None or asked.job_ids is not None:
        raise InvalidParameters("job_ids: either these or a filter is needed")
    fitting = bulk.count_matching if asked.dry_run else bulk.apply_to_matching
    return await fitting(job_service, asked.action, asked.filter.query(asked.cursor), user=user)
