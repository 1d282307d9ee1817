"""Jobs, batches and outcomes: the data that every other module passes around, without I/O."""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    computed_field,
)

from .json_codec import is_valid_unicode

#: A time that documents show in UTC, with `Z`.
_UTC_SCHEMA = {"type": "string", "format": "date-time", "pattern": "Z$"}
UtcTime = Annotated[AwareDatetime, WithJsonSchema(_UTC_SCHEMA, mode="serialization")]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]

DEFAULT_JOB_TYPE = "session"
MAX_PRIORITY = 100
MAX_RETENTION_DAYS = 36_500

#: A job keeps this many log entries; older ones are dropped, with a note in their place.
MAX_LOG_ENTRIES = 1000
MAX_LOG_MESSAGE = 4000

#: A job keeps this many of its last finished attempts.
MAX_ATTEMPTS_KEPT = 10

#: A delivery keeps this many of its last attempts; a day of retries has nine.
MAX_DELIVERY_ATTEMPTS_KEPT = 10

#: Phases of webhook events of an unfinished job; a finished one is `completed` or `error`.
PROGRESS_PHASES = ("queued", "running", "postprocessing")
#: Names allowed in `webhook.events`, and the phases they stand for.
EVENT_NAMES: Mapping[str, frozenset[str]] = {
    **{phase: frozenset({phase}) for phase in (*PROGRESS_PHASES, "completed", "error")},
    "progress": frozenset(PROGRESS_PHASES),
    "failed": frozenset({"error"}),
    "cancelled": frozenset({"error"}),
}


def utc_now() -> datetime:
    return datetime.now(UTC)


def iso(at: datetime) -> str:
    """A time as clients receive it."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def new_id(kind: Literal["job", "batch"]) -> str:
    """`<kind>-<UUIDv7>`: ids sort by creation time, which keeps indexes dense."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | int.from_bytes(os.urandom(10))
    value = (value & ~(0xF << 76)) | (7 << 76)
    value = (value & ~(0b11 << 62)) | (0b10 << 62)
    return f"{kind}-{UUID(int=value)}"


def new_delivery_id() -> str:
    return f"msg_{uuid4().hex}"


class JobStatus(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL_STATUSES = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})


