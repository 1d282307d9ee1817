"""The asynchronous client. `sync` wraps it for programs without an event loop."""

import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from .connection import Connection, Retries
from .jobs import AsyncBatch, AsyncJob, find_jobs
from .models import BatchDocument, Event, Health, JobDocument, JobType
from .requests import Source, Task, submit, submit_batch

Archived = Literal["false", "true", "all"]


class AsyncClient:
    """A client of one service. `api_key` may be omitted on the same machine; `user` is the user on
    whose behalf requests are made."""

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
            url, api_key=api_key, user=user, timeout=timeout, retries=retries, verify=verify
        )

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connection.close()

    async def submit(
        self,
        /,
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
        retention_days: float | None = None,
        idempotency_key: str | None = None,
        **parameters: Any,
    ) -> AsyncJob:
        """Submit a job. `file` is a path, bytes or an open file; further keyword arguments are
        parameters of the job type. Retries never create a second job."""
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
            retention_days=retention_days,
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
        """Iterate over jobs, newest first. Separate several states by commas. Results and logs
        are omitted, unless `include="results,logs"`."""
        return find_jobs(
            self._connection,
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

    async def batch(
        self,
        jobs: Iterable[Task | Mapping[str, Any]],
        *,
        name: str | None = None,
        webhook: Mapping[str, Any] | str | None = None,
        active: bool = True,
        retention_days: float | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncBatch:
        """Submit several jobs, all or none of them. The `file` of a task is a path, bytes or an
        open file."""
        webhook = {"url": webhook} if isinstance(webhook, str) else webhook
        options: dict[str, Any] = {"batch_name": name, "webhook": webhook, "isActive": active}
        options |= {} if retention_days is None else {"retention_days": retention_days}
        answer = await submit_batch(self._connection, jobs, options, key=idempotency_key)
        data = answer["data"]
        batch = data["batch"] | {"warnings": data.get("warnings", [])}
        document = BatchDocument.model_validate(batch)
        return AsyncBatch(self._connection, document, tuple(data["job_ids"]))

    async def find_batch(self, batch_id: str) -> AsyncBatch:
        return await AsyncBatch(self._connection, BatchDocument(batch_id=batch_id)).refresh()

    def batches(
        self, *, user_id: str | None = None, archived: Archived | None = None, page_size: int = 100
    ) -> AsyncGenerator[AsyncBatch, None]:
        """Iterate over batches, newest first."""
        documents = self._connection.paginate(
            "batches", user_id=user_id, archived=archived, limit=page_size
        )
        return (
            AsyncBatch(self._connection, BatchDocument.model_validate(document))
            async for document in documents
        )

    def events(self, *, since: str | None = None) -> AsyncGenerator[Event, None]:
        """Iterate over changes of all visible jobs and batches, indefinitely: first the unfinished
        jobs, or everything after the event with the id `since`. Reconnects where it stopped; an
        event may be delivered twice."""
        return self._connection.events("/api/events", since=since)

    async def job_types(self) -> list[JobType]:
        answer = await self._connection.get("/api/job-types")
        return [JobType.model_validate(document) for document in answer["job_types"]]

    async def health(self) -> Health:
        """Return the health of the service, without retries."""
        return Health.model_validate(await self._connection.get("/api/health", attempts=1))
