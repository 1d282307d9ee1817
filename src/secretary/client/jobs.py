"""A job of the service, and what can be done with it."""

import io
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .connection import Connection
from .documents import FINAL, ErrorDocument, JobDocument, LogEntry, Progress, Results, Status
from .downloads import copy, download, path_of, target_of
from .errors import JobCancelled, JobFailed
from .meter import Tell, meter
from .watching import updates


class JobView:
    """What is known of a job, since it was last asked for."""

    @property
    def document(self) -> JobDocument:
        raise NotImplementedError

    @property
    def id(self) -> str:
        return self.document.job_id

    @property
    def job_type(self) -> str:
        return self.document.job_type

    @property
    def status(self) -> Status:
        return self.document.status

    @property
    def ended(self) -> bool:
        return self.status in FINAL

    @property
    def progress(self) -> Progress:
        return self.document.progress

    @property
    def error(self) -> ErrorDocument | None:
        return self.document.error

    @property
    def logs(self) -> tuple[LogEntry, ...]:
        """Lists leave them out; `refresh` brings them."""
        return self.document.logs

    @property
    def label(self) -> str:
        return self.document.job_name or self.document.job_type or self.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.job_type} {self.status}>"


class AsyncJob(JobView):
    def __init__(self, connection: Connection, document: JobDocument) -> None:
        self._connection = connection
        self._document = document

    @property
    def document(self) -> JobDocument:
        return self._document

    @property
    def path(self) -> str:
        return f"/api/jobs/{quote(self.id, safe='')}"

    async def refresh(self) -> "AsyncJob":
        return self._told(await self._connection.get(self.path))

    def updates(self, *, timeout: float | None = None) -> AsyncGenerator[Progress, None]:
        """Its progress until it has ended."""
        return updates(
            self._connection, self.path, self, concerns=lambda event: True, timeout=timeout
        )

    async def wait(
        self, *, progress: bool | Tell = False, timeout: float | None = None
    ) -> "AsyncJob":
        """Wait until it has ended, however that is; `WaitTimeout` if it takes longer."""
        with meter(progress, self.label) as tell:
            async for update in self.updates(timeout=timeout):
                tell(update)
        return self

    async def result(self, *, timeout: float | None = None) -> Results:
        """Its results, once it has completed; else `JobFailed` or `JobCancelled`."""
        if not self.ended:
            await self.wait(timeout=timeout)
        elif self.status == "completed" and self.document.results is None:
            await self.refresh()  # lists leave results out
        if self.status == "completed":
            return Results.model_validate(self.document.results or {})
        raise failure_of(self.document)

    async def cancel(self) -> "AsyncJob":
        return await self._asked("cancel")

    async def restart(self) -> "AsyncJob":
        """Run it again. Not repeated after a broken connection: it may have ended once more."""
        return await self._asked("restart", safe=False)

    async def archive(self) -> "AsyncJob":
        return await self._asked("archive")

    async def unarchive(self) -> "AsyncJob":
        return await self._asked("unarchive")

    async def delete(self) -> None:
        """Delete it and its files; it must have ended."""
        await self._connection.delete(self.path)

    async def download(self, name: str, to: str | os.PathLike[str] | None = None) -> Path:
        """A file of the job, by its name or as its results name it; gives where it was put."""
        return await download(self._connection, path_of(self.id, name), target_of(to, name))

    async def read(self, name: str) -> bytes:
        """The content of a file of the job."""
        content = io.BytesIO()
        await copy(self._connection, path_of(self.id, name), content)
        return content.getvalue()

    async def download_archive(self, to: str | os.PathLike[str] | None = None) -> Path:
        """The ZIP with everything, when the job has ended."""
        if not self.ended:
            await self.wait()
        target = target_of(to, f"{self.id}.zip")
        return await download(self._connection, f"{self.path}/download-archive", target)

    async def _asked(self, verb: str, *, safe: bool = True) -> "AsyncJob":
        answer = await self._connection.post(f"{self.path}/{verb}", safe=safe)
        return self._told(answer["data"])

    def _told(self, document: Any) -> "AsyncJob":
        self._document = JobDocument.model_validate(document)
        return self


def failure_of(job: JobDocument) -> JobFailed:
    error = job.error or ErrorDocument(code="INTERNAL_ERROR", message=f"The job is {job.status}")
    kind = JobCancelled if job.status == "cancelled" else JobFailed
    return kind(job.job_id, error.code, error.message, error.details)
