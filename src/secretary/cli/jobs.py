"""`secretary jobs …`: look at jobs and change them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar

import typer

from ..errors import Conflict, NotFound, StoreError
from . import job_log, job_result, watch
from .completion import complete_job_type
from .options import AsJson, Where, somewhere
from .output import complain, print_json, say
from .place import Document, JobFilter, JobVerb, Place, Status

T = TypeVar("T")

app = typer.Typer(help="Look at jobs and change them.", no_args_is_help=True)

JobIds = Annotated[list[str], typer.Argument(metavar="JOB_ID...")]


@app.command("list")
@somewhere
def list_jobs(
    where: Where,
    status: Annotated[list[Status] | None, typer.Option(help="May be given twice")] = None,
    job_type: Annotated[
        str | None, typer.Option("--type", autocompletion=complete_job_type)
    ] = None,
    batch: Annotated[str | None, typer.Option(help="A batch id")] = None,
    user: Annotated[str | None, typer.Option(help="Whose jobs")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on behind an earlier list")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Archived jobs too")] = False,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    wanted = JobFilter(tuple(status or ()), job_type, batch, user, everything, limit, cursor)
    page = where.work(lambda place: place.jobs(wanted))
    if as_json:
        print_json({"jobs": page.items, "next_cursor": page.next_cursor})
        return
    from .tables import print_jobs

    print_jobs(page.items)
    if page.next_cursor:
        complain(f"There are more: --cursor {page.next_cursor}")


@app.command()
@somewhere
def show(where: Where, job_id: str, as_json: AsJson = False) -> None:
    """Show one job with its parameters, results and error."""
    job = where.work(lambda place: place.job(job_id))
    if as_json:
        print_json(job)
    else:
        from .tables import print_job

        print_job(job)


watch.add_jobs_to(app)
job_log.add_to(app)
job_result.add_to(app)


@app.command()
@somewhere
def cancel(where: Where, job_ids: JobIds, as_json: AsJson = False) -> None:
    """Cancel jobs: waiting ones at once, running ones within two seconds."""
    _change(where, job_ids, "cancel", as_json=as_json)


@app.command()
@somewhere
def restart(where: Where, job_ids: JobIds, as_json: AsJson = False) -> None:
    """Run ended jobs again; their results and errors are cleared."""
    _change(where, job_ids, "restart", as_json=as_json)


@app.command()
@somewhere
def archive(where: Where, job_ids: JobIds, as_json: AsJson = False) -> None:
    """Hide jobs from lists; nothing is deleted."""
    _change(where, job_ids, "archive", as_json=as_json)


@app.command()
@somewhere
def unarchive(where: Where, job_ids: JobIds, as_json: AsJson = False) -> None:
    """Show jobs in lists again."""
    _change(where, job_ids, "unarchive", as_json=as_json)


@app.command()
@somewhere
def delete(where: Where, job_ids: JobIds, as_json: AsJson = False) -> None:
    """Delete ended jobs and their files."""

    async def remove(place: Place, job_id: str) -> str:
        await place.delete(job_id)
        return job_id

    deleted, errors = where.work(lambda place: _each(place, job_ids, remove))
    if as_json:
        print_json({"job_ids": deleted})
    else:
        for job_id in deleted:
            say(f"{job_id} is deleted")
    _complain_of(errors)


def _change(where: Where, job_ids: Sequence[str], verb: JobVerb, *, as_json: bool) -> None:
    async def change(place: Place, job_id: str) -> Document:
        return await place.change(job_id, verb)

    jobs, errors = where.work(lambda place: _each(place, job_ids, change))
    if as_json:
        print_json({"jobs": [_without_big(job) for job in jobs]})
    else:
        for job in jobs:
            say(f"{job['job_id']} {_became(job, verb)}")
    _complain_of(errors)


async def _each(
    place: Place, job_ids: Sequence[str], change: Callable[[Place, str], Awaitable[T]]
) -> tuple[list[T], list[StoreError]]:
    """One job that cannot be changed does not keep the others from it."""
    changed: list[T] = []
    errors: list[StoreError] = []
    for job_id in job_ids:
        try:
            changed.append(await change(place, job_id))
        except (NotFound, Conflict) as error:
            errors.append(error)
    return changed, errors


def _complain_of(errors: Sequence[StoreError]) -> None:
    for error in errors[:-1]:
        complain(str(error))
    if errors:
        raise errors[-1]


def _became(job: Document, verb: JobVerb) -> str:
    if verb == "archive":
        return "is archived"
    if verb == "unarchive":
        return "is archived no longer"
    stops = job.get("cancel_requested") and job["status"] == Status.PROCESSING
    return "will be cancelled" if stops else f"is {job['status']}"


def _without_big(job: Document) -> Document:
    return {name: value for name, value in job.items() if name not in ("results", "logs")}
