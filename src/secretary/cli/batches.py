"""`secretary batches …` and `secretary import`: create, inspect and change batches."""

import asyncio
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import Conflict, InvalidParameters
from . import output
from .backend import FINAL, Backend, BatchAction, Document, JobProgress, ListFilter
from .jobs import POLL_SECONDS
from .options import AsJson, Cursor, IncludeArchived, Limit, Target, UserFilter, with_target
from .submit import read_parameters

ACTIONS: dict[BatchAction, str] = {
    "pause": "Stop starting jobs of a batch; running jobs continue.",
    "resume": "Resume a paused batch.",
    "archive": "Hide a batch and its jobs from lists; nothing is deleted.",
    "unarchive": "Show an archived batch and its jobs in lists again.",
    "cancel": "Cancel all unfinished jobs of a batch.",
    "restart-failed": "Run the failed jobs of a batch again.",
}
#: Actions on the jobs of a batch, and what happens to them.
JOB_ACTIONS: dict[BatchAction, str] = {"cancel": "cancelled", "restart-failed": "restarted"}

app = typer.Typer(help="Create, inspect and change batches.", no_args_is_help=True)


@app.command("list")
@with_target
def list_batches(
    target: Target,
    user: UserFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    include_archived: IncludeArchived = False,
    as_json: AsJson = False,
) -> None:
    """List batches, newest first."""
    filters = ListFilter(
        user_id=user, include_archived=include_archived, limit=limit, cursor=cursor
    )
    page = target.run(lambda backend: backend.find("batches", filters))
    output.print_page("batches", page, output.print_batches, as_json=as_json)


