"""`secretary import`: submit a conference schedule as a batch of session jobs."""

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import InvalidParameters
from .backend import Document
from .options import AsJson, Target, log_warnings_only, with_target
from .output import echo, echo_err, print_json
from .submit import read_parameters
from .tables import print_talks

if TYPE_CHECKING:
    from ..config import Settings
    from ..jobs.conference_import import ScheduleRequest


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
    batch_request = _batch_request(target, schedule, request)
    if dry_run:
        _print_talks(batch_request, as_json=as_json)
        return
    batch = target.run(lambda backend: backend.submit_batch(batch_request))
    if as_json:
        print_json(batch)
    else:
        echo(batch["batch_id"])
        echo_err(f"{batch['total_jobs']} jobs wait for a worker")


def _batch_request(target: Target, source: str, request: Document) -> Document:
    """Read the schedule on this machine, and return the body of POST /api/batches."""
    from ..jobs.conference_import import ScheduleRequest, batch_request
    from ..jobs.submission import parse_request

    schedule_request = parse_request(ScheduleRequest, request)
    settings = target.settings()
    log_warnings_only(settings)
    talks = asyncio.run(_read_talks(settings, source, schedule_request))
    batch = batch_request(schedule_request, talks)
    return batch.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def _read_talks(
    settings: "Settings", source: str, request: "ScheduleRequest"
) -> list[dict[str, Any]]:
    from ..app import Application

    importer = Application(settings).conference_importer
    if re.match(r"https?://", source, re.IGNORECASE):
        return await importer.fetch(source, request)
    return await importer.read(await asyncio.to_thread(_read_file, source), request)


def _read_file(file: str) -> bytes:
    from ..jobs.conference_import import DOWNLOAD_LIMITS

    try:
        if file == "-":
            return sys.stdin.buffer.read(DOWNLOAD_LIMITS.max_bytes + 1)
        with Path(file).open("rb") as stream:
            return stream.read(DOWNLOAD_LIMITS.max_bytes + 1)
    except OSError as error:
        raise InvalidParameters(f"{file}: {error.strerror}") from None


def _print_talks(batch: Document, *, as_json: bool) -> None:
    if as_json:
        print_json(batch)
        return
    print_talks([job["parameters"] for job in batch["jobs"]])
    echo_err(f"{len(batch['jobs'])} jobs; nothing was added")