class StoredModel(BaseModel):
    """Base of the stored models. They are immutable snapshots."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        json_schema_serialization_defaults_required=True,
    )

    @classmethod
    def from_stored(cls, value: Any) -> Self:
        """Read a stored value, ignoring fields that a newer version may have written."""
        return cls.model_validate(value, extra=cls._unknown_fields())

    @classmethod
    def from_stored_json(cls, text: str) -> Self:
        return cls.model_validate_json(text, extra=cls._unknown_fields())

    @classmethod
    def _unknown_fields(cls) -> Literal["ignore"] | None:
        return "ignore" if cls.model_config.get("extra") == "forbid" else None


def _replace_in_text(text: str) -> str:
    """Lone surrogates, which file names and model output may contain, cannot be stored: they must
    not keep a job from finishing."""
    if is_valid_unicode(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def replace_lone_surrogates(value: Any) -> Any:
    match value:
        case str():
            return _replace_in_text(value)
        case dict():
            replace = replace_lone_surrogates
            return {replace(key): replace(item) for key, item in value.items()}
        case list() | tuple():
            return [replace_lone_surrogates(item) for item in value]
        case _:
            return value


#: Text from any source that can always be stored.
SafeText = Annotated[str, AfterValidator(_replace_in_text)]


class Progress(StoredModel):
    step: SafeText = "queued"
    percent: int = Field(default=0, ge=0, le=100)
    message: SafeText = ""


QUEUED = Progress()


class JobError(StoredModel):
    code: SafeText
    message: SafeText
    details: Annotated[dict[str, Any] | None, AfterValidator(replace_lone_surrogates)] = None


class LogEntry(StoredModel):
    timestamp: UtcTime = Field(default_factory=utc_now)
    level: LogLevel = "info"
    message: SafeText


class AccessControl(StoredModel):
    visibility: Literal["private", "public"] = "private"
    read_access: tuple[str, ...] = ()
    write_access: tuple[str, ...] = ()
    admin_access: tuple[str, ...] = ()


OWNER_ONLY = AccessControl()


class JobWarning(StoredModel):
    """Something that was not done, or not done well, in a job that was accepted or completed."""

    code: str
    message: str
    #: Where it happened, if it was on one page or at one time (in seconds).
    page: int | None = Field(default=None, exclude_if=lambda page: page is None)
    time: float | None = Field(default=None, exclude_if=lambda time: time is None)


#: Dropped from endpoints, so that a host has one name.
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Webhook(StoredModel):
    """Where the events of a job are delivered. Unknown keys are kept."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    url: str = Field(
        description="`{jobId}` in it is replaced",
        json_schema_extra={"format": "uri", "pattern": "^https?://"},
    )
    token: str | None = None
    job_id: Annotated[str | None, Field(alias="jobId")] = None
    headers: dict[str, str] = Field(
        default={},
        json_schema_extra={
            "propertyNames": {"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"},
            "additionalProperties": {"type": "string", "pattern": r"^[^\x00-\x08\x0a-\x1f\x7f]*$"},
        },
    )
    secret: str | None = None
    include_markdown: bool = True
    include_metadata: bool = True
    include_archive: bool = False
    token_in_body: bool = False
    events: Annotated[
        tuple[str, ...] | None,
        WithJsonSchema({"type": ["array", "null"], "items": {"enum": list(EVENT_NAMES)}}),
    ] = Field(default=None, description="Events to deliver; all if omitted")

    def public(self) -> dict[str, Any]:
        """As clients may read it: without token, secret, header values, and secrets in the URL."""
        document = self.model_dump(mode="json", by_alias=True, include=set(Webhook.model_fields))
        return document | {
            "url": mask_url(self.url),
            "token": None,
            "secret": None,
            "headers": dict.fromkeys(self.headers),
        }

    def wants(self, phase: str) -> bool:
        if self.events is None:
            return True
        return any(phase in EVENT_NAMES.get(name, ()) for name in self.events)

    def silenced(self) -> "Webhook":
        """The webhook of a job that another one has replaced."""
        return self.model_copy(update={"events": ()})

    @property
    def wants_progress(self) -> bool:
        return any(self.wants(phase) for phase in PROGRESS_PHASES)

    @property
    def endpoint(self) -> str:
        """The URL without credentials and query: what shares a circuit breaker. A query often has
        the id or token of a single job; so may the path, as `{jobId}`, which is not replaced."""
        try:
            parts = urlsplit(self.url)
        except ValueError:  # the request will be refused
            return "unknown"
        host = parts.netloc.rpartition("@")[2].lower()
        host = host.removesuffix(DEFAULT_PORTS.get(parts.scheme, " "))
        return f"{parts.scheme}://{host}{parts.path or '/'}"


class Attempt(StoredModel):
    """One run of a job by a worker, from claim to outcome."""

    attempt: int
    worker_id: str | None
    started_at: UtcTime
    ended_at: UtcTime | None = None
    error: JobError | None = None


class DeliveryAttempt(StoredModel):
    """One request to a webhook: its response status, or why there was no response."""

    at: UtcTime
    status: int | None = None
    error: str | None = None
    duration_ms: int


class Delivery(StoredModel):
    """The delivery of a final event of a job or batch, or, as `progress`, of all progress events
    of one run."""

    n: int
    delivery_id: str
    event: Literal["progress", "completed", "error"]
    created_at: UtcTime
    replayed_at: UtcTime | None = None
    delivered_at: UtcTime | None = None
    next_try_at: UtcTime | None = None
    #: Number of attempts since it was created or replayed; the last ones are in `tries`.
    tried: int = 0
    tries: tuple[DeliveryAttempt, ...] = ()

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def gave_up(self) -> bool:
        settled = self.delivered_at is not None or self.next_try_at is not None
        return self.event != "progress" and not settled


class OwnedResource(StoredModel):
    """What jobs and batches have in common: an owner and access rights."""

    user_id: str | None = None
    access_control: AccessControl = OWNER_ONLY
    #: Days after which a finished job is deleted; 0 keeps it forever, None as long as the settings
    #: say. A batch passes it on to its jobs.
    retention_days: float | None = Field(default=None, ge=0, le=MAX_RETENTION_DAYS)

    def readers(self) -> frozenset[str] | None:
        """The users who may read this; None for everyone."""
        access = self.access_control
        if self.user_id is None or access.visibility == "public":
            return None
        listed = (*access.read_access, *access.write_access, *access.admin_access)
        return frozenset({self.user_id, *listed})

    def may_read(self, user: str | None) -> bool:
        readers = self.readers()
        return user is None or readers is None or user in readers

    def may_write(self, user: str | None) -> bool:
        access = self.access_control
        writers = {self.user_id, *access.write_access, *access.admin_access}
        return user is None or self.user_id is None or user in writers


