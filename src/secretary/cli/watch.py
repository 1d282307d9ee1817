"""`secretary jobs watch` and `secretary batches watch`: live progress."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Annotated

import typer

from ..core.errors import NotFound
from .backend import FINAL, Backend, Document, JobProgress, ListFilter, Status
from .options import AsJson, BatchFilter, JobTypeFilter, Target, UserFilter, with_target
from .output import (
    ExitCode,
    ShowJobs,
    activity,
    console,
    echo,
    job_table,
    line_key,
    print_batch,
    print_json,
    print_json_line,
    progress_display,
)

POLL_SECONDS = 1.0
#: How many unfinished and how many recently finished jobs are shown.
MAX_ACTIVE, MAX_FINISHED = 30, 5


@with_target
def watch_jobs(
    target: Target,
    job_ids: Annotated[list[str] | None, typer.Argument(metavar="[JOB_ID]...")] = None,
    job_type: JobTypeFilter = None,
    batch: BatchFilter = None,
    user: UserFilter = None,
    as_json: AsJson = False,
) -> None:
    """Show pending and running jobs until Ctrl-C, or the given jobs until they finish. Then exit
    with 0 if all completed, else with 1."""
    filters = ListFilter(job_type=job_type, batch_id=batch, user_id=user)

    async def work(backend: Backend) -> list[Document]:
        with _job_display(as_json=as_json) as show:
            if job_ids:
                return await _watch_until_finished(backend, job_ids, show)
            return await _watch_forever(backend, filters, show)

    if any(job["status"] != Status.COMPLETED for job in target.run(work)):
        raise typer.Exit(ExitCode.FAILED)


@with_target
def watch_batch(target: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Show the progress of a batch until all its jobs finish. Exit with 0 if all completed."""

    async def work(backend: Backend) -> Document:
        with progress_display(lines=True) as display, display.job(batch_id) as on_progress:
            while True:
                batch = await backend.batch(batch_id)
                on_progress(_batch_progress(batch))
                if not batch["pending_jobs"] + batch["processing_jobs"]:
                    return batch
                await asyncio.sleep(POLL_SECONDS)

    batch = target.run(work)
    print_json(batch) if as_json else print_batch(batch)
    if batch["completed_jobs"] != batch["total_jobs"]:
        raise typer.Exit(ExitCode.FAILED)


async def _watch_until_finished(
    backend: Backend, job_ids: Sequence[str], show: ShowJobs
) -> list[Document]:
    jobs: dict[str, Document] = {}
    while True:
        for job_id in job_ids:
            if job_id not in jobs or jobs[job_id]["status"] not in FINAL:
                jobs[job_id] = await backend.job(job_id)
        show(list(jobs.values()))
        if all(job["status"] in FINAL for job in jobs.values()):
            return list(jobs.values())
        await asyncio.sleep(POLL_SECONDS)


async def _watch_forever(backend: Backend, filters: ListFilter, show: ShowJobs) -> list[Document]:
    """A job that leaves the list has finished, or was pushed out by others."""
    finished: deque[Document] = deque(maxlen=MAX_FINISHED)
    previous: dict[str, Document] = {}
    while True:
        active: list[Document] = []
        # Running jobs first, so that a long queue does not hide them.
        for status in (Status.PROCESSING, Status.PENDING):
            if limit := MAX_ACTIVE - len(active):
                page = await backend.jobs(replace(filters, status=(status,), limit=limit))
                active += reversed(page.items)
        current = {job["job_id"]: job for job in active}
        for job_id in [key for key in previous if key not in current]:
            with suppress(NotFound):  # deleted meanwhile
                job = await backend.job(job_id)
                finished.extend([job] if job["status"] in FINAL else [])
        show([*finished, *active])
        previous = current
        await asyncio.sleep(POLL_SECONDS)


@contextmanager
def _job_display(*, as_json: bool) -> Iterator[ShowJobs]:
    if as_json:
        yield _on_change(lambda job: (job["status"], job["progress"]), print_json_line)
    elif not sys.stdout.isatty():
        yield _on_change(lambda job: (job["status"], line_key(JobProgress.of(job))), _print_line)
    else:
        from rich.live import Live

        with Live(console=console(), auto_refresh=False) as live:
            yield lambda jobs: live.update(job_table(jobs, live.console.width), refresh=True)


def _on_change(
    key: Callable[[Document], object], print_job: Callable[[Document], None]
) -> ShowJobs:
    """Print a job whenever its key changes."""
    printed: dict[str, object] = {}

    def show(jobs: Sequence[Document]) -> None:
        for job in jobs:
            if printed.get(job["job_id"]) != (current := key(job)):
                printed[job["job_id"]] = current
                print_job(job)

    return show


def _print_line(job: Document) -> None:
    percent = f"{JobProgress.of(job).percent} %"
    parts = (job["job_id"], job["job_type"], job["status"], percent, activity(job))
    echo(f"{datetime.now():%H:%M:%S} {' '.join(parts)}".rstrip())


def _batch_progress(batch: Document) -> JobProgress:
    finished, total = sum(batch[f"{status}_jobs"] for status in FINAL), batch["total_jobs"]
    failed = f", {batch['failed_jobs']} failed" if batch["failed_jobs"] else ""
    paused = "" if batch["isActive"] else ", paused"
    text = f"{finished} of {total} jobs have ended{failed}, {batch['processing_jobs']} run{paused}"
    return JobProgress(100 * finished // total if total else 100, text)
