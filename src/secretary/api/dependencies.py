"""Parameters and dependencies that routes share."""

from typing import Annotated, Any, Literal, TypeVar

from fastapi import Header, Path, Query, Request
from pydantic import WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from ..core.errors import InvalidParameters
from ..core.http_headers import read_traceparent
from ..core.job import JobStatus
from ..jobs import submission
from ..jobs.service import JobService
from ..jobs.submission import UtcDatetime

#: Fields that lists omit unless `include` asks for them.
LARGE_FIELDS = frozenset({"results", "logs"})
ARCHIVED: dict[str, bool | None] = {"false": False, "true": True, "all": None}

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def _id_of(kind: str) -> Any:
    """Documented, not enforced: an id of another form is a 404, like one that does not exist."""
    return Path(json_schema_extra={"pattern": f"^{kind}-{UUID}$"})


def _comma_separated(*names: str) -> WithJsonSchema:
    one = "|".join(names)
    item = {"type": "string", "pattern": f"^(({one})(,({one}))*)?$"}
    return WithJsonSchema({"type": "array", "items": item})


JobId = Annotated[str, _id_of("job")]
BatchId = Annotated[str, _id_of("batch")]
#: No job has more deliveries than a store can count.
DeliveryNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]

OptionalText = str | SkipJsonSchema[None]
StatusFilter = Annotated[
    list[str] | None,
    _comma_separated(*JobStatus),
    Query(description="One or more states, separated by commas"),
]
IncludeLarge = Annotated[
    list[str] | None,
    _comma_separated(*sorted(LARGE_FIELDS)),
    Query(description="`results`, `logs` or both"),
]
IncludeJobs = Annotated[
    list[str] | None, _comma_separated("jobs"), Query(description="`jobs` adds the jobs")
]
TimeFilter = Annotated[
    UtcDatetime | None,
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}]}),
    Query(description="A time with its UTC offset, or seconds since 1970"),
]
ArchivedFilter = Annotated[
    Literal["false", "true", "all"], Query(description="`true`: only archived ones")
]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[
    OptionalText,
    Query(description="`next_cursor` of the previous page", json_schema_extra={"minLength": 1}),
]
IdempotencyKeyHeader = Annotated[
    OptionalText,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="Retrying with the same key and body returns the first response",
        json_schema_extra={"pattern": r"\S"},
    ),
]


def job_service_of(request: Request) -> JobService:
    job_service: JobService = request.app.state.job_service
    return job_service


def read_statuses(texts: list[str] | None) -> frozenset[JobStatus] | None:
    names = split_commas(texts)
    if unknown := names - set(JobStatus):
        valid = ", ".join(JobStatus)
        raise InvalidParameters(f"status: {', '.join(sorted(unknown))!r} is not one of {valid}")
    return frozenset(JobStatus(name) for name in names) or None


def read_include(texts: list[str] | None, allowed: frozenset[str]) -> frozenset[str]:
    names = split_commas(texts)
    if unknown := names - allowed:
        valid = ", ".join(sorted(allowed))
        raise InvalidParameters(f"include: {', '.join(sorted(unknown))!r} is not one of {valid}")
    return names


def split_commas(texts: list[str] | None) -> frozenset[str]:
    """`?x=a,b&x=c` as {a, b, c}."""
    return frozenset(part for text in texts or () for part in text.split(",") if part)


R = TypeVar("R", bound=submission.Request)


def with_trace(request: Request, submitted: R) -> R:
    """The submission with the trace context of its request, unless it names its own."""
    traceparent: str | None = request.scope["state"].get("traceparent")
    traceparent = traceparent or read_traceparent(request.headers.get("traceparent"))
    if traceparent is None or submitted.traceparent is not None:
        return submitted
    return submitted.model_copy(update={"traceparent": traceparent})
