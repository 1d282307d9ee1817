"""Validates requests and turns them into jobs."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from ..core.errors import AccessDenied, AddressRefused, InvalidParameters
from ..core.http_headers import read_traceparent
from ..core.job import (
    DEFAULT_JOB_TYPE,
    EVENT_NAMES,
    MAX_PRIORITY,
    MAX_RETENTION_DAYS,
    OWNER_ONLY,
    AccessControl,
    Batch,
    Job,
    Webhook,
    drop_masked,
    flatten_parameters,
    normalize_parameters,
)
from ..store import CallbackKey
from .handler import Registry

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: A line break in a header would let a client inject further headers.
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

#: Raises AddressRefused for a URL that must not be reached.
UrlCheck = Callable[[str], None]


def accept_any_url(url: str) -> None:
    """For callers that check URLs elsewhere."""


def webhook_problems(webhook: Webhook, check_url: UrlCheck) -> Iterator[tuple[str, str]]:
    """Field and message of whatever would make every delivery fail. Reveals no secret values."""
    try:
        check_url(webhook.url)
    except AddressRefused as error:
        yield "url", error.message
    if unknown := set(webhook.events or ()) - EVENT_NAMES.keys():
        yield "events", f"{', '.join(sorted(unknown))} is none of {', '.join(EVENT_NAMES)}"
    if not all(HEADER_NAME.fullmatch(name) for name in webhook.headers):
        yield "headers", "A header name contains characters that are not allowed"
    if any(CONTROL.search(value) for value in webhook.headers.values()):
        yield "headers", "A header may not contain line breaks or other control characters"
    if CONTROL.search(webhook.token or ""):
        yield "token", "A token may not contain line breaks or other control characters"


R = TypeVar("R", bound=BaseModel)

MAX_BATCH_JOBS = 10_000
#: Close to MongoDB's limit of 100 levels.
MAX_DEPTH = 80
INT_64 = 2**63


def _otherwise(default: Any) -> BeforeValidator:
    """Clients send null or an empty text for fields they leave open."""
    return BeforeValidator(lambda value: default if value is None or value == "" else value)


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("it is out of range") from None


#: Clients send times with any offset and receive them in UTC.
UtcDatetime = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class Request(BaseModel):
    """Base of the requests. Unknown keys are kept and end up under `parameters.extra`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    user_id: Annotated[str | None, Field(max_length=200), _otherwise(None)] = None
    access_control: Annotated[AccessControl, _otherwise(OWNER_ONLY)] = OWNER_ONLY
    webhook: Webhook | None = None
    #: Days until the finished job is deleted; 0 keeps it forever, null as long as the settings say.
    retention_days: Annotated[
        float | None,
        Field(
            ge=0,
            le=MAX_RETENTION_DAYS,
            allow_inf_nan=False,
            description="Days until a finished job is deleted; 0 keeps it forever."
            " By default the settings decide.",
        ),
        _otherwise(None),
    ] = None
    #: A malformed one is ignored, as the W3C standard requires.
    traceparent: Annotated[
        str | None,
        BeforeValidator(lambda value: read_traceparent(value) if isinstance(value, str) else None),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _require_plain(cls, document: Any) -> Any:
        require_plain_json(document)
        return document


PDF_EXAMPLE: dict[str, Any] = {
    "job_type": "pdf",
    "parameters": {
        "url": "https://example.com/document.pdf",
        "extraction_method": "native",
        "use_cache": True,
        "extra": {"include_images": True},
    },
}
SESSION_EXAMPLE: dict[str, Any] = {
    "job_type": "session",
    "parameters": {
        "event": "FOSDEM 2025",
        "session": "Forked Communities: Project Re-licensing and Community Impact",
        "url": "https://fosdem.org/2025/schedule/event/...",
        "filename": "Forked-Communities-Project-Relicensing-and-Community-Impact.md",
        "track": "Main-Track-Janson-7",
        "source_language": "en",
        "target_language": "de",
    },
}
BATCH_EXAMPLE: dict[str, Any] = {
    "batch_name": "import_batch",
    "jobs": [PDF_EXAMPLE, SESSION_EXAMPLE],
}


class JobRequest(Request):
    """A job to be added."""

    model_config = ConfigDict(json_schema_extra={"examples": [PDF_EXAMPLE, SESSION_EXAMPLE]})

    job_type: Annotated[str, Field(max_length=100), _otherwise(DEFAULT_JOB_TYPE)] = DEFAULT_JOB_TYPE
    parameters: Annotated[dict[str, Any], _otherwise({})] = {}
    job_name: str | None = Field(default=None, max_length=500)
    priority: Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY), _otherwise(0)] = 0
    run_at: UtcDatetime | None = None
    max_attempts: int | None = Field(default=None, ge=1, le=100)
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)


