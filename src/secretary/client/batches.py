"""A batch of the service, and what can be done with it."""

from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

from .connection import Connection
from .jobs import AsyncJob, Tell, meter, updates
from .models import FINAL, BatchDocument, JobDocument, Progress, Status


async def paged(
    connection: Connection, what: str, **query: Any
) -> AsyncGenerator[dict[str, Any], None]:
    """All that fit; the next page is asked for when the one before is used up."""
    cursor: str | None = None
    while True:
        page = await connection.get(f"/api/{what}", cursor=cursor, **query)
        for document in page[what]:
            yield document
        cursor = page["next_cursor"]
        if cursor is None:
            return


class BatchView:
    """What is known of a batch, since it was last asked for."""

    @property
    def document(self) -> BatchDocument:
        raise NotImplementedError

    @property
    def id(self) -> str:
        return self.document.batch_id

    @property
    def name(self) -> str:
        return self.document.batch_name

    @property
    def status(self) -> Status:
        return self.document.status

    @property
    def ended(self) -> bool:
        return self.status in FINAL

    @property
    def is_active(self) -> bool:
        return self.document.is_active

    @property
    def progress(self) -> Progress:
        batch = self.document
        ended = batch.completed_jobs + batch.failed_jobs + batch.cancelled_jobs
        percent = 100 * ended // batch.total_jobs if batch.total_jobs else 100
        message = f"{ended} of {batch.total_jobs} jobs have ended"
        return Progress(step=batch.status, percent=percent, message=message)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status} {self.progress.percent} %>"


class AsyncBatch(BatchView):
    def __init__(
        self, connection: Connection, document: BatchDocument, job_ids: tuple[str, ...] = ()
    ) -> None:
        self._connection = connection
        self._document = document
        #: In the order in which they were handed in; known of a batch that was made here.
        self.job_ids = job_ids

    @property
    def document(self) -> BatchDocument:
        return self._document

    @property
    def path(self) -> str:
        return f"/api/batches/{quote(self.id, safe='')}"

    async def refresh(self) -> "AsyncBatch":
        return self._told(await self._connection.get(self.path))

    def updates(self, *, timeout: float | None = None) -> AsyncGenerator[Progress, None]:
        return updates(
            self._connection,
            self.path,
            self,
            concerns=lambda event: event.batch_id == self.id,
            timeout=timeout,
        )

    async def wait(
        self, *, progress: bool | Tell = False, timeout: float | None = None
    ) -> "AsyncBatch":
        """Wait until all its jobs have ended, however they do."""
        with meter(progress, self.name or self.id) as tell:
            async for update in self.updates(timeout=timeout):
                tell(update)
        return self

    def jobs(self, *, status: str | None = None) -> AsyncGenerator[AsyncJob, None]:
        """Its jobs, the newest first."""
        found = paged(
            self._connection, "jobs", batch_id=self.id, status=status, archived="all", limit=200
        )
        return (AsyncJob(self._connection, JobDocument.model_validate(job)) async for job in found)

    async def cancel(self) -> "AsyncBatch":
        """Cancel all its jobs that have not ended."""
        return await self._asked("cancel")

    async def pause(self) -> "AsyncBatch":
        """None of its waiting jobs starts until `resume`."""
        return await self._asked("toggle-active", {"isActive": False})

    async def resume(self) -> "AsyncBatch":
        return await self._asked("toggle-active", {"isActive": True})

    async def restart_failed(self) -> "AsyncBatch":
        return await self._asked("restart-failed", safe=False)

    async def archive(self) -> "AsyncBatch":
        return await self._asked("archive")

    async def unarchive(self) -> "AsyncBatch":
        return await self._asked("unarchive")

    async def delete(self) -> None:
        """Delete it, its jobs and their files; it must have ended."""
        await self._connection.delete(self.path)

    async def _asked(self, verb: str, document: Any = None, *, safe: bool = True) -> "AsyncBatch":
        answer = await self._connection.post(f"{self.path}/{verb}", document, safe=safe)
        return self._told(answer["data"])

    def _told(self, document: Any) -> "AsyncBatch":
        self._document = BatchDocument.model_validate(document)
        return self
