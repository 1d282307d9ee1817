"""Runs user-supplied handlers in sandbox processes, with the same `JobContext` as in process."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from ..core.job import Job, LogEntry, Progress, ResourceCalculator
from ..jobs.handler import Handler, JobContext, Registry, Results, results_as_json, run_in_thread
from ..llm import Endpoints, Llm, LlmOptions
from ..llm.templates import Library
from .sandbox import Access, Sandbox
from .sandbox.child_main import send

_Message = tuple[Literal["progress"], Progress] | tuple[Literal["log"], LogEntry]


async def run_isolated(
    handler: Handler[Any], ctx: JobContext[Any], sandbox: Sandbox, access: Access
) -> Results:
    """Run a handler in a sandbox process instead of calling `handler.run`."""

    def deliver(message: _Message) -> None:
        if isinstance(report := message[1], Progress):
            ctx.reporter.progress(report)
        else:
            ctx.reporter.log(report)

    assert handler.origin is not None
    results, used = await sandbox.run(
        run_handler,
        handler.origin,
        ctx.job.model_dump_json(by_alias=True),  # ten times faster than pickling the model
        ctx.llm.options,
        ctx.templates.directory,
        functools.partial(
            JobContext,
            attempt_directory=ctx.attempt_directory,
            sources=ctx.sources,
            cache=ctx.cache,
            documents=ctx.documents,
            media=ctx.media,
        ),
        on_message=deliver,
        messages=_Message,
        access=access,
        resources=ctx.resources,
    )
    for resource, amount in used.items():
        ctx.resources.add(resource, amount)
    return results


class _RemoteReporter:
    """A `Reporter` that sends progress and logs to the worker."""

    def progress(self, progress: Progress) -> None:
        send(("progress", progress))

    def log(self, entry: LogEntry) -> None:
        send(("log", entry))


@functools.cache
def _registry(origin: str) -> Registry:
    registry = Registry()
    registry.load(origin)
    return registry


async def run_handler(
    origin: str,
    job_document: str,
    llm: LlmOptions,
    templates: Path | None,
    context: Callable[..., JobContext[Any]],
) -> tuple[dict[str, Any] | None, dict[str, float]]:
    """Runs in the sandbox process: load the handler and call it."""
    job = Job.model_validate_json(job_document)
    handler = _registry(origin)[job.job_type]
    resources = ResourceCalculator()
    endpoints = Endpoints(llm)
    ctx = context(
        job=job,
        parameters=handler.parse(job.parameters),
        resources=resources,
        reporter=_RemoteReporter(),
        run=run_in_thread,
        llm=Llm(endpoints, resources),
        templates=Library(templates),
    )
    try:
        results = results_as_json(await handler.run(ctx))
    finally:
        await endpoints.close()
    return results, dict(resources.used)
