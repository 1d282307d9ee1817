"""`secretary jobs …`: look at jobs and change them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer

from ..desk import Desk
from ..errors import Conflict, NotFound, StoreError
from ..job import FINAL, Job, JobStatus, LogEntry
from ..store import JobQuery
from .options import AsJson, ConfigFile, DataDir, at_desk
from .output import complain, print_job, print_jobs, print_json, print_logs, say

FOLLOW_EVERY = 0.5
BIG = frozenset({"results", "logs"})

app = typer.Typer(help="Look at jobs and change them.", no_args_is_help=True)

JobIds = Annotated[list[str], typer.Argument(metavar="JOB_ID...")]


@app.command("list")
def list_jobs(
    status: Annotated[list[JobStatus] | None, typer.Option(help="May be given twice")] = None,
    job_type: Annotated[str | None, typer.Option("--type")] = None,
    batch: Annotated[str | None, typer.Option(help="A batch id")] = None,
    user: Annotated[str | None, typer.Option(help="Whose jobs")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on behind an earlier list")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Archived jobs too")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> None:
    """List jobs, the newest first."""
    query = JobQuery(
        status=frozenset(status) if status else None,
        job_type=job_type,
        batch_id=batch,
        user_id=user,
        archived=None if everything else False,
        limit=limit,
        cursor=cursor,
    )
    page = at_desk(config, data_dir, lambda desk: desk.jobs(query))
    if as_json:
        documents = [job.document(without=BIG) for job in page.items]
        print_json({"jobs": documents, "next_cursor": page.next_cursor})
        return
    print_jobs(page.items)
    if page.next_cursor:
        complain(f"There are more: --cursor {page.next_cursor}")


@app.command()
def show(
    job_id: str, as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None
) -> None:
    """Show one job with its parameters, results and error."""
    job = at_desk(config, data_dir, lambda desk: desk.job(job_id))
    if as_json:
        print_json(job.document())
    else:
        print_job(job)


@app.command()
def cancel(
    job_ids: JobIds, as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None
) -> None:
    """Cancel jobs: waiting ones at once, running ones within two seconds."""
    _tell(at_desk(config, data_dir, lambda desk: _each(job_ids, desk.cancel)), as_json=as_json)


@app.command()
def restart(
    job_ids: JobIds, as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None
) -> None:
    """Run ended jobs again; their results and errors are cleared."""
    _tell(at_desk(config, data_dir, lambda desk: _each(job_ids, desk.restart)), as_json=as_json)


@app.command()
def logs(
    job_id: str,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job has ended")
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> None:
    """Show what a job has logged."""

    def tell(entries: Sequence[LogEntry]) -> None:
        if as_json:
            for entry in entries:
                say(entry.model_dump_json())
        else:
            print_logs(entries)

    async def work(desk: Desk) -> None:
        last: LogEntry | None = None
        while True:
            job = await desk.job(job_id)
            tell(_behind(last, job.logs))
            last = job.logs[-1] if job.logs else None
            if not follow or job.status in FINAL:
                return
            await asyncio.sleep(FOLLOW_EVERY)

    at_desk(config, data_dir, work)


Changed = tuple[list[Job], list[StoreError]]


async def _each(job_ids: Sequence[str], change: Callable[[str], Awaitable[Job]]) -> Changed:
    """One job that cannot be changed does not keep the others from it."""
    jobs: list[Job] = []
    errors: list[StoreError] = []
    for job_id in job_ids:
        try:
            jobs.append(await change(job_id))
        except (NotFound, Conflict) as error:
            errors.append(error)
    return jobs, errors


def _tell(changed: Changed, *, as_json: bool) -> None:
    jobs, errors = changed
    if as_json:
        print_json({"jobs": [job.document(without=BIG) for job in jobs]})
    else:
        for job in jobs:
            stops = job.cancel_requested and job.status == JobStatus.PROCESSING
            say(f"{job.job_id} {'will be cancelled' if stops else f'is {job.status}'}")
    for error in errors[:-1]:
        complain(str(error))
    if errors:
        raise errors[-1]


def _behind(last: LogEntry | None, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
    """What came after `last`; a long log loses its oldest entries, so counting does not help."""
    for position in range(len(entries) - 1, -1, -1):
        if entries[position] == last:
            return entries[position + 1 :]
    return entries
