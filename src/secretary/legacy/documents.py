"""What a document of `event_jobs` or `event_batches` is among our jobs and batches."""

import base64
import binascii
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError

from ..file_names import safe_name
from ..job import (
    DEFAULT_JOB_TYPE,
    FINAL,
    MAX_LOG_ENTRIES,
    QUEUED,
    Batch,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    Progress,
    Webhook,
)
from ..parameters import tidy_parameters
from ..store.outbox import first_pace
from ..store.transfer import NOTHING_TO_TELL, BatchRecord, JobRecord, Telling
from .values import (
    Unreadable,
    access_of,
    created_at_of,
    error_of,
    fitting_id,
    id_of,
    json_of,
    log_of,
    status_of,
    text_or_none,
    time_of,
    webhook_of,
)

#: Who ran the jobs of the older service, in their history here.
WORKER = "event_jobs"
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
Running = Literal["failed", "pending"]

INTERRUPTED = JobError(
    code="WORKER_CRASHED",
    message="The job was running in the older service when it was taken over; it can be restarted",
)
UNTOLD = JobError(code="INTERNAL_ERROR", message="The older service told no reason")


@dataclass(frozen=True, slots=True)
class OlderJob:
    record: JobRecord
    #: The ZIP that lay inside the document; here it is a file.
    archive: bytes | None


def job_of(
    document: Mapping[str, Any], *, inactive: Collection[str] = (), running: Running = "failed"
) -> OlderJob:
    try:
        return _job_of(document, inactive, running)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Unreadable(f"{place}: {first['msg']}") from None


def _job_of(document: Mapping[str, Any], inactive: Collection[str], running: Running) -> OlderJob:
    told = status_of(document)
    status = JobStatus(running) if told is JobStatus.PROCESSING else told
    created_at = created_at_of(document)
    parameters, webhook = _parameters(document)
    results, archive = _results(document)
    batch_id = text_or_none(document.get("batch_id"))
    logs, dropped = _logs(document, created_at)
    job = Job(
        job_id=id_of("job", document),
        job_type=str(document.get("job_type") or DEFAULT_JOB_TYPE),
        job_name=text_or_none(document.get("job_name")),
        status=status,
        parameters=parameters,
        results=results if status in FINAL else None,
        created_at=created_at,
        batch_id=fitting_id("batch", batch_id) if batch_id else None,
        user_id=text_or_none(document.get("user_id")),
        access_control=access_of(document.get("access_control")),
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
        held=is_pending and job.batch_id in inactive,
        telling=_first_sign(webhook) if is_pending else NOTHING_TO_TELL,
    )
    return OlderJob(record, archive)


def _state(
    document: Mapping[str, Any], status: JobStatus, told: JobStatus, created_at: datetime
) -> dict[str, Any]:
    """What goes with the status: times, progress, error and the one attempt there was."""
    updated_at = time_of(document.get("updated_at")) or created_at
    if status not in FINAL:
        return {"updated_at": updated_at, "progress": QUEUED}
    error = error_of(document.get("error"))
    if told is JobStatus.PROCESSING:
        error = INTERRUPTED
    elif status is JobStatus.FAILED:
        error = error or UNTOLD
    elif status is JobStatus.CANCELLED:
        error = error or JobError(code="CANCELLED", message="The job was cancelled")
    else:
        error = None
    started_at = time_of(document.get("processing_started_at"))
    completed_at = time_of(document.get("completed_at")) or updated_at
    return {
        "updated_at": updated_at,
        "progress": _progress(document, status),
        "error": error,
        "processing_started_at": started_at,
        "completed_at": completed_at,
        "attempt": 1,
        "worker_id": WORKER if started_at else None,
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
    given = json_of(document.get("parameters") or {})
    if not isinstance(given, dict):
        raise Unreadable("its parameters are no document")
    parameters = tidy_parameters(given, None)
    webhook = webhook_of(document.get("webhook"))
    for place in (parameters, parameters.get("extra")):
        if isinstance(place, dict):
            inner, url = place.pop("webhook", None), place.pop("callback_url", None)
            token = place.pop("callback_token", None)
            webhook = webhook or webhook_of(inner) or webhook_of({"url": url, "token": token})
    return parameters, webhook


def _results(document: Mapping[str, Any]) -> tuple[dict[str, Any] | None, bytes | None]:
    """As they were told, other than an archive inside of them."""
    results = json_of(document.get("results"))
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
    return tuple(log_of(entry, otherwise) for entry in kept), len(entries) - len(kept)


def _first_sign(webhook: Webhook | None) -> Telling:
    if webhook is None or not webhook.wants_progress:
        return NOTHING_TO_TELL
    first = first_pace()
    return Telling(due_at=first.due_at, pace=first)


def batch_of(document: Mapping[str, Any], *, still_open: Collection[str] = ()) -> BatchRecord:
    """`still_open`: the ids of batches with jobs that wait. Counters are not taken over, they
    are counted."""
    created_at = created_at_of(document)
    updated_at = time_of(document.get("updated_at")) or created_at
    batch_id = id_of("batch", document)
    ended_at = time_of(document.get("completed_at")) or updated_at
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
        webhook=webhook_of(document.get("webhook")),
        user_id=text_or_none(document.get("user_id")),
        access_control=access_of(document.get("access_control")),
    )
    return BatchRecord(batch=batch)


def is_active(document: Mapping[str, Any]) -> bool:
    told = document.get("isActive", document.get("is_active"))
    return told is None or bool(told)
