"""`secretary import`: the schedule of a conference in, a batch of session jobs out."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..app import make_schedules
from ..config import Settings
from ..desk import Desk
from ..errors import InvalidParameters
from ..job import Batch
from ..schedules import LIMITS, ScheduleRequest, batch_of
from ..submission import BatchRequest, read
from .options import AsJson, ConfigFile, DataDir, at_desk, log_quietly, read_settings
from .output import complain, print_json, print_talks, say
from .submit import read_parameters


def add_to(app: typer.Typer) -> None:
    app.command("import")(import_schedule)


def import_schedule(
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
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> None:
    """Hand in a session job for each talk of a conference."""
    request = read(
        ScheduleRequest,
        {
            **read_parameters(parameter or [], parameters),
            **{"event": event, "track": track, "day": day, "title": title},
            **{"batch_name": name, "priority": priority, "user_id": user},
        },
    )
    settings = read_settings(config, data_dir)
    log_quietly(settings)
    batch = batch_of(request, asyncio.run(_talks(settings, schedule, request)))
    if dry_run:
        _show(batch, as_json=as_json)
        return

    async def work(desk: Desk) -> Batch:
        added, _ = await desk.submit_batch(batch)
        return added

    added = at_desk(config, data_dir, work, make_store=True)
    if as_json:
        print_json(added.document())
    else:
        say(added.batch_id)
        complain(f"{added.total_jobs} jobs wait for a worker")


async def _talks(settings: Settings, source: str, request: ScheduleRequest) -> list[dict[str, Any]]:
    schedules = make_schedules(settings)
    if re.match(r"https?://", source, re.IGNORECASE):
        return await schedules.at_url(source, request)
    return await schedules.read(await asyncio.to_thread(_content, source), request)


def _content(file: str) -> bytes:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(LIMITS.max_bytes + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(LIMITS.max_bytes + 1)
    except OSError as error:
        raise InvalidParameters(f"{file}: {error.strerror}") from None
    return data


def _show(batch: BatchRequest, *, as_json: bool) -> None:
    if as_json:
        # As `batches create` and POST /api/batches take it.
        print_json(batch.model_dump(mode="json", by_alias=True, exclude_unset=True))
        return
    print_talks([job.parameters for job in batch.jobs])
    complain(f"{len(batch.jobs)} jobs; nothing was added")