#: Fields that the job has from its request as they are.
COPIED_FIELDS = frozenset(JobRequest.model_fields) - {"parameters", "webhook", "user_id"}


class BatchRequest(Request):
    """Several jobs that belong together; also accepted inside `{"batch": {…}}`."""

    model_config = ConfigDict(json_schema_extra={"examples": [BATCH_EXAMPLE]})

    batch_name: Annotated[str | None, Field(max_length=500), _otherwise(None)] = None
    jobs: list[JobRequest] = Field(min_length=1, max_length=MAX_BATCH_JOBS)
    is_active: bool = Field(default=True, alias="isActive")

    @model_validator(mode="before")
    @classmethod
    def _unwrap(cls, document: Any) -> Any:
        if isinstance(document, dict) and isinstance(document.get("batch"), dict):
            outer = {key: value for key, value in document.items() if key != "batch"}
            return {**outer, **document["batch"]}
        return document


def parse_request(kind: type[R], document: Any) -> R:
    """Validate a client's document; the error has one problem per invalid field."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise invalid_request(error.errors(include_url=False, include_input=False)) from None


def invalid_request(problems: Iterable[Mapping[str, Any]]) -> InvalidParameters:
    fields = [
        {
            "field": ".".join(str(part) for part in problem["loc"]),
            "problem": problem["msg"].removeprefix("Value error, "),
        }
        for problem in problems
    ]
    text = "; ".join(": ".join(filter(None, field.values())) for field in fields)
    return InvalidParameters(f"Invalid request: {text}", problems=fields)


def fingerprint(request: Request) -> str:
    """Equal for two requests with the same content, whatever their trace context."""
    traces: Any = {"traceparent": True, "jobs": {"__all__": {"traceparent"}}}
    document = request.model_dump(mode="json", by_alias=True, exclude=traces)
    for one in (document, *document.get("jobs", ())):
        if one["retention_days"] is None:  # keys of versions without it stay valid
            del one["retention_days"]
    text = json.dumps([type(request).__name__, document], sort_keys=True)
    return sha256(text.encode()).hexdigest()


def callback_key(request: JobRequest, owner: str | None) -> CallbackKey | None:
    """Identifies the client's job that a request belongs to, whatever its token. None without a
    token: then requests with the same callback URL may be about different jobs."""
    webhook = request.webhook
    if webhook is None or not webhook.token:
        return None
    parameters = flatten_parameters(request.parameters)
    source = {name: parameters.get(name) for name in (*sorted(SOURCE_PARAMETERS), "text")}
    text = json.dumps([owner, webhook.url, source], sort_keys=True)
    without_token = webhook.model_copy(update={"token": None})
    return CallbackKey(
        key=sha256(text.encode()).hexdigest(),
        fingerprint=fingerprint(request.model_copy(update={"webhook": without_token})),
    )


def make_job(
    request: JobRequest,
    registry: Registry,
    *,
    user: str | None,
    check_url: UrlCheck = accept_any_url,
    at: tuple[str | int, ...] = (),
    default_webhook: Webhook | None = None,
) -> Job:
    """The job of a request. An unknown job type is accepted: the job fails when it runs."""
    request = resolve_alias(request, registry)
    parameters, webhook = _parameters(request, at, check_url)
    if request.job_type in registry:
        handler = registry[request.job_type]
        try:
            handler.parse(parameters)
        except InvalidParameters as error:
            raise _within((*at, "parameters"), error.details["problems"]) from None
        parameters = handler.normalize(parameters)
    else:
        parameters = normalize_parameters(parameters, None)
    unchanged: dict[str, Any] = {name: getattr(request, name) for name in COPIED_FIELDS}
    return Job(
        **unchanged,
        parameters=parameters,
        webhook=webhook or default_webhook,
        user_id=_owner(request, user),
    )


#: The parameters that name the source of a job. Naming one of them replaces the others.
SOURCE_PARAMETERS = frozenset({"url", "file_path", "file_source", "file_sources"})


def rerun_request(job: Job, changes: Mapping[str, Any], *, user: str | None) -> JobRequest:
    """The request that runs a job again for this user with changed parameters; null removes one.
    Without its webhook: no receiver expects events of the new job."""
    changes = drop_masked(changes)
    removed = {name for name, value in changes.items() if value is None}
    if SOURCE_PARAMETERS & (changes.keys() - removed):
        removed |= SOURCE_PARAMETERS - changes.keys()
    parameters = {name: value for name, value in job.parameters.items() if name not in removed}
    extra = parameters.get("extra")
    if isinstance(extra, dict):
        parameters["extra"] = {k: v for k, v in extra.items() if k not in changes}
    parameters |= {name: value for name, value in changes.items() if value is not None}
    unchanged = {name: getattr(job, name) for name in COPIED_FIELDS - {"run_at", "traceparent"}}
    request = unchanged | {"parameters": parameters, "user_id": user or job.user_id}
    return parse_request(JobRequest, request)


def uploaded_sources(job: Job) -> list[dict[str, Any]]:
    """The `file_source` or `file_sources` of a job that came with uploads."""
    parameters = flatten_parameters(job.parameters)
    several = parameters.get("file_sources")
    sources = several if isinstance(several, list) else [parameters.get("file_source")]
    return [
        source
        for source in sources
        if isinstance(source, dict) and source.get("type") == "upload" and source.get("name")
    ]


#: Names under which job types of earlier versions are known to clients, with the job type of
#: today and the parameters that make it do the same.
JOB_TYPE_ALIASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "transformer_template": ("transformer", {}),
    "youtube": ("video", {}),
    "office_via_pdf": ("office", {"via_pdf": True}),
}


def resolved_job_type(name: str) -> str:
    """The job type of today, for an earlier name."""
    return JOB_TYPE_ALIASES[name][0] if name in JOB_TYPE_ALIASES else name


def resolve_alias(request: JobRequest, registry: Registry) -> JobRequest:
    """The request with the job type of today. A handler that is registered for the earlier name
    takes precedence."""
    if request.job_type in registry or request.job_type not in JOB_TYPE_ALIASES:
        return request
    job_type, preset = JOB_TYPE_ALIASES[request.job_type]
    parameters = {**request.parameters, **preset}
    return request.model_copy(update={"job_type": job_type, "parameters": parameters})


def make_batch(
    request: BatchRequest,
    registry: Registry,
    *,
    user: str | None,
    check_url: UrlCheck = accept_any_url,
) -> tuple[Batch, list[Job]]:
    """The batch and its jobs, which inherit what they do not set themselves."""
    if request.webhook is not None:
        _check_webhook(request.webhook, ("webhook",), check_url)
    batch = Batch(
        batch_name=request.batch_name,
        user_id=_owner(request, user),
        access_control=request.access_control,
        webhook=request.webhook,
        is_active=request.is_active,
        retention_days=request.retention_days,
    )
    jobs: list[Job] = []
    for number, job_request in enumerate(request.jobs):
        has_access_control = "access_control" in job_request.model_fields_set
        inherited = {
            **(request.model_extra or {}),
            **(job_request.model_extra or {}),
            "user_id": job_request.user_id or request.user_id,
            "traceparent": job_request.traceparent or request.traceparent,
            "access_control": (job_request if has_access_control else request).access_control,
            "retention_days": request.retention_days
            if job_request.retention_days is None
            else job_request.retention_days,
        }
        job = make_job(
            job_request.model_copy(update=inherited),
            registry,
            user=user,
            check_url=check_url,
            at=("jobs", number),
            default_webhook=batch.webhook,
        )
        jobs.append(job.model_copy(update={"batch_id": batch.batch_id}))
    return batch, jobs


def check_retention(request: JobRequest | BatchRequest, max_days: float) -> None:
    """Refuse a retention that exceeds the limit; 0 means that there is none."""
    if not max_days:
        return
    text = f"at most {max_days:g} days are allowed (retention.max_days), and 0 means forever"
    requests: list[tuple[tuple[str | int, ...], Request]] = [((), request)]
    if isinstance(request, BatchRequest):
        requests += [(("jobs", number), job) for number, job in enumerate(request.jobs)]
    problems = [
        {"loc": (*at, "retention_days"), "msg": text}
        for at, one in requests
        if one.retention_days is not None and not 0 < one.retention_days <= max_days
    ]
    if problems:
        raise invalid_request(problems)


def _owner(request: Request, user: str | None) -> str | None:
    if user is not None and request.user_id not in (None, user):
        raise AccessDenied(f"{user!r} cannot submit for another user")
    return user or request.user_id


def _parameters(
    request: JobRequest, at: tuple[str | int, ...], check_url: UrlCheck
) -> tuple[dict[str, Any], Webhook | None]:
    """The parameters, and the webhook that some clients put among them: it may contain a token,
    which readers of the job must not see."""
    parameters, webhook = dict(request.parameters), request.webhook
    if webhook is not None:
        _check_webhook(webhook, (*at, "webhook"), check_url)
    extra = parameters.get("extra")
    if isinstance(extra, dict):
        extra = parameters["extra"] = {**(request.model_extra or {}), **extra}
    elif request.model_extra and extra is None:
        extra = parameters["extra"] = dict(request.model_extra)
    elif request.model_extra:
        parameters = {**request.model_extra, **parameters}
    for container in (parameters, extra):
        if isinstance(container, dict) and container.get("webhook") is not None:
            inner = container.pop("webhook")
            try:
                webhook = webhook or Webhook.model_validate(inner)
            except ValidationError as error:
                raise _within((*at, "parameters", "webhook"), error.errors()) from None
            _check_webhook(webhook, (*at, "parameters", "webhook"), check_url)
    return parameters, webhook


def _check_webhook(webhook: Webhook, path: tuple[str | int, ...], check_url: UrlCheck) -> None:
    if problems := list(webhook_problems(webhook, check_url)):
        raise _within(path, ({"loc": (field,), "msg": text} for field, text in problems))


def _within(
    path: tuple[str | int, ...], problems: Iterable[Mapping[str, Any]]
) -> InvalidParameters:
    return invalid_request({**problem, "loc": (*path, *problem["loc"])} for problem in problems)


def require_plain_json(value: Any, depth: int = 0) -> None:
    """Reject what no store and no response can represent."""
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    match value:
        case str():
            if not value.isascii():
                value.encode()  # a lone surrogate is a ValueError
        case float() if not math.isfinite(value):
            raise ValueError("NaN and Infinity are not JSON")
        case int() if not -INT_64 <= value < INT_64:
            raise ValueError("an integer exceeds 64 bits")
        case dict():
            for key, item in value.items():
                require_plain_json(key, depth + 1)
                require_plain_json(item, depth + 1)
        case list():
            for item in value:
                require_plain_json(item, depth + 1)
