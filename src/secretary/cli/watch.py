"""`secretary jobs watch` and `batches watch`: what runs, live."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Annotated

import typer

from ..core.errors import NotFound
from .backend import FINAL, OPEN, Advance, Backend, Document, JobFilter, Status
from .completion import complete_job_type
from .options import AsJson, Target, somewhere
from .output import ExitCode, print_json, print_json_line, say
from .progress_bar import gist, meter

Show = Callable[[Sequence[Document]], None]


def as_lines() -> Show:
    told: dict[str, object] = {}

    def show(jobs: Sequence[Document]) -> None:
        for job in jobs:
            advance = Advance.of(job)
            now = (job["status"], gist(advance))
            if told.get(job["job_id"]) != now:
                told[job["job_id"]] = now
                say(_line(job, advance))

    return show


def as_documents() -> Show:
    told: dict[str, object] = {}

    def show(jobs: Sequence[Document]) -> None:
        for job in jobs:
            now = (job["status"], job["progress"])
            if told.get(job["job_id"]) != now:
                told[job["job_id"]] = now
                print_json_line(job)

    return show


def what_of(job: Document, advance: Advance) -> str:
    """What a job is at, or how it ended."""
    if job["error"] and job["status"] in FINAL:
        return f"{job['error']['code']}: {job['error']['message']}"
    return "" if job["status"] in FINAL else advance.text


def _line(job: Document, advance: Advance) -> str:
    told = (
        f"{datetime.now():%H:%M:%S}",
        job["job_id"],
        job["job_type"],
        job["status"],
        f"{advance.percent} %",
        what_of(job, advance),
    )
    return " ".join(told).rstrip()


LOOK_EVERY = 1.0
#: As many as can be taken in at a glance.
MOST_SHOWN = 30
ENDED_SHOWN = 5


def add_jobs_to(app: typer.Typer) -> None:
    app.command("watch")(watch_jobs)


def add_batches_to(app: typer.Typer) -> None:
    app.command("watch")(watch_batch)


@somewhere
def watch_jobs(
    where: Target,
    job_ids: Annotated[list[str] | None, typer.Argument(metavar="[JOB_ID]...")] = None,
    job_type: Annotated[
        str | None, typer.Option("--type", autocompletion=complete_job_type)
    ] = None,
    batch: Annotated[str | None, typer.Option(help="A batch id")] = None,
    user: Annotated[str | None, typer.Option(help="Whose jobs")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what waits and runs until Ctrl-C; or these jobs until they have ended, and then the
    exit code is 0 if all completed, else 1."""
    wanted = JobFilter(job_type=job_type, batch_id=batch, user_id=user)

    async def work(place: Backend) -> list[Document]:
        with _board(as_json=as_json) as show:
            if job_ids:
                return await _until_ended(place, job_ids, show)
            return await _for_ever(place, wanted, show)

    if any(job["status"] != Status.COMPLETED for job in where.work(work)):
        raise typer.Exit(ExitCode.FAILED)


@somewhere
def watch_batch(where: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Show how far a batch is until its jobs have ended; the exit code is 0 if all completed."""

    async def work(place: Backend) -> Document:
        with meter(lines=True) as show, show.job(batch_id) as tell:
            while True:
                batch = await place.batch(batch_id)
                tell(_advance(batch))
                if not batch["pending_jobs"] + batch["processing_jobs"]:
                    return batch
                await asyncio.sleep(LOOK_EVERY)

    batch = where.work(work)
    if as_json:
        print_json(batch)
    else:
        from .tables import print_batch

        print_batch(batch)
    if batch["completed_jobs"] != batch["total_jobs"]:
        raise typer.Exit(ExitCode.FAILED)


async def _until_ended(place: Backend, job_ids: Sequence[str], show: Show) -> list[Document]:
    jobs: dict[str, Document] = {}
    while True:
        for job_id in job_ids:
            if job_id not in jobs or jobs[job_id]["status"] not in FINAL:
                jobs[job_id] = await place.job(job_id)
        show(list(jobs.values()))
        if all(job["status"] in FINAL for job in jobs.values()):
            return list(jobs.values())
        await asyncio.sleep(LOOK_EVERY)


async def _for_ever(place: Backend, wanted: JobFilter, show: Show) -> list[Document]:
    """Jobs that go from the list have ended, or have too many others before them."""
    ended: deque[Document] = deque(maxlen=ENDED_SHOWN)
    before: dict[str, Document] = {}
    while True:
        listed = await _open_jobs(place, wanted)
        now = {job["job_id"]: job for job in listed}
        gone = [await _looked_up(place, job) for name, job in before.items() if name not in now]
        ended.extend(job for job in gone if job["status"] in FINAL)
        show([*ended, *listed])
        before = now
        await asyncio.sleep(LOOK_EVERY)


async def _open_jobs(place: Backend, wanted: JobFilter) -> list[Document]:
    """First those that run: however many wait, they must be seen."""
    found: list[Document] = []
    for status in OPEN:
        if room := MOST_SHOWN - len(found):
            page = await place.jobs(replace(wanted, status=(status,), limit=room))
            found += reversed(page.items)
    return found


async def _looked_up(place: Backend, job: Document) -> Document:
    try:
        return await place.job(job["job_id"])
    except NotFound:  # deleted meanwhile
        return job


@contextmanager
def _board(*, as_json: bool) -> Iterator[Show]:
    if as_json:
        yield as_documents()
    elif not sys.stdout.isatty():
        yield as_lines()
    else:
        from .live_table import table

        with table() as show:
            yield show


def _advance(batch: Document) -> Advance:
    ended = sum(batch[f"{status}_jobs"] for status in FINAL)
    total = batch["total_jobs"]
    failed = f", {batch['failed_jobs']} failed" if batch["failed_jobs"] else ""
    paused = "" if batch["isActive"] else ", paused"
    text = f"{ended} of {total} jobs have ended{failed}, {batch['processing_jobs']} run{paused}"
    return Advance(100 * ended // total if total else 100, text)