#: Present in the results of all job types, so that clients can rely on them.
EMPTY_RESULTS: Mapping[str, Any] = {
    "markdown_file": None, "markdown_content": None, "assets": [], "web_text": None,
    "video_transcript": None, "attachments_text": None, "attachments_url": None,
    "archive_url": None, "archive_filename": None, "structured_data": None, "target_dir": None,
    "page_texts": [], "asset_dir": None, "context": None,
}  # fmt: skip
#: Fields that decide whether a job runs again, and how; the API does not return them.
COUNTERS = frozenset({"failures", "crashes", "losses", "strikes", "group_size"})
#: Fields that lists omit unless they are asked for.
LARGE_FIELDS = frozenset({"results", "logs"})
#: In stored results: the name of the artifact with the long texts, which are too large for the
#: store. `JobFiles.load_results` merges them back.
RESULTS_FILE_KEY = "more_in"
#: In stored results: the directory whose files the archive has, if not all artifacts.
ARCHIVE_ROOT_KEY = "archive_root"


class Job(OwnedResource):
    job_id: str = Field(default_factory=lambda: new_id("job"))
    job_type: str = Field(default=DEFAULT_JOB_TYPE, min_length=1, max_length=100)
    job_name: str | None = None
    status: JobStatus = JobStatus.PENDING
    parameters: dict[str, Any] = {}
    progress: Progress = QUEUED
    results: dict[str, Any] | None = None
    error: JobError | None = None
    created_at: AwareDatetime = Field(default_factory=utc_now)
    updated_at: AwareDatetime = Field(default_factory=utc_now)
    processing_started_at: AwareDatetime | None = None
    completed_at: AwareDatetime | None = None
    batch_id: str | None = None
    logs: tuple[LogEntry, ...] = ()
    archived: bool = False

    priority: int = Field(default=0, ge=-MAX_PRIORITY, le=MAX_PRIORITY)
    run_at: AwareDatetime | None = None
    timeout_s: float | None = Field(default=None, gt=0)
    max_attempts: int | None = Field(default=None, ge=1, le=100)
    webhook: Webhook | None = None
    deliveries: tuple[Delivery, ...] = ()
    resources: dict[str, float] = {}
    #: The size of its files, as far as it counts towards the quota of its user.
    stored_bytes: int | None = None
    #: W3C trace context of the request that added the job.
    traceparent: str | None = None
    #: The id of the first job that the client submitted for the same callback, if there was one.
    process_id: str | None = None

    #: Counts claims. Together with `worker_id` it is the fencing token: a worker that lost the job
    #: has an old attempt number, and the store rejects its writes.
    attempt: int = 0
    worker_id: str | None = None
    attempts: tuple[Attempt, ...] = ()
    #: Attempts that failed, those that crashed their own process, and those whose worker was lost
    #: and did not return. An attempt interrupted by a deployment counts as none of them.
    failures: int = 0
    crashes: int = 0
    losses: int = 0
    #: Lost workers that the job may be the cause of (see `store.claims.judge_loss`).
    strikes: int = 0
    #: Set for a suspect: the number of suspects that may share a worker with it, itself included.
    #: 1 means that it runs alone.
    group_size: int | None = None
    cancel_requested: bool = False

    @property
    def reported_id(self) -> str:
        """The id that webhook events report as `process.id`: one for all jobs of a callback."""
        return self.process_id or self.job_id

    @property
    def expires_at(self) -> datetime | None:
        """When a finished job with a retention of its own is deleted."""
        if self.completed_at is None or not self.retention_days:
            return None
        return self.completed_at + timedelta(days=self.retention_days)

    @property
    def past_attempts(self) -> tuple[Attempt, ...]:
        """The attempts before the one that the fields of the job describe."""
        has_current = self.worker_id is not None and self.processing_started_at is not None
        return self.attempts[:-1] if has_current else self.attempts

    @property
    def has_results_file(self) -> bool:
        return self.results is not None and RESULTS_FILE_KEY in self.results

    @property
    def recording_name(self) -> str | None:
        """The name of the original recording, if it is among the artifacts."""
        recording = (self.results or {}).get("recording")
        if not isinstance(recording, dict):
            return None
        file = recording.get("file") or recording.get("url")  # a URL in results of older versions
        return PurePosixPath(file).name if isinstance(file, str) else None

    def summary(self) -> dict[str, Any]:
        """The job as lists return it, unless they are asked for more."""
        return self.document(without=LARGE_FIELDS)

    def document(self, *, without: frozenset[str] = frozenset()) -> dict[str, Any]:
        """The job as the API returns it."""
        hidden = {*COUNTERS, "webhook", "process_id", *without}
        # Results are JSON already, and may be too large to be copied on the event loop.
        job = self.model_copy(update={"results": None}) if self.results is not None else self
        document = job.model_dump(mode="json", by_alias=True, exclude=hidden)
        document["webhook"] = self.webhook.public() if self.webhook else None
        document["expires_at"] = iso(self.expires_at) if self.expires_at else None
        document["parameters"] = mask_secrets(document["parameters"])
        if self.results is not None and "results" in document:
            document["results"] = {**self.public_results, **self.ids_in_data}
        return document

    @property
    def ids_in_data(self) -> dict[str, str]:
        """Clients that stream or poll a PDF job keep its `data` or results alone; by this id they
        download the other files."""
        return {"processId": self.job_id} if self.job_type == "pdf" else {}

    @property
    def public_results(self) -> dict[str, Any]:
        """The results as clients receive them, with all that the `data` of an event has."""
        results = {**EMPTY_RESULTS, **(self.results or {})}
        if self.job_type == "transformer" and results.get("text") is None:  # it is the Markdown
            results["text"] = results["markdown_content"]
        return results


