"""`secretary jobs …`: look at jobs and change them."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ..core.errors import Conflict, InvalidParameters, JobFailed, NotFound, StoreError
from . import watch
from .backend import FINAL, Backend, Document, JobFilter, JobVerb, Status, name_in
from .completion import complete_job_type
from .options import AsJson, Target, somewhere
from .output import ExitCode, complain, print_json, print_json_line, say

FOLLOW_EVERY = 0.5

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended")]


def add_to(app: typer.Typer) -> None:
    app.command()(logs)
    app.command()(tail)


@somewhere
def logs(where: Target, job_id: str, follow: Follow = False, as_json: AsJson = False) -> None:
    """Show what a job has logged."""
    where.work(lambda place: _tell(place, job_id, follow=follow, as_json=as_json))


@somewhere
def tail(
    where: Target,
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
    place: Backend, job_id: str, lines: int | None = None, *, follow: bool, as_json: bool
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


#: The first of them that there is, is what was asked for.
TEXTS = ("markdown_content", "extracted_text", "text")
RESULTS_FILE = "results.json"


def job_result_add_to(app: typer.Typer) -> None:
    app.command()(result)


@somewhere
def result(
    where: Target,
    job_id: str,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write all its files to this directory instead"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what came of a job: its Markdown or text, else its results as JSON."""

    async def work(place: Backend) -> list[Path]:
        job = await place.job(job_id)
        _require_completed(job, where)
        if output is None:
            _job_result_print(job, as_json=as_json)
            return []
        return await _save(place, job, output)

    for path in where.work(work):
        say(str(path))


def _require_completed(job: Document, where: Target) -> None:
    job_id, error = job["job_id"], job["error"]
    if job["status"] not in FINAL:
        follow = f"secretary jobs watch {job_id}{where.again()}"
        raise Conflict(f"The job {job_id} is {job['status']}. Wait for it: {follow}")
    if job["status"] != Status.COMPLETED:
        why = f": {error['message']} ({error['code']})" if error else ""
        raise JobFailed(f"The job {job_id} has no results, it {_ended(job)}{why}")


def _ended(job: Document) -> str:
    return "failed" if job["status"] == Status.FAILED else "was cancelled"


def _job_result_print(job: Document, *, as_json: bool) -> None:
    results = job["results"] or {}
    text = next((results[name] for name in TEXTS if isinstance(results.get(name), str)), None)
    if as_json or not text:
        print_json(results)
    else:
        say(text.rstrip("\n"))


async def _save(place: Backend, job: Document, output: Path) -> list[Path]:
    """Every file that the results name, and the results themselves."""
    results, saved = job["results"] or {}, []
    try:
        await asyncio.to_thread(output.mkdir, parents=True, exist_ok=True)
        for link, name in dict.fromkeys(_links(job["job_id"], results)):
            # A directory each: two files may have the same name in different directories.
            with tempfile.TemporaryDirectory(dir=output, prefix=".part-") as part:
                if (found := await place.file(job, link, Path(part))) is not None:
                    saved.append(await asyncio.to_thread(_copy, found, output / name, Path(part)))
        path = output / RESULTS_FILE
        path.write_text(json.dumps(results, indent=2, ensure_ascii=False), encoding="utf-8")
    except OSError as error:
        raise InvalidParameters(f"{output} cannot be written: {error.strerror}") from None
    return [*saved, path]


def _links(job_id: str, value: Any) -> Iterator[tuple[str, str]]:
    """All links to files of the job, wherever in the results they are."""
    match value:
        case str():
            if (name := name_in(job_id, value)) is not None:
                yield value, name
        case dict():
            for inner in value.values():
                yield from _links(job_id, inner)
        case list():
            for inner in value:
                yield from _links(job_id, inner)


def _copy(found: Path, target: Path, part: Path) -> Path:
    """Under its name there is never a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if found.parent != part:
        found = Path(shutil.copyfile(found, part / "whole"))
    return found.replace(target)


T = TypeVar("T")

app = typer.Typer(help="Look at jobs and change them.", no_args_is_help=True)

JobIds = Annotated[list[str], typer.Argument(metavar="JOB_ID...")]


@app.command("list")
@somewhere
def list_jobs(
    where: Target,
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
def show(where: Target, job_id: str, as_json: AsJson = False) -> None:
    """Show one job with its parameters, results and error."""
    job = where.work(lambda place: place.job(job_id))
    if as_json:
        print_json(job)
    else:
        from .tables import print_job

        print_job(job)


watch.add_jobs_to(app)
add_to(app)
job_result_add_to(app)


@app.command()
@somewhere
def cancel(where: Target, job_ids: JobIds, as_json: AsJson = False) -> None:
    """Cancel jobs: waiting ones at once, running ones within two seconds."""
    _change(where, job_ids, "cancel", as_json=as_json)


@app.command()
@somewhere
def restart(where: Target, job_ids: JobIds, as_json: AsJson = False) -> None:
    """Run ended jobs again; their results and errors are cleared."""
    _change(where, job_ids, "restart", as_json=as_json)


@app.command()
@somewhere
def archive(where: Target, job_ids: JobIds, as_json: AsJson = False) -> None:
    """Hide jobs from lists; nothing is deleted."""
    _change(where, job_ids, "archive", as_json=as_json)


@app.command()
@somewhere
def unarchive(where: Target, job_ids: JobIds, as_json: AsJson = False) -> None:
    """Show jobs in lists again."""
    _change(where, job_ids, "unarchive", as_json=as_json)


@app.command()
@somewhere
def delete(where: Target, job_ids: JobIds, as_json: AsJson = False) -> None:
    """Delete ended jobs and their files."""

    async def remove(place: Backend, job_id: str) -> str:
        await place.delete(job_id)
        return job_id

    deleted, errors = where.work(lambda place: _each(place, job_ids, remove))
    if as_json:
        print_json({"job_ids": deleted})
    else:
        for job_id in deleted:
            say(f"{job_id} is deleted")
    _complain_of(errors)


def _change(where: Target, job_ids: Sequence[str], verb: JobVerb, *, as_json: bool) -> None:
    async def change(place: Backend, job_id: str) -> Document:
        return await place.change(job_id, verb)

    jobs, errors = where.work(lambda place: _each(place, job_ids, change))
    if as_json:
        print_json({"jobs": [_without_big(job) for job in jobs]})
    else:
        for job in jobs:
            say(f"{job['job_id']} {_became(job, verb)}")
    _complain_of(errors)


async def _each(
    place: Backend, job_ids: Sequence[str], change: Callable[[Backend, str], Awaitable[T]]
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
