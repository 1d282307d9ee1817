"""A job once more with other parameters: another job, so that both can be compared."""

from collections.abc import Mapping
from typing import Any

from .job import Job
from .parameters import flat_parameters
from .secret_parameters import without_hidden
from .submission import JobRequest, read

#: The ways to name what a job works on: who names another one means that one only.
SOURCES = frozenset({"url", "file_path", "file_source"})


def rerun_request(job: Job, changes: Mapping[str, Any], *, user: str | None) -> JobRequest:
    """Who asks is the owner. Without the webhook: nobody waits for news of this job."""
    return read(
        JobRequest,
        {
            "job_type": job.job_type,
            "parameters": _changed(job.parameters, changes),
            "job_name": job.job_name,
            "user_id": user or job.user_id,
            "access_control": job.access_control,
            "priority": job.priority,
            "max_attempts": job.max_attempts,
            "timeout_s": job.timeout_s,
        },
    )


def _changed(parameters: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A null takes a parameter back."""
    changes = without_hidden(changes)
    gone = {name for name, value in changes.items() if value is None}
    if SOURCES & (changes.keys() - gone):
        gone |= SOURCES - changes.keys()
    changed = {name: value for name, value in parameters.items() if name not in gone}
    extra = changed.get("extra")
    if isinstance(extra, dict):
        changed["extra"] = {k: v for k, v in extra.items() if k not in changes}
    return changed | {name: value for name, value in changes.items() if value is not None}


def uploaded_source(job: Job) -> dict[str, Any] | None:
    """How the parameters name what came with the job; None if nothing came with it."""
    source = flat_parameters(job.parameters).get("file_source")
    if not isinstance(source, dict) or source.get("type") != "upload" or not source.get("name"):
        return None
    return source
