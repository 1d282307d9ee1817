"""Handlers in the form of the first design: `async handler(job, repo, resource_calculator)`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .errors import JobFailed
from .handler import AnyParameters, JobContext, Results
from .job import Job, JobError, JobStatus, LogEntry, LogLevel, Progress
from .parameters import flat_parameters
from .resources import ResourceCalculator

SeedHandler = Callable[[Any, Any, ResourceCalculator], Awaitable[None]]


class SeedParameters(dict[str, Any]):
    """Parameters as those handlers read them: by key, by attribute, or under `extra`."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)

    @property
    def extra(self) -> dict[str, Any]:
        extra = self.get("extra")
        return {**flat_parameters(self), **(extra if isinstance(extra, dict) else {})}


class SeedRepo:
    """The repository calls such a handler makes, bound to the one job it runs.

    It keeps progress, results and error; the status itself is the executor's to set.
    """

    def __init__(self, ctx: JobContext[Any]) -> None:
        self._ctx = ctx
        self.results: dict[str, Any] | None = None
        self.failure: JobFailed | None = None

    def get_job(self, job_id: str) -> Job:
        return self._ctx.job

    def add_log_entry(self, job_id: str, level: LogLevel, message: str) -> bool:
        self._ctx.reporter.log(LogEntry(level=level, message=str(message)))
        return True

    def update_job_status(
        self,
        job_id: str,
        status: JobStatus | str,
        progress: Progress | Mapping[str, Any] | None = None,
        results: Mapping[str, Any] | None = None,
        error: JobError | Mapping[str, Any] | None = None,
        **_: Any,
    ) -> bool:
        if progress is not None:
            self._ctx.reporter.progress(Progress.model_validate(progress))
        if results is not None:
            self.results = {**(self.results or {}), **results}
        if error is not None or status == JobStatus.FAILED:
            self.failure = _failure(error)
        return True


def _failure(error: JobError | Mapping[str, Any] | None) -> JobFailed:
    told = JobError.model_validate(error or {"code": "INTERNAL_ERROR", "message": "It failed"})
    failure = JobFailed(told.message, **(told.details or {}))
    failure.code = told.code
    return failure


def from_seed(handler: SeedHandler) -> Callable[[JobContext[AnyParameters]], Awaitable[Results]]:
    async def run(ctx: JobContext[AnyParameters]) -> Results:
        repo = SeedRepo(ctx)
        job = ctx.job.model_copy(update={"parameters": SeedParameters(ctx.job.parameters)})
        if asyncio.iscoroutinefunction(handler):
            await handler(job, repo, ctx.resources)
        else:  # written without `async`, but returning something to wait for
            await (await asyncio.to_thread(handler, job, repo, ctx.resources))
        if repo.failure is not None:
            raise repo.failure
        return repo.results

    return run
