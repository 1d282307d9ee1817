"""The archive of a job as part of an event, if its client asked for it."""

from ..errors import NotFound
from ..files import JobFiles
from ..job import Job

MAX_BYTES = 5 * 1024 * 1024


def read_archive(files: JobFiles, job: Job) -> bytes | None:
    """The ZIP with everything a job made; None if there is none, or it is too large."""
    try:
        file = files.archive(job)
    except NotFound:
        return None
    return file.read_bytes() if file.stat().st_size < MAX_BYTES else None
