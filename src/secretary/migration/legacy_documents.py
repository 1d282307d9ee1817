"""What a document of `event_jobs` or `event_batches` is among our jobs and batches."""

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from uuid import UUID, uuid5

from pydantic import ValidationError

from ..core.file_types import safe_name
from ..core.job import (
    DEFAULT_JOB_TYPE,
    FINAL_STATUSES,
    MAX_LOG_ENTRIES,
    MAX_LOG_MESSAGE,
    OWNER_ONLY,
    QUEUED,
    AccessControl,
    Batch,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    LogLevel,
    Progress,
    Webhook,
    iso,
)
from ..core.parameters import normalize_parameters
from ..jobs.submission import accept_any_url, webhook_problems
from ..store.outbox import first_schedule
from ..store.transfer import NO_EVENT, BatchRecord, JobRecord, OutboxState

#: Ids that are not of our form become one of it, always the same.
NAMESPACE = UUID("6f1d6d1e-6c0b-5c0e-9c55-5ec2e7a2ab1e")
VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")

STATUSES = {status.value: status for status in JobStatus} | {
    "queued": JobStatus.PENDING,
    "running": JobStatus.PROCESSING,
    "error": JobStatus.FAILED,
    "canceled": JobStatus.CANCELLED,
}
LEVELS = {level: level for level in get_args(LogLevel)} | {"warn": "warning", "fatal": "critical"}


class UnreadableDocument(Exception):
    """The document is not one that can be taken over; the text says why."""


def record_id(kind: Literal["job", "batch"], document: Mapping[str, Any]) -> str:
    own = document.get(f"{kind}_id") or document.get("_id")
    if not own:
        raise UnreadableDocument("it has no id")
    return valid_id(kind, str(own))


def valid_id(kind: Literal["job", "batch"], own: str) -> str:
    if own.startswith(f"{kind}-") and VALID_ID.fullmatch(own):
        return own
    return f"{kind}-{uuid5(NAMESPACE, f'{kind}/{own}')}"


def job_status(document: Mapping[str, Any]) -> JobStatus:
    told = str(document.get("status") or "").lower()
    if told not in STATUSES:
        raise UnreadableDocument(f"its status is {told or 'missing'}")
    return STATUSES[told]


