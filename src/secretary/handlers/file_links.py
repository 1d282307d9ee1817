"""Where clients find the files that a job has made."""

from urllib.parse import quote

from ..job import Job


def file_url(job: Job, name: object, *, route: str = "/api/files") -> str:
    return f"{route}/{job.job_id}/{quote(str(name))}"


def archive_url(job: Job) -> str:
    return f"/api/jobs/{job.job_id}/download-archive"
