"""Custom handlers that replace built-in ones, in both forms."""

from pathlib import Path
from typing import Any

from secretary import JobContext, Registry, handles
from secretary.core.job import ResourceCalculator
from secretary.jobs.handler import AnyParameters


async def handle_pdf_job(job: Any, repo: Any, resource_calculator: ResourceCalculator) -> None:
    """The form of the previous service: it opens `file_path` itself."""
    parameters = job.parameters
    repo.add_log_entry(job.job_id, "info", f"reading {parameters.filename}")
    results = {"extracted_text": f"{parameters.extraction_method} of {parameters.url}"}
    if parameters.extra.get("file_path"):
        content = Path(parameters.file_path).read_bytes()
        results = {"extracted_text": f"{parameters.extraction_method}: {len(content)} bytes"}
    repo.update_job_status(job.job_id, "completed", results=results)


@handles("pdf")
async def count_bytes(ctx: JobContext[AnyParameters]) -> dict[str, Any]:
    source = await ctx.source()
    return {"extracted_text": f"{source.name} has {source.path.stat().st_size} bytes"}


def register_legacy(registry: Registry) -> None:
    registry.register("pdf", handle_pdf_job)


def register_current(registry: Registry) -> None:
    registry.add(count_bytes)