def parse_time(value: Any) -> datetime | None:
    """Without a zone it is UTC: so the older service wrote it."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def creation_time(document: Mapping[str, Any]) -> datetime:
    """As it is told, or as the id that MongoDB gave tells it."""
    if (told := parse_time(document.get("created_at"))) is not None:
        return told
    own = str(document.get("_id", ""))
    if re.fullmatch("[0-9a-f]{24}", own):
        return datetime.fromtimestamp(int(own[:8], 16), UTC)
    raise UnreadableDocument("it does not tell when it was created")


def to_json(value: Any) -> Any:
    """The same with times as texts."""
    match value:
        case datetime():
            at = parse_time(value)
            assert at is not None
            return iso(at)
        case Mapping():
            return {key: to_json(item) for key, item in value.items()}
        case list():
            return [to_json(item) for item in value]
        case _:
            return value


def text_or_none(value: Any) -> str | None:
    return str(value) if value not in (None, "") else None


def convert_error(value: Any) -> JobError | None:
    if not value:
        return None
    if not isinstance(value, Mapping):
        return JobError(code="INTERNAL_ERROR", message=str(value))
    details = to_json(value.get("details"))
    if details is not None and not isinstance(details, dict):
        details = {"told": details}
    code = text_or_none(value.get("code")) or "INTERNAL_ERROR"
    return JobError(code=code, message=str(value.get("message") or ""), details=details)


def convert_access(value: Any) -> AccessControl:
    if not isinstance(value, Mapping):
        return OWNER_ONLY
    lists = {
        name: tuple(str(user) for user in value.get(name) or () if user)
        for name in ("read_access", "write_access", "admin_access")
    }
    public = str(value.get("visibility")).lower() == "public"
    return AccessControl(visibility="public" if public else "private", **lists)


def convert_log(value: Any, otherwise: datetime) -> LogEntry:
    if not isinstance(value, Mapping):
        return LogEntry(timestamp=otherwise, message=str(value)[:MAX_LOG_MESSAGE])
    told = str(value.get("level") or "info").lower()
    return LogEntry.model_validate(
        {
            "timestamp": parse_time(value.get("timestamp")) or otherwise,
            "level": LEVELS.get(told, "info"),
            "message": str(value.get("message") or "")[:MAX_LOG_MESSAGE],
        }
    )


def convert_webhook(value: Any) -> Webhook | None:
    """None also for one that could never be told anything."""
    if not isinstance(value, Mapping) or not value.get("url"):
        return None
    try:
        webhook = Webhook.model_validate(
            {name: item for name, item in to_json(value).items() if item is not None}
        )
    except ValidationError:
        return None
    return None if list(webhook_problems(webhook, accept_any_url)) else webhook


#: Who ran the jobs of the older service, in their history here.
LEGACY_WORKER_ID = "event_jobs"
ARCHIVE_NAME = "archive.zip"
#: Fields that are taken over, or told by what is.
JOB_FIELDS = frozenset({
    "_id", "job_id", "job_type", "job_name", "status", "parameters", "progress", "results", "error",
    "created_at", "updated_at", "processing_started_at", "completed_at", "batch_id", "user_id",
    "access_control", "logs", "archived", "webhook",
})  # fmt: skip
BATCH_FIELDS = frozenset({
    "_id", "batch_id", "batch_name", "status", "total_jobs", "completed_jobs", "failed_jobs",
    "pending_jobs", "processing_jobs", "cancelled_jobs", "isActive", "is_active", "archived",
    "created_at", "updated_at", "completed_at", "user_id", "access_control", "webhook",
})  # fmt: skip
#: What became of jobs that were running.
RunningJobs = Literal["failed", "pending"]

INTERRUPTED = JobError(
    code="WORKER_CRASHED",
    message="The job was running in the older service when it was taken over; it can be restarted",
)
NO_REASON = JobError(code="INTERNAL_ERROR", message="The older service told no reason")


@dataclass(frozen=True, slots=True)
class LegacyJob:
    record: JobRecord
    #: The ZIP that lay inside the document; here it is a file.
    archive: bytes | None


def convert_job(
    document: Mapping[str, Any], *, inactive: Collection[str] = (), running: RunningJobs = "failed"
) -> LegacyJob:
    try:
        return _convert_job(document, inactive, running)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UnreadableDocument(f"{place}: {first['msg']}") from None


def _convert_job(
    document: Mapping[str, Any], inactive: Collection[str], running: RunningJobs
) -> LegacyJob:
    told = job_status(document)
    status = JobStatus(running) if told is JobStatus.PROCESSING else told
    created_at = creation_time(document)
    parameters, webhook = _parameters(document)
    results, archive = _results(document)
    batch_id = text_or_none(document.get("batch_id"))
    logs, dropped = _logs(document, created_at)
    job = Job(
        job_id=record_id("job", document),
        job_type=str(document.get("job_type") or DEFAULT_JOB_TYPE),
        job_name=text_or_none(document.get("job_name")),
        status=status,
        parameters=parameters,
        results=results if status in FINAL_STATUSES else None,
        created_at=created_at,
        batch_id=valid_id("batch", batch_id) if batch_id else None,
        user_id=text_or_none(document.get("user_id")),
        access_control=convert_access(document.get("access_control")),
        logs=logs,
        archived=bool(document.get("archived")),
        webhook=webhook,
        **_state(document, status, told, created_at),
    )
    if status is not JobStatus.COMPLETED or job.results is None:
        archive = None
    elif archive is not None:
        job = job.model_copy(update={"results": _with_archive(job)})
    is_pending = status is JobStatus.PENDING
    record = JobRecord(
        job=job,
        dropped_logs=dropped,
        paused=is_pending and job.batch_id in inactive,
        outbox=_first_sign(webhook) if is_pending else NO_EVENT,
    )
    return LegacyJob(record, archive)


def _state(
    document: Mapping[str, Any], status: JobStatus, told: JobStatus, created_at: datetime
) -> dict[str, Any]:
    """What goes with the status: times, progress, error and the one attempt there was."""
    updated_at = parse_time(document.get("updated_at")) or created_at
    if status not in FINAL_STATUSES:
        return {"updated_at": updated_at, "progress": QUEUED}
    error = convert_error(document.get("error"))
    if told is JobStatus.PROCESSING:
        error = INTERRUPTED
    elif status is JobStatus.FAILED:
        error = error or NO_REASON
    elif status is JobStatus.CANCELLED:
        error = error or JobError(code="CANCELLED", message="The job was cancelled")
    else:
        error = None
    started_at = parse_time(document.get("processing_started_at"))
    completed_at = parse_time(document.get("completed_at")) or updated_at
    return {
        "updated_at": updated_at,
        "progress": _progress(document, status),
        "error": error,
        "processing_started_at": started_at,
        "completed_at": completed_at,
        "attempt": 1,
        "worker_id": LEGACY_WORKER_ID if started_at else None,
        "failures": int(status is JobStatus.FAILED),
        "cancel_requested": status is JobStatus.CANCELLED,
    }


def _progress(document: Mapping[str, Any], status: JobStatus) -> Progress:
    told = document.get("progress")
    told = told if isinstance(told, Mapping) else {}
    if status is JobStatus.COMPLETED:
        return Progress(step="completed", percent=100, message=str(told.get("message") or ""))
    percent = told.get("percent")
    number = int(percent) if isinstance(percent, int | float) else 0
    return Progress(
        step=str(told.get("step") or "queued"),
        percent=min(max(number, 0), 100),
        message=str(told.get("message") or ""),
    )


def _parameters(document: Mapping[str, Any]) -> tuple[dict[str, Any], Webhook | None]:
    """The parameters, and the webhook that may be among them: parameters are shown to clients,
    and a token must not be."""
    given = to_json(document.get("parameters") or {})
    if not isinstance(given, dict):
        raise UnreadableDocument("its parameters are no document")
    parameters = normalize_parameters(given, None)
    webhook = convert_webhook(document.get("webhook"))
    for place in (parameters, parameters.get("extra")):
        if isinstance(place, dict):
            inner, url = place.pop("webhook", None), place.pop("callback_url", None)
            token = place.pop("callback_token", None)
            webhook = (
                webhook or convert_webhook(inner) or convert_webhook({"url": url, "token": token})
            )
    return parameters, webhook


def _results(document: Mapping[str, Any]) -> tuple[dict[str, Any] | None, bytes | None]:
    """As they were told, other than an archive inside of them."""
    results = to_json(document.get("results"))
    if not isinstance(results, dict):
        return None, None
    data = results.pop("archive_data", None)
    try:
        archive = base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except (binascii.Error, ValueError):
        archive = None
    return results, archive or None


def _with_archive(job: Job) -> dict[str, Any]:
    results = job.results or {}
    name = safe_name(str(results.get("archive_filename") or "")) or ARCHIVE_NAME
    url = f"/api/jobs/{job.job_id}/download-archive"
    return {**results, "archive_filename": name, "archive_url": url}


def _logs(document: Mapping[str, Any], otherwise: datetime) -> tuple[tuple[LogEntry, ...], int]:
    """The last ones that a job keeps, and how many there were before them."""
    told = document.get("logs")
    entries = list(told) if isinstance(told, list) else []
    kept = entries[-MAX_LOG_ENTRIES:]
    return tuple(convert_log(entry, otherwise) for entry in kept), len(entries) - len(kept)


def _first_sign(webhook: Webhook | None) -> OutboxState:
    if webhook is None or not webhook.wants_progress:
        return NO_EVENT
    first = first_schedule()
    return OutboxState(due_at=first.due_at, schedule=first)


def convert_batch(document: Mapping[str, Any], *, still_open: Collection[str] = ()) -> BatchRecord:
    """`still_open`: the ids of batches with jobs that wait. Counters are not taken over, they
    are counted."""
    created_at = creation_time(document)
    updated_at = parse_time(document.get("updated_at")) or created_at
    batch_id = record_id("batch", document)
    ended_at = parse_time(document.get("completed_at")) or updated_at
    waited = str(document.get("status") or "").lower() in ("", "pending", "queued")
    batch = Batch(
        batch_id=batch_id,
        batch_name=text_or_none(document.get("batch_name")),
        created_at=created_at,
        updated_at=updated_at,
        started_at=None if waited else created_at,
        completed_at=None if batch_id in still_open else ended_at,
        is_active=is_active(document),
        archived=bool(document.get("archived")),
        webhook=convert_webhook(document.get("webhook")),
        user_id=text_or_none(document.get("user_id")),
        access_control=convert_access(document.get("access_control")),
    )
    return BatchRecord(batch=batch)


def is_active(document: Mapping[str, Any]) -> bool:
    told = document.get("isActive", document.get("is_active"))
    return told is None or bool(told)
