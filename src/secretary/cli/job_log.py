"""`secretary jobs logs` and `jobs tail`: what a job has logged, and goes on to log."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from .exit_codes import ExitCode
from .options import AsJson, Where, somewhere
from .output import complain, print_json_line
from .place import FINAL, Document, Place, Status

FOLLOW_EVERY = 0.5

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended")]


def add_to(app: typer.Typer) -> None:
    app.command()(logs)
    app.command()(tail)


@somewhere
def logs(where: Where, job_id: str, follow: Follow = False, as_json: AsJson = False) -> None:
    """Show what a job has logged."""
    where.work(lambda place: _tell(place, job_id, follow=follow, as_json=as_json))


@somewhere
def tail(
    where: Where,
    job_id: str,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many at first")] = 10,
    follow: Follow = False,
    as_json: AsJson = False,
) -> None:
    """Show the last that a job has logged; with -f the exit code is 1 if it did not complete."""
    job = where.work(lambda place: _tell(place, job_id, lines, follow=follow, as_json=as_json))
    if not follow:
        return
    complain(f"{job_id} is {job['status']}{_why(job)}")
    if job["status"] != Status.COMPLETED:
        raise typer.Exit(ExitCode.FAILED)


async def _tell(
    place: Place, job_id: str, lines: int | None = None, *, follow: bool, as_json: bool
) -> Document:
    """The job as it was when its log was last read."""
    job = await place.job(job_id)
    first = job["logs"]
    _print(first if lines is None else first[len(first) - min(lines, len(first)) :], as_json)
    while follow and job["status"] not in FINAL:
        last = job["logs"][-1] if job["logs"] else None
        await asyncio.sleep(FOLLOW_EVERY)
        job = await place.job(job_id)
        _print(_behind(last, job["logs"]), as_json)
    return job


def _print(entries: Sequence[Document], as_json: bool) -> None:
    if as_json:
        for entry in entries:
            print_json_line(entry)
    elif entries:
        from .tables import print_logs

        print_logs(entries)


def _behind(last: Document | None, entries: Sequence[Document]) -> Sequence[Document]:
    """What came after `last`; a long log loses its oldest entries, so counting does not help."""
    for position in range(len(entries) - 1, -1, -1):
        if entries[position] == last:
            return entries[position + 1 :]
    return entries


def _why(job: Document) -> str:
    return f": {job['error']['message']} ({job['error']['code']})" if job["error"] else ""
