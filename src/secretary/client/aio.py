"""The client for programs with an event loop; the other one drives it."""

import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Literal

from .batches import AsyncBatch, paged
from .connection import Connection, Retries
from .jobs import AsyncJob
from .models import BatchDocument, Event, Health, JobDocument, JobType
from .requests import Task, submit, submit_batch
from .uploads import Source

Archived = Literal["false", "true", "all"]


class AsyncClient:
    """Without `api_key` for a service on this machine; `user` is whom the requests act for."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:5000",
        *,
        api_key: str | None = None,
        user: str | None = None,
        timeout: float = 60.0,
        retries: Retries | None = None,
        verify: bool | ssl.SSLContext = True,
    ) -> None:
        self._connection = Connection(
            url,
            api_key=api_key,
            user=user,
            timeout=timeout,
            retries=retries or Retries(),
            verify=verify,
        )

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connection.close()

    async def submit(
        self,
        job_type: str,
        *,
        file: Source | None = None,
        file_name: str | None = None,
        url: str | None = None,
        webhook: Mapping[str, Any] | str | None = None,
        job_name: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        max_attempts: int | None = None,
        timeout_s: float | None = None,
        user_id: str | None = None,
        access_control: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **parameters: Any,
    ) -> AsyncJob:
        """Hand in a job. `file` is a path, bytes or an open file; all other names are parameters
        of the job type. Sent again as often as it takes, it becomes one job."""
        task = Task(
            job_type,
            parameters if url is None else {"url": url, **parameters},
            webhook=webhook,
            job_name=job_name,
            priority=priority,
            run_at=run_at,
            max_attempts=max_attempts,
            timeout_s=timeout_s,
            user_id=user_id,
            access_control=access_control,
        )
        document = await submit(
            self._connection, task, file=file, file_name=file_name, key=idempotency_key
        )
        return AsyncJob(self._connection, document)

    async def job(self, job_id: str) -> AsyncJob:
        return await AsyncJob(self._connection, JobDocument(job_id=job_id)).refresh()

    def jobs(
        self,
        *,
        status: str | None = None,
        job_type: str | None = None,
        batch_id: str | None = None,
        user_id: str | None = None,
        archived: Archived | None = None,
        q: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        include: str | None = None,
        page_size: int = 100,
    ) -> AsyncGenerator[AsyncJob, None]:
        """Jobs, the newest first; several states with commas between them. Without their results
        and logs, unless `include="results,logs"`."""
        found = paged(
            self._connection,
            "jobs",
            status=status,
            job_type=job_type,
            batch_id=batch_id,
            user_id=user_id,
            archived=archived,
            q=q,
            created_after=created_after.isoformat() if created_after else None,
            created_before=created_before.isoformat() if created_before else None,
            include=include,
            limit=page_size,
        )
        return (AsyncJob(self._connection, JobDocument.model_validate(job)) async for job in found)

    async def batch(
        self,
        jobs: Iterable[Task | Mapping[str, Any]],
        *,
        name: str | None = None,
        webhook: Mapping[str, Any] | str | None = None,
        active: bool = True,
        idempotency_key: str | None = None,
    ) -> AsyncBatch:
        """Hand in several jobs, all or none; a `file` of a task is a path, bytes or an open
        file."""
        hook = {"url": webhook} if isinstance(webhook, str) else webhook
        about = {"batch_name": name, "webhook": hook, "isActive": active}
        answer = await submit_batch(self._connection, jobs, about, key=idempotency_key)
        told = BatchDocument.model_validate(answer["data"]["batch"])
        return AsyncBatch(self._connection, told, tuple(answer["data"]["job_ids"]))

    async def find_batch(self, batch_id: str) -> AsyncBatch:
        return await AsyncBatch(self._connection, BatchDocument(batch_id=batch_id)).refresh()

    def batches(
        self,
        *,
        user_id: str | None = None,
        archived: Archived | None = None,
        page_size: int = 100,
    ) -> AsyncGenerator[AsyncBatch, None]:
        """Batches, the newest first."""
        found = paged(
            self._connection, "batches", user_id=user_id, archived=archived, limit=page_size
        )
        return (
            AsyncBatch(self._connection, BatchDocument.model_validate(batch))
            async for batch in found
        )

    def events(self, *, since: str | None = None) -> AsyncGenerator[Event, None]:
        """Changes of all jobs and batches that the caller may see, for ever: first the jobs that
        have not ended, or what changed `since` the event with that id. After a break it goes on
        where it was; an event can come twice."""
        return self._connection.events("/api/events", since=since)

    async def job_types(self) -> list[JobType]:
        found = await self._connection.get("/api/job-types")
        return [JobType.model_validate(each) for each in found["job_types"]]

    async def health(self) -> Health:
        """How the service is now; it is asked once."""
        return Health.model_validate(await self._connection.get("/api/health", attempts=1))
