"""A batch of the service: its state, progress and jobs."""

from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

from .connection import Connection
from .jobs import AsyncJob, OnProgress, progress_bar, progress_updates
from .models import FINAL, BatchDocument, JobDocument, Progress, Status


class BatchView:
    """The last known state of a batch; `refresh` updates it."""

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
        finished = batch.completed_jobs + batch.failed_jobs + batch.cancelled_jobs
        percent = 100 * finished // batch.total_jobs if batch.total_jobs else 100
        message = f"{finished} of {batch.total_jobs} jobs have ended"
        return Progress(step=batch.status, percent=percent, message=message)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status} {self.progress.percent} %>"


class AsyncBatch(BatchView):
    def __init__(
        self, connection: Connection, document: BatchDocument, job_ids: tuple[str, ...] = ()
    ) -> None:
        self._connection = connection
        self._document = document
        #: The jobs in the order of submission; only set on a batch that this client submitted.
        self.job_ids = job_ids

    @property
    def document(self) -> BatchDocument:
        return self._document

    @property
    def path(self) -> str:
        return f"/api/batches/{quote(self.id, safe='')}"

    async def refresh(self) -> "AsyncBatch":
        return self._update(await self._connection.get(self.path))

    def updates(self, *, timeout: float | None = None) -> AsyncGenerator[Progress, None]:
        """Yield progress updates until all jobs have finished."""
        return progress_updates(
            self._connection,
            self.path,
            self,
            matches=lambda event: event.batch_id == self.id,
            timeout=timeout,
        )

    async def wait(
        self, *, progress: bool | OnProgress = False, timeout: float | None = None
    ) -> "AsyncBatch":
        """Wait until all jobs have finished, successfully or not."""
        with progress_bar(progress, self.name or self.id) as on_progress:
            async for update in self.updates(timeout=timeout):
                on_progress(update)
        return self

    def jobs(self, *, status: str | None = None) -> AsyncGenerator[AsyncJob, None]:
        """Iterate over the jobs of the batch, newest first."""
        documents = paginate(
            self._connection, "jobs", batch_id=self.id, status=status, archived="all", limit=200
        )
        return (
            AsyncJob(self._connection, JobDocument.model_validate(document))
            async for document in documents
        )

    async def cancel(self) -> "AsyncBatch":
        """Cancel all unfinished jobs."""
        return await self._post("cancel")

    async def pause(self) -> "AsyncBatch":
        """Start no further jobs until `resume` is called."""
        return await self._post("toggle-active", {"isActive": False})

    async def resume(self) -> "AsyncBatch":
        return await self._post("toggle-active", {"isActive": True})

    async def restart_failed(self) -> "AsyncBatch":
        return await self._post("restart-failed", safe=False)

    async def archive(self) -> "AsyncBatch":
        return await self._post("archive")

    async def unarchive(self) -> "AsyncBatch":
        return await self._post("unarchive")

    async def delete(self) -> None:
        """Delete a finished batch, its jobs and their files."""
        await self._connection.delete(self.path)

    async def _post(self, action: str, body: Any = None, *, safe: bool = True) -> "AsyncBatch":
        answer = await self._connection.post(f"{self.path}/{action}", body, safe=safe)
        return self._update(answer["data"])

    def _update(self, document: Any) -> "AsyncBatch":
        self._document = BatchDocument.model_validate(document)
        return self


async def paginate(
    connection: Connection, collection: str, **query: Any
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield all matching documents, fetching each page when it is needed."""
    cursor: str | None = None
    while True:
        page = await connection.get(f"/api/{collection}", cursor=cursor, **query)
        for document in page[collection]:
            yield document
        cursor = page["next_cursor"]
        if cursor is None:
            return
