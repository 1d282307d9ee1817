"""The one payload of all events: the same for every job type, and for every try of an event."""

import base64
from typing import Any, Literal

from ..core.job import EMPTY_RESULTS, FINAL_STATUSES, Batch, Job, JobStatus, Webhook, iso
from ..core.json_codec import encode_json_text
from ..jobs.events import event_payload

SCHEMA_VERSION = 1
WORKER = "secretary"

Phase = Literal["queued", "running", "postprocessing", "completed", "error"]

MARKDOWN = frozenset({"markdown_content", "markdown_file"})
METADATA = frozenset({"metadata"})

#: Fields of a batch that may change after its end, or that are no business of a receiver.
NOT_TOLD = frozenset(
    {"updated_at", "archived", "isActive", "access_control", "webhook", "deliveries"}
)


def phase_of(owner: Job | Batch) -> Phase:
    match owner.status:
        case JobStatus.COMPLETED:
            return "completed"
        case JobStatus.FAILED | JobStatus.CANCELLED:
            return "error"
        case JobStatus.PROCESSING if isinstance(owner, Batch) or not _nearly_done(owner):
            return "running"
        case JobStatus.PROCESSING:
            return "postprocessing"
        case JobStatus.PENDING:
            return "queued"


def _nearly_done(job: Job) -> bool:
    return job.progress.step == "postprocessing"


def body(owner: Job | Batch, webhook: Webhook, *, archive: bytes | None = None) -> bytes:
    """What is sent, byte by byte."""
    payload = (
        job_payload(owner, webhook, archive=archive)
        if isinstance(owner, Job)
        else batch_payload(owner, webhook)
    )
    if webhook.token_in_body and webhook.token:
        payload["callback_token"] = webhook.token
    return encode_json_text(payload).encode()


def client_id(owner: Job | Batch, webhook: Webhook) -> str:
    """The id by which the client knows it: its own, if it gave one."""
    return webhook.job_id or (owner.job_id if isinstance(owner, Job) else owner.batch_id)


def job_payload(job: Job, webhook: Webhook, *, archive: bytes | None = None) -> dict[str, Any]:
    phase = phase_of(job)
    own_id = client_id(job, webhook)
    ended = job.status in FINAL_STATUSES
    results = {**EMPTY_RESULTS, **(job.results or {})}
    data = _data(job, webhook, archive) if ended else {"progress": job.progress.percent}
    return {
        "schema_version": SCHEMA_VERSION,
        "worker": WORKER,
        "phase": phase,
        "status": phase if ended else "processing",
        "message": _message(job, phase),
        "job_id": job.job_id,
        "job_type": job.job_type,
        "jobId": own_id,
        "job": {"id": own_id},
        "process": {
            "id": job.job_id,
            "main_processor": job.job_type,
            "started": iso(job.processing_started_at or job.created_at),
            "is_from_cache": bool(results.get("is_from_cache")),
        },
        "progress": job.progress.model_dump(),
        "percent": job.progress.percent,
        "data": data,
        "results": _told(results, webhook) if phase == "completed" else None,
        # An error of an attempt that will be tried again is no end.
        "error": job.error.model_dump(mode="json") if job.error and phase == "error" else None,
    }


def _message(job: Job, phase: Phase) -> str:
    if phase == "error" and job.error is not None:
        return job.error.message
    return job.progress.message or phase


def _data(job: Job, webhook: Webhook, archive: bytes | None) -> dict[str, Any] | None:
    outcome = event_payload(job)
    if outcome is None:
        return None
    data = _told(outcome, webhook)
    if archive is not None:
        data["archive_data"] = base64.b64encode(archive).decode()
        data["archive_filename"] = (job.results or {}).get("archive_filename")
    return data


def _told(results: dict[str, Any], webhook: Webhook) -> dict[str, Any]:
    """The results without what the client does not want."""
    left_out: set[str] = set()
    if not webhook.include_markdown:
        left_out |= MARKDOWN
    if not webhook.include_metadata:
        left_out |= METADATA
    return {key: value for key, value in results.items() if key not in left_out}


def batch_payload(batch: Batch, webhook: Webhook) -> dict[str, Any]:
    phase = phase_of(batch)
    own_id = client_id(batch, webhook)
    document = {key: value for key, value in batch.document().items() if key not in NOT_TOLD}
    message = f"{document['completed_jobs']} of {batch.total_jobs} jobs completed"
    error = None
    if phase == "error":
        code = "BATCH_FAILED"
        error = {"code": code, "message": "None of the jobs completed", "details": None}
    return {
        "schema_version": SCHEMA_VERSION,
        "worker": WORKER,
        "phase": phase,
        "status": phase,
        "message": message,
        "job_id": None,
        "batch_id": batch.batch_id,
        "job_type": "batch",
        "jobId": own_id,
        "job": {"id": own_id},
        "process": {
            "id": batch.batch_id,
            "main_processor": "batch",
            "started": iso(batch.started_at or batch.created_at),
            "is_from_cache": False,
        },
        "progress": {"step": phase, "percent": 100, "message": message},
        "percent": 100,
        "data": document if phase == "completed" else None,
        "batch": document,
        "results": None,
        "error": error,
    }