class Batch(OwnedResource):
    batch_id: str = Field(default_factory=lambda: new_id("batch"))
    batch_name: str | None = None
    created_at: AwareDatetime = Field(default_factory=utc_now)
    updated_at: AwareDatetime = Field(default_factory=utc_now)
    started_at: AwareDatetime | None = None
    completed_at: AwareDatetime | None = None
    is_active: Annotated[bool, Field(alias="isActive")] = True
    archived: bool = False
    webhook: Webhook | None = None
    deliveries: tuple[Delivery, ...] = ()

    #: Number of jobs per status, maintained by the store.
    counts: Mapping[JobStatus, int] = {}

    @property
    def total_jobs(self) -> int:
        return sum(self.counts.values())

    @property
    def status(self) -> JobStatus:
        open_jobs = self._count(JobStatus.PENDING) + self._count(JobStatus.PROCESSING)
        if open_jobs:
            idle = self.started_at is None and open_jobs == self.total_jobs
            return JobStatus.PENDING if idle else JobStatus.PROCESSING
        if self.total_jobs and not self._count(JobStatus.COMPLETED):
            return JobStatus.FAILED
        return JobStatus.COMPLETED

    def document(self) -> dict[str, Any]:
        """The batch as the API returns it."""
        hidden = {"counts", "started_at", "webhook"}
        document = self.model_dump(mode="json", by_alias=True, exclude=hidden)
        document |= {f"{status}_jobs": self._count(status) for status in JobStatus}
        return document | {
            "batch_name": self.batch_name or self.batch_id,
            "status": self.status,
            "total_jobs": self.total_jobs,
            "webhook": self.webhook.public() if self.webhook else None,
        }

    def _count(self, status: JobStatus) -> int:
        return self.counts.get(status, 0)


@dataclass(frozen=True, slots=True)
class Completed:
    results: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """With `retry_at` the job becomes pending again until then."""

    error: JobError
    retry_at: datetime | None = None
    crashed: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    reason: str = "The job was cancelled"


@dataclass(frozen=True, slots=True)
class Released:
    """The worker shuts down: the job returns to the queue without counting as a failure."""


Outcome = Completed | Failed | Cancelled | Released


#: Aggregated by maximum; all others by sum.
PEAK_RESOURCES = frozenset({"peak_memory_bytes"})


class ResourceCalculator:
    """Collects resource usage while a job runs; it is stored with the job."""

    def __init__(self) -> None:
        self._used: dict[str, float] = {}

    @property
    def used(self) -> Mapping[str, float]:
        return dict(self._used)

    def add(self, resource: str, amount: float) -> None:
        before = self._used.get(resource, 0)
        is_peak = resource in PEAK_RESOURCES
        self._used[resource] = max(before, amount) if is_peak else before + amount


def normalize_parameters(
    parameters: Mapping[str, Any], known: frozenset[str] | None
) -> dict[str, Any]:
    """Parameters as they are stored: undeclared keys move under `extra`.

    A nested `extra` is merged into its parent, whose values take precedence, so the function is
    idempotent. `known` is None when the job type declares no parameters.
    """
    top = {key: value for key, value in parameters.items() if key != "extra"}
    extra = _merged_extra(parameters.get("extra"))
    if not isinstance(extra, dict):
        return {**top, "extra": extra} if "extra" in parameters else top
    unknown = {key for key in top if known is not None and key not in known}
    extra = {key: value for key, value in extra.items() if key not in top or key in unknown}
    extra |= {key: top.pop(key) for key in list(top) if key in unknown}
    return {**top, "extra": extra} if extra or "extra" in parameters else top


