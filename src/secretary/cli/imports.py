"""`secretary import`: the schedule of a conference in, a batch of session jobs out."""

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import InvalidParameters
from .backend import Document
from .options import AsJson, Target, log_quietly, somewhere
from .output import complain, print_json, say
from .submit import read_parameters

if TYPE_CHECKING:
    from ..config import Settings
    from ..jobs.conference_import import ScheduleRequest


def add_to(app: typer.Typer) -> None:
    app.command("import")(import_schedule)


@somewhere
def import_schedule(
    where: Target,
    schedule: Annotated[
        str, typer.Argument(help="schedule.xml or schedule.json: a file, a URL, or - to read it")
    ],
    event: Annotated[str | None, typer.Option(help="What the conference is to be called")] = None,
    track: Annotated[list[str] | None, typer.Option(help="Only this track, like 'Rust*'")] = None,
    day: Annotated[
        list[str] | None, typer.Option(help="Only this day: a date, a number or a weekday")
    ] = None,
    title: Annotated[list[str] | None, typer.Option(help="Only talks with this in them")] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("-p", help="key=value for every job; it may be JSON")
    ] = None,
    parameters: Annotated[
        str | None, typer.Option(help="Parameters of every job as JSON, or @FILE with them")
    ] = None,
    name: Annotated[str | None, typer.Option(help="A name to find the batch by")] = None,
    priority: Annotated[int, typer.Option(help="-100 to 100; higher starts earlier")] = 0,
    user: Annotated[str | None, typer.Option(help="Whose batch this is")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the jobs, add none")] = False,
    as_json: AsJson = False,
) -> None:
    """Hand in a session job for each talk of a conference."""
    request = {
        **read_parameters(parameter or [], parameters),
        **{"event": event, "track": track, "day": day, "title": title},
        **{"batch_name": name, "priority": priority, "user_id": user},
    }
    batch = _batch(where, schedule, request)
    if dry_run:
        _show(batch, as_json=as_json)
        return
    added = where.work(lambda place: place.submit_batch(batch))
    if as_json:
        print_json(added)
    else:
        say(added["batch_id"])
        complain(f"{added['total_jobs']} jobs wait for a worker")


def _batch(where: Target, source: str, wanted: Document) -> Document:
    """The schedule is read here, wherever its jobs go: as `batches create` and POST /api/batches
    take it."""
    # Loaded here: no other command needs it.
    from ..jobs.conference_import import ScheduleRequest, batch_request
    from ..jobs.submission import parse_request

    request = parse_request(ScheduleRequest, wanted)
    settings = where.settings()
    log_quietly(settings)
    batch = batch_request(request, asyncio.run(_talks(settings, source, request)))
    return batch.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def _talks(
    settings: "Settings", source: str, request: "ScheduleRequest"
) -> list[dict[str, Any]]:
    from ..app import make_conference_importer as make_schedules

    schedules = make_schedules(settings)
    if re.match(r"https?://", source, re.IGNORECASE):
        return await schedules.at_url(source, request)
    return await schedules.read(await asyncio.to_thread(_content, source), request)


def _content(file: str) -> bytes:
    from ..jobs.conference_import import DOWNLOAD_LIMITS

    try:
        if file == "-":
            return sys.stdin.buffer.read(DOWNLOAD_LIMITS.max_bytes + 1)
        with Path(file).open("rb") as stream:
            return stream.read(DOWNLOAD_LIMITS.max_bytes + 1)
    except OSError as error:
        raise InvalidParameters(f"{file}: {error.strerror}") from None


def _show(batch: Document, *, as_json: bool) -> None:
    if as_json:
        print_json(batch)
        return
    from .tables import print_talks

    print_talks([job["parameters"] for job in batch["jobs"]])
    complain(f"{len(batch['jobs'])} jobs; nothing was added")
