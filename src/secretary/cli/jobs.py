"""`secretary jobs …`: list, inspect and change jobs."""

import asyncio
import json
import shutil
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ..core.errors import Conflict, InvalidParameters, JobFailed, NotFound, StoreError
from . import options
from .backend import FINAL, Backend, Document, JobAction, ListFilter, Status, linked_file_name
from .output import (
    ExitCode,
    ShowJobs,
    echo,
    echo_err,
    job_display,
    print_job,
    print_jobs,
    print_json,
    print_json_line,
    print_log_entry,
    print_page,
)

T = TypeVar("T")

POLL_SECONDS, LOG_POLL_SECONDS = 1.0, 0.5
#: How many unfinished and how many recently finished jobs `watch` shows.
MAX_ACTIVE, MAX_FINISHED = 30, 5
#: `result` prints the first of these that a job has.
TEXT_RESULTS = ("markdown_content", "extracted_text", "text")
RESULTS_FILE = "results.json"

ACTIONS: dict[JobAction, str] = {
    "cancel": "Cancel jobs: pending ones at once, running ones within two seconds.",
    "restart": "Run finished jobs again; their results and errors are cleared.",
    "archive": "Hide jobs from lists; nothing is deleted.",
    "unarchive": "Show archived jobs in lists again.",
}

ARCHIVE_STATES = {"archive": "is archived", "unarchive": "is no longer archived"}

JobIds = Annotated[list[str], typer.Argument(metavar="JOB_ID...")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Continue until the job finishes")]

app = typer.Typer(help="List, inspect and change jobs.", no_args_is_help=True)


@app.command("list")
@options.with_target
def list_jobs(
    target: options.Target,
    status: Annotated[
        list[Status] | None, typer.Option(help="Only jobs in this state; repeatable")
    ] = None,
    job_type: options.JobTypeFilter = None,
    batch: options.BatchFilter = None,
    user: options.UserFilter = None,
    limit: options.Limit = 50,
    cursor: options.Cursor = None,
    include_archived: options.IncludeArchived = False,
    as_json: options.AsJson = False,
) -> None:
    """List jobs, newest first."""
    filters = ListFilter(
        tuple(status or ()), job_type, batch, user, include_archived, limit, cursor
    )
    page = target.run(lambda backend: backend.find("jobs", filters))
    print_page("jobs", page, print_jobs, as_json=as_json)


@app.command()
@options.with_target
def show(target: options.Target, job_id: str, as_json: options.AsJson = False) -> None:
    """Show a job with its parameters, results and error."""
    job = target.run(lambda backend: backend.get("jobs", job_id))
    print_json(job) if as_json else print_job(job)


@app.command("watch")
@options.with_target
def watch_jobs(
    target: options.Target,
    job_ids: Annotated[list[str] | None, typer.Argument(metavar="[JOB_ID]...")] = None,
    job_type: options.JobTypeFilter = None,
    batch: options.BatchFilter = None,
    user: options.UserFilter = None,
    as_json: options.AsJson = False,
) -> None:
    """Show pending and running jobs until Ctrl-C, or the given jobs until they finish. Then exit
    with 0 if all completed, else with 1."""
    filters = ListFilter(job_type=job_type, batch_id=batch, user_id=user)

    async def work(backend: Backend) -> list[Document]:
        with job_display(as_json=as_json) as show:
            if job_ids:
                return await _watch_until_finished(backend, job_ids, show)
            return await _watch_forever(backend, filters, show)

    if any(job["status"] != Status.COMPLETED for job in target.run(work)):
        raise typer.Exit(ExitCode.FAILED)


async def _watch_until_finished(
    backend: Backend, job_ids: Sequence[str], show: ShowJobs
) -> list[Document]:
    jobs: dict[str, Document] = {}
    while True:
        for job_id in job_ids:
            if job_id not in jobs or jobs[job_id]["status"] not in FINAL:
                jobs[job_id] = await backend.get("jobs", job_id)
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
                page = await backend.find("jobs", replace(filters, status=(status,), limit=limit))
                active += reversed(page.items)
        current = {job["job_id"]: job for job in active}
        for job_id in [key for key in previous if key not in current]:
            with suppress(NotFound):  # deleted meanwhile
                job = await backend.get("jobs", job_id)
                finished.extend([job] if job["status"] in FINAL else [])
        show([*finished, *active])
        previous = current
        await asyncio.sleep(POLL_SECONDS)


@app.command()
@options.with_target
def logs(
    target: options.Target, job_id: str, follow: Follow = False, as_json: options.AsJson = False
) -> None:
    """Show the log of a job."""
    target.run(lambda backend: _print_log(backend, job_id, follow=follow, as_json=as_json))


@app.command()
@options.with_target
def tail(
    target: options.Target,
    job_id: str,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="Number of entries to start with")
    ] = 10,
    follow: Follow = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the end of a job's log. With -f, exit with 1 unless the job completes."""
    job = target.run(
        lambda backend: _print_log(backend, job_id, lines, follow=follow, as_json=as_json)
    )
    if not follow:
        return
    echo_err(f"{job_id} is {job['status']}{_reason(job)}")
    if job["status"] != Status.COMPLETED:
        raise typer.Exit(ExitCode.FAILED)


