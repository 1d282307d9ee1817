"""What a client is told about the outcome of a job: the `data` of webhooks and streams."""

from collections.abc import Mapping
from typing import Any

from .job import Job, JobStatus

#: The parts of the results that are told, by job type: those that are always there, null if
#: need be, and those that are there only if the job has made them.
_TEXT = (("extracted_text", "metadata"), ("pages_archive_url", "images_archive_url"))
_SPEECH = (("transcription",), ("subtitles",))
PARTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pdf": _TEXT,
    "office": _TEXT,
    "imageocr": _TEXT,
    "audio": _SPEECH,
    "video": _SPEECH,
    "transformer": (("text", "structured_data"), ()),
    "session": (("markdown_content", "markdown_file"), ()),
}


def event_data(job: Job) -> dict[str, Any] | None:
    """The outcome of a completed job; None for any other."""
    if job.status is not JobStatus.COMPLETED:
        return None
    results = job.results or {}
    if job.job_type not in PARTS:
        return dict(results)
    always, sometimes = PARTS[job.job_type]
    data = {name: results.get(name) for name in always}
    if data.get("text", "") is None:  # the shape that all results share calls it otherwise
        data["text"] = results.get("markdown_content")
    return data | {name: results[name] for name in sometimes if results.get(name) is not None}
