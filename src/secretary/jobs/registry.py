"""Which handler runs which job type, including handlers in the legacy form."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from types import ModuleType
from typing import Any

from ..core.errors import InvalidSettings, JobFailed, UnknownJobType
from ..core.job import Job, JobError, JobStatus, LogEntry, LogLevel, Progress, ResourceCalculator
from ..core.parameters import flatten_parameters
from .handler import AnyParameters, Handler, JobContext, Results

LegacyHandler = Callable[[Any, Any, ResourceCalculator], Awaitable[None]]


class LegacyParameters(dict[str, Any]):
    """Parameters as legacy handlers read them: by key, by attribute, or under `extra`."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)

    @property
    def extra(self) -> dict[str, Any]:
        extra = self.get("extra")
        return {**flatten_parameters(self), **(extra if isinstance(extra, dict) else {})}


class LegacyRepo:
    """The repository that a legacy handler calls, bound to the job it runs.

    It records progress, results and error; the executor alone sets the status.
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
    job_error = JobError.model_validate(
        error or {"code": "INTERNAL_ERROR", "message": "The handler failed"}
    )
    failure = JobFailed(job_error.message, **(job_error.details or {}))
    failure.code = job_error.code
    return failure


def adapt_legacy_handler(
    handler: LegacyHandler,
) -> Callable[[JobContext[AnyParameters]], Awaitable[Results]]:
    async def run(ctx: JobContext[AnyParameters]) -> Results:
        repo = LegacyRepo(ctx)
        job = ctx.job.model_copy(update={"parameters": LegacyParameters(ctx.job.parameters)})
        if asyncio.iscoroutinefunction(handler):
            await handler(job, repo, ctx.resources)
        else:  # not declared `async`, but returns an awaitable
            await (await asyncio.to_thread(handler, job, repo, ctx.resources))
        if repo.failure is not None:
            raise repo.failure
        return repo.results

    return run


class Registry:
    """The handlers one process offers, by job type."""

    def __init__(self, handlers: Iterable[Handler[Any]] = ()) -> None:
        self._handlers: dict[str, Handler[Any]] = {}
        self._origin: str | None = None
        for handler in handlers:
            self.add(handler)

    def add(self, handler: Handler[Any]) -> None:
        if handler.job_type in self._handlers:
            raise InvalidSettings(f"The job type {handler.job_type!r} already has a handler")
        self._handlers[handler.job_type] = replace(handler, origin=self._origin)

    def register(
        self, job_type: str, handler: LegacyHandler, *, timeout: timedelta | None = None
    ) -> None:
        """Add a handler written as `async handler(job, repo, resource_calculator)`."""
        self.add(Handler(job_type, AnyParameters, adapt_legacy_handler(handler), timeout))

    def load(self, origin: str) -> None:
        """Load custom handlers. `module:function` is called with this registry; a `module` alone
        has a function `register`, or all handlers defined in it are added."""
        module_name, _, name = origin.partition(":")
        self._origin = origin
        try:
            module = import_module(module_name)
            handlers = [] if name or hasattr(module, "register") else _handlers_in(module)
            for handler in handlers:
                self.add(handler)
            if not handlers:
                getattr(module, name or "register")(self)
        except InvalidSettings:
            raise
        except Exception as error:  # third-party code can fail in any way
            text = f"handlers: {origin!r} cannot be loaded: {type(error).__name__}: {error}"
            raise InvalidSettings(text) from error
        finally:
            self._origin = None

    def limit_time(self, default: timedelta, by_type: Mapping[str, timedelta]) -> None:
        """Set the timeouts: `by_type` overrides those of the handlers, `default` is for handlers
        without one."""
        for job_type, handler in self._handlers.items():
            timeout = by_type.get(job_type) or handler.timeout or default
            self._handlers[job_type] = replace(handler, timeout=timeout)

    def __getitem__(self, job_type: str) -> Handler[Any]:
        try:
            return self._handlers[job_type]
        except KeyError:
            known = ", ".join(sorted(self._handlers))
            raise UnknownJobType(
                f"There is no handler for the job type {job_type!r}; there are: {known}"
            ) from None

    def __contains__(self, job_type: str) -> bool:
        return job_type in self._handlers

    @property
    def job_types(self) -> frozenset[str]:
        return frozenset(self._handlers)


def _handlers_in(module: ModuleType) -> list[Handler[Any]]:
    handlers = [value for value in vars(module).values() if isinstance(value, Handler)]
    return list({id(handler): handler for handler in handlers}.values())  # one may have two names