async def _print_log(
    backend: Backend, job_id: str, lines: int | None = None, *, follow: bool, as_json: bool
) -> Document:
    """Print the log, or its last lines, and return the job as last read."""
    job = await backend.get("jobs", job_id)
    entries = job["logs"]
    new = entries if lines is None else entries[max(len(entries) - lines, 0) :]
    while True:
        for entry in new:
            print_json_line(entry) if as_json else print_log_entry(entry)
        if not follow or job["status"] in FINAL:
            return job
        last = job["logs"][-1] if job["logs"] else None
        await asyncio.sleep(LOG_POLL_SECONDS)
        job = await backend.get("jobs", job_id)
        # Found by comparison: a long log drops its oldest entries.
        entries = job["logs"]
        positions = (at for at in range(len(entries), 0, -1) if entries[at - 1] == last)
        new = entries[next(positions, 0) :]


def _reason(job: Document) -> str:
    return f": {job['error']['message']} ({job['error']['code']})" if job["error"] else ""


@app.command()
@options.with_target
def result(
    target: options.Target,
    job_id: str,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write all files of the job to this directory"),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print a job's Markdown or text, or else its results as JSON."""

    async def work(backend: Backend) -> list[Path]:
        job = await backend.get("jobs", job_id)
        _require_completed(job, target)
        if output is not None:
            return await _save_files(backend, job, output)
        results = job["results"] or {}
        texts = (results[name] for name in TEXT_RESULTS if isinstance(results.get(name), str))
        text = next(texts, None)
        print_json(results) if as_json or not text else echo(text.rstrip("\n"))
        return []

    for path in target.run(work):
        echo(str(path))


def _require_completed(job: Document, target: options.Target) -> None:
    job_id, status = job["job_id"], job["status"]
    if status not in FINAL:
        watch = f"secretary jobs watch {job_id}{target.as_options}"
        raise Conflict(f"The job {job_id} is {status}. Wait for it: {watch}")
    if status != Status.COMPLETED:
        outcome = "failed" if status == Status.FAILED else "was cancelled"
        raise JobFailed(f"The job {job_id} has no results, it {outcome}{_reason(job)}")


async def _save_files(backend: Backend, job: Document, output: Path) -> list[Path]:
    """Save every file that the results link to, and the results themselves."""
    results, saved = job["results"] or {}, []
    try:
        await asyncio.to_thread(output.mkdir, parents=True, exist_ok=True)
        for link, name in dict.fromkeys(_linked_files(job["job_id"], results)):
            # One directory per file: files in different directories may have the same name.
            with tempfile.TemporaryDirectory(dir=output, prefix=".part-") as part:
                temporary = Path(part)
                if (path := await backend.fetch_file(job, link, temporary)) is not None:
                    saved.append(await asyncio.to_thread(_save, path, output / name, temporary))
        results_file = output / RESULTS_FILE
        text = json.dumps(results, indent=2, ensure_ascii=False)
        results_file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidParameters(f"{output} cannot be written: {error.strerror}") from None
    return [*saved, results_file]


def _linked_files(job_id: str, value: Any) -> Iterator[tuple[str, str]]:
    """Find the links to the job's files anywhere in its results."""
    match value:
        case str():
            if (name := linked_file_name(job_id, value)) is not None:
                yield value, name
        case dict() | list():
            for inner in value.values() if isinstance(value, dict) else value:
                yield from _linked_files(job_id, inner)


def _save(path: Path, target: Path, temporary: Path) -> Path:
    """Replace the target atomically; a file outside the temporary directory is copied first."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.parent != temporary:
        path = Path(shutil.copyfile(path, temporary / "copy"))
    return path.replace(target)


def _action_command(action: JobAction) -> Callable[..., None]:
    async def change(backend: Backend, job_id: str) -> Document:
        return await backend.change_job(job_id, action)

    @options.with_target
    def command(target: options.Target, job_ids: JobIds, as_json: options.AsJson = False) -> None:
        with _changed(target, job_ids, change) as jobs:
            if as_json:
                large = ("results", "logs")
                summaries = [{key: job[key] for key in job if key not in large} for job in jobs]
                print_json({"jobs": summaries})
            else:
                for job in jobs:
                    is_stopping = job.get("cancel_requested") and job["status"] == Status.PROCESSING
                    state = "will be cancelled" if is_stopping else f"is {job['status']}"
                    echo(f"{job['job_id']} {ARCHIVE_STATES.get(action, state)}")

    return command


for _action, _help in ACTIONS.items():
    app.command(_action, help=_help)(_action_command(_action))


@app.command()
@options.with_target
def delete(target: options.Target, job_ids: JobIds, as_json: options.AsJson = False) -> None:
    """Delete finished jobs and their files."""

    async def delete_one(backend: Backend, job_id: str) -> str:
        await backend.delete("jobs", job_id)
        return job_id

    with _changed(target, job_ids, delete_one) as deleted:
        if as_json:
            print_json({"job_ids": deleted})
        else:
            for job_id in deleted:
                echo(f"{job_id} is deleted")


@contextmanager
def _changed(
    target: options.Target, job_ids: Sequence[str], change: Callable[[Backend, str], Awaitable[T]]
) -> Iterator[list[T]]:
    """Change each job; one that cannot be changed does not stop the rest. At the end, all errors
    are printed but the last, which sets the exit code."""
    errors: list[StoreError] = []

    async def work(backend: Backend) -> list[T]:
        changed: list[T] = []
        for job_id in job_ids:
            try:
                changed.append(await change(backend, job_id))
            except (NotFound, Conflict) as error:
                errors.append(error)
        return changed

    yield target.run(work)
    for error in errors[:-1]:
        echo_err(str(error))
    if errors:
        raise errors[-1]