def flatten_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as a handler reads them: `extra` is merged into the top level, which wins."""
    top = {key: value for key, value in parameters.items() if key != "extra"}
    extra = _merged_extra(parameters.get("extra"))
    return {**extra, **top} if isinstance(extra, dict) else dict(parameters)


def _merged_extra(extra: Any) -> Any:
    if extra is None:
        return {}
    while isinstance(extra, dict) and isinstance(inner := extra.get("extra"), dict):
        outer = {key: value for key, value in extra.items() if key != "extra"}
        extra = inner | outer
    return extra


#: Replaces secrets in every response.
MASK = "•••"

#: Suffixes of parameter names that mark a secret, for all job types: custom handlers declare their
#: own parameters, and clients send undeclared ones.
SECRET_SUFFIXES = (
    "password", "passwd", "passphrase", "secret", "token", "apikey", "authorization",
    "credential", "credentials",
)  # fmt: skip


def has_secrets(parameters: dict[str, Any]) -> bool:
    if any(map(_is_secret, parameters, parameters.values())):
        return True
    extra = parameters.get("extra")
    return isinstance(extra, dict) and has_secrets(extra)


def mask_secrets(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as responses show them: reading a job does not reveal its secrets."""
    shown = _replace_secrets(parameters, shown=MASK) if has_secrets(parameters) else parameters
    return {name: _mask_urls(value) for name, value in shown.items()}


#: The last word of the names of query parameters that are secrets, beside `SECRET_SUFFIXES`: those
#: of signed URLs and API keys.
SECRET_QUERY_WORDS = frozenset({"sig", "signature", "key", "auth", "jwt"})
_USER_INFO = re.compile(r"(?<=://)[^/?#@]*(?=@)")
_QUERY_VALUE = re.compile(r"(?<=[?&;#])([^=&;#]*)=([^&;#]+)")


def mask_url(url: str) -> str:
    """A URL as responses show it: without user and password, and without the values of query
    parameters that are secrets, such as the signature of a signed URL."""

    def mask(match: re.Match[str]) -> str:
        words = re.split(r"[-_.]", match[1].lower())
        secret = "".join(words).endswith(SECRET_SUFFIXES) or words[-1] in SECRET_QUERY_WORDS
        return f"{match[1]}={MASK}" if secret else match[0]

    return _QUERY_VALUE.sub(mask, _USER_INFO.sub(MASK, url))


#: No parameter has a longer URL.
_MAX_URL = 8000


def _is_url(value: str) -> bool:
    is_url = value[:8].lower().startswith(("http://", "https://")) and len(value) <= _MAX_URL
    return is_url and not re.search(r"\s", value)


def _mask_urls(value: Any, depth: int = 3) -> Any:
    """The value with all URLs in it masked, as deep as sources are nested."""
    if isinstance(value, str):
        return mask_url(value) if _is_url(value) else value
    if isinstance(value, dict) and depth:
        return {name: _mask_urls(inner, depth - 1) for name, inner in value.items()}
    if isinstance(value, list) and depth:
        return [_mask_urls(inner, depth - 1) for inner in value]
    return value


def remove_secrets(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as they are stored once the job has finished."""
    return _replace_secrets(parameters, shown=None) if has_secrets(parameters) else parameters


def drop_masked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Without masked values that a client has read and sends back."""
    return {name: value for name, value in parameters.items() if not _is_masked(value)}


def _is_masked(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_is_masked, value.values()))
    return value == MASK or (isinstance(value, str) and MASK in value and _is_url(value))


def _replace_secrets(parameters: dict[str, Any], *, shown: str | None) -> dict[str, Any]:
    """Replace secrets with `shown`, or remove them if it is None; those under `extra` too."""
    secrets = {name for name, value in parameters.items() if _is_secret(name, value)}
    result = {name: value for name, value in parameters.items() if name not in secrets}
    if isinstance(extra := result.get("extra"), dict):
        result["extra"] = _replace_secrets(extra, shown=shown)
    return result if shown is None else result | dict.fromkeys(sorted(secrets), shown)


def _is_secret(name: str, value: Any) -> bool:
    # Called for each parameter of each job: a regular expression takes ten times as long.
    if not name.replace("_", "").lower().endswith(SECRET_SUFFIXES):
        return False
    return value is not None and not isinstance(value, bool)
