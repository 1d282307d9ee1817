"""Whether earlier work may be used, and was."""

from typing import Any
from urllib.parse import quote

from ..core.job import Job
from ..jobs.handler import JobContext


def made_after(ctx: JobContext[Any]) -> float:
    """Pages older than this are not taken. Those of the job's own earlier tries are: a try that
    failed at page 180 has made 179."""
    wish = ctx.parameters
    if wish.use_cache and not (wish.force_refresh or wish.force_overwrite):
        return 0.0
    ends = [attempt.ended_at for attempt in ctx.job.attempts if attempt.error is None]
    return max([ctx.job.created_at, *(end for end in ends if end)]).timestamp()


def is_from_cache(ctx: JobContext[Any], *, made: bool) -> bool:
    """Not where an earlier attempt of this job did some of the work."""
    return not made and not ctx.job.failures and not ctx.job.crashes


def file_url(job: Job, name: object, *, route: str = "/api/files") -> str:
    return f"{route}/{job.job_id}/{quote(str(name))}"


def archive_url(job: Job) -> str:
    return f"/api/jobs/{job.job_id}/download-archive"
