"""The archive of a job as part of an event, if its client asked for it."""

from ..errors import NotFound
from ..files import JobFiles
from ..job import Job

MAX_BYTES = 5 * 1024 * 1024


async def read_archive(files: JobFiles, job: Job) -> bytes | None:
    """The ZIP with everything a job made; None if there is none, or it is too large."""
    try:
        found = await files.archive(job)
        return await files.content(found) if found.size < MAX_BYTES else None
    except NotFound:
        return None
