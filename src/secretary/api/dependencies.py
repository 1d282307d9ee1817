"""What routes read from a request alike: whom it asks, which jobs or batches, and how many."""

from typing import Annotated, Literal, TypeVar

from fastapi import Header, Path, Query, Request

from ..core.errors import InvalidParameters
from ..core.http_headers import read_traceparent
from ..core.job import JobStatus
from ..jobs import submission
from ..jobs.service import JobService

#: What a list leaves out unless `include` asks for it.
BIG = frozenset({"results", "logs"})

Statuses = Annotated[list[str] | None, Query(description="One or more, also with commas")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Archived = Annotated[
    Literal["false", "true", "all"], Query(description="`true`: only archived ones")
]
ARCHIVED: dict[str, bool | None] = {"false": False, "true": True, "all": None}
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="Sent again with the same body it gives the first answer, not another job",
    ),
]
#: Of a delivery. No job has more of them than a store can count.
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]


def job_service_of(request: Request) -> JobService:
    job_service: JobService = request.app.state.job_service
    return job_service


def statuses(texts: list[str] | None) -> frozenset[JobStatus] | None:
    names = listed(texts)
    if wrong := names - set(JobStatus):
        known = ", ".join(JobStatus)
        raise InvalidParameters(f"status: {', '.join(sorted(wrong))!r} is none of {known}")
    return frozenset(JobStatus(name) for name in names) or None


def listed(texts: list[str] | None) -> frozenset[str]:
    """`?x=a,b&x=c` as {a, b, c}."""
    return frozenset(part for text in texts or () for part in text.split(",") if part)


R = TypeVar("R", bound=submission.Request)


def traced(request: Request, asked: R) -> R:
    """What is asked for, as a part of the request's trace unless it names another itself."""
    traceparent: str | None = request.scope["state"].get("traceparent")
    traceparent = traceparent or read_traceparent(request.headers.get("traceparent"))
    if traceparent is None or asked.traceparent is not None:
        return asked
    return asked.model_copy(update={"traceparent": traceparent})