@app.command()
@with_target
def show(target: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Show a batch with its job counts."""
    batch = target.run(lambda backend: backend.get("batches", batch_id))
    output.print_json(batch) if as_json else output.print_batch(batch)


@app.command("watch")
@with_target
def watch_batch(target: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Show the progress of a batch until all its jobs finish. Exit with 0 if all completed."""

    async def work(backend: Backend) -> Document:
        with output.progress_display(lines=True) as display, display.job(batch_id) as on_progress:
            while True:
                batch = await backend.get("batches", batch_id)
                on_progress(_batch_progress(batch))
                if not batch["pending_jobs"] + batch["processing_jobs"]:
                    return batch
                await asyncio.sleep(POLL_SECONDS)

    batch = target.run(work)
    output.print_json(batch) if as_json else output.print_batch(batch)
    if batch["completed_jobs"] != batch["total_jobs"]:
        raise typer.Exit(output.ExitCode.FAILED)


def _batch_progress(batch: Document) -> JobProgress:
    finished, total = sum(batch[f"{status}_jobs"] for status in FINAL), batch["total_jobs"]
    failed = f", {batch['failed_jobs']} failed" if batch["failed_jobs"] else ""
    paused = "" if batch["isActive"] else ", paused"
    text = f"{finished} of {total} jobs have ended{failed}, {batch['processing_jobs']} run{paused}"
    return JobProgress(100 * finished // total if total else 100, text)


@app.command()
@with_target
def create(
    target: Target,
    file: Annotated[
        str,
        typer.Argument(help="JSON or YAML file with {batch_name, jobs: […]}; - reads from stdin"),
    ],
    as_json: AsJson = False,
) -> None:
    """Submit all jobs of a file as a batch, or none of them."""
    request = _read_document(file)
    batch = target.run(lambda backend: backend.submit_batch(request))
    output.print_warnings(batch)
    output.print_json(batch) if as_json else output.echo(batch["batch_id"])


def _action_command(action: BatchAction) -> Callable[..., None]:
    @with_target
    def command(target: Target, batch_id: str, as_json: AsJson = False) -> None:
        batch = target.run(lambda backend: backend.change_batch(batch_id, action))
        if action not in JOB_ACTIONS:
            return output.print_json(batch) if as_json else output.print_batch(batch)
        job_ids, change = batch["job_ids"], JOB_ACTIONS[action]
        if as_json:
            output.print_json({"job_ids": job_ids})
        elif job_ids:
            output.echo(f"{len(job_ids)} jobs {change}")
        if not job_ids:
            raise Conflict(f"No jobs were {change}")

    return command


for _action, _help in ACTIONS.items():
    app.command(_action, help=_help)(_action_command(_action))


@app.command()
@with_target
def delete(target: Target, batch_id: str) -> None:
    """Delete a finished batch with its jobs and their files."""
    target.run(lambda backend: backend.delete("batches", batch_id))
    output.echo(f"{batch_id} is deleted")


def _read_document(file: str) -> Any:
    import yaml

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return yaml.safe_load(text)  # JSON is YAML, too
    except OSError as error:
        raise InvalidParameters(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as February 31
        raise InvalidParameters(f"{file} is neither JSON nor YAML: {error}") from None


@with_target
def import_schedule(
    target: Target,
    schedule: Annotated[
        str, typer.Argument(help="schedule.xml or schedule.json: a file, a URL, or - for stdin")
    ],
    event: Annotated[str | None, typer.Option(help="Name of the conference")] = None,
    track: Annotated[
        list[str] | None, typer.Option(help="Only this track, such as 'Rust*'; repeatable")
    ] = None,
    day: Annotated[
        list[str] | None,
        typer.Option(help="Only this day: a date, a number or a weekday; repeatable"),
    ] = None,
    title: Annotated[
        list[str] | None, typer.Option(help="Only talks with this in their title; repeatable")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("-p", help="key=value for every job; may be JSON")
    ] = None,
    parameters: Annotated[
        str | None, typer.Option(help="Parameters of every job as a JSON object, or @FILE")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the batch")] = None,
    priority: Annotated[int, typer.Option(help="-100 to 100; higher starts earlier")] = 0,
    user: Annotated[str | None, typer.Option(help="User who owns the batch")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the jobs without submitting them")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a session job for each talk of a conference."""
    request = {
        **read_parameters(parameter or [], parameters),
        **{"event": event, "track": track, "day": day, "title": title},
        **{"batch_name": name, "priority": priority, "user_id": user},
    }
    batch_request = _read_schedule(target, schedule, request)
    if not dry_run:
        batch = target.run(lambda backend: backend.submit_batch(batch_request))
        output.print_warnings(batch)
        if as_json:
            return output.print_json(batch)
        output.echo(batch["batch_id"])
        output.echo_err(f"{batch['total_jobs']} jobs wait for a worker")
    elif as_json:
        output.print_json(batch_request)
    else:
        output.print_talks([job["parameters"] for job in batch_request["jobs"]])
        output.echo_err(f"{len(batch_request['jobs'])} jobs; nothing was added")


def _read_schedule(target: Target, source: str, request: Document) -> Document:
    """Read the schedule on this machine, and return the body of POST /api/batches."""
    from ..app import Application
    from ..jobs.conference_import import DOWNLOAD_LIMITS, ScheduleRequest, batch_request
    from ..jobs.submission import parse_request

    schedule_request = parse_request(ScheduleRequest, request)
    importer = Application(target.quiet_settings()).conference_importer
    if re.match(r"https?://", source, re.IGNORECASE):
        talks = asyncio.run(importer.fetch(source, schedule_request))
    else:
        try:
            with nullcontext(sys.stdin.buffer) if source == "-" else open(source, "rb") as stream:
                content = stream.read(DOWNLOAD_LIMITS.max_bytes + 1)
        except OSError as error:
            raise InvalidParameters(f"{source}: {error.strerror}") from None
        talks = asyncio.run(importer.read(content, schedule_request))
    batch = batch_request(schedule_request, talks)
    return batch.model_dump(mode="json", by_alias=True, exclude_unset=True)
