"""The events in which streams tell of jobs and batches."""

import hashlib
from dataclasses import dataclass
from typing import Any

from ..event_data import event_data
from ..job import FINAL, Batch, Job, JobStatus
from ..json_bytes import json_bytes

#: The name of the event and the phase that belong to a state.
NAMES = {
    JobStatus.PENDING: ("pending", "pending"),
    JobStatus.PROCESSING: ("progress", "running"),
    JobStatus.COMPLETED: ("completed", "completed"),
    JobStatus.FAILED: ("error", "error"),
    JobStatus.CANCELLED: ("cancelled", "error"),
}


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    document: dict[str, Any]


def job_event(job: Job) -> Event:
    name, phase = NAMES[job.status]
    document: dict[str, Any] = {
        "job": {"id": job.job_id},
        "process": {"id": job.job_id, "main_processor": job.job_type},
        "phase": phase,
        "message": job.progress.message or job.progress.step,
        "data": event_data(job) if job.status in FINAL else {"progress": job.progress.percent},
    }
    if job.error is not None and phase == "error":
        document |= {"message": job.error.message, "error": job.error.model_dump(mode="json")}
    return Event(name, document)


def job_event_id(job: Job, event: Event) -> str:
    """The same for the same state whatever process tells it; another one after each change."""
    state = json_bytes([job.attempt, str(job.completed_at), event.name, event.document])
    return hashlib.blake2b(state, digest_size=9).hexdigest()


def batch_event(batch: Batch) -> Event:
    name, phase = NAMES[batch.status]
    ended = sum(batch.counts.get(status, 0) for status in FINAL)
    total = batch.total_jobs
    progress = 100 * ended // total if total else 100
    document: dict[str, Any] = {
        "batch": {"id": batch.batch_id},
        "process": {"id": batch.batch_id, "main_processor": "batch"},
        "phase": phase,
        "message": f"{ended} of {total} jobs have ended",
        "data": {"progress": progress, **batch.document()},
    }
    return Event(name, document)
