"""`secretary submit`: hand in a job, and wait for it if that is asked for."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..desk import Desk
from ..errors import InvalidParameters
from ..job import FINAL, Job, JobStatus
from ..submission import JobRequest, read
from .options import AsJson, ConfigFile, DataDir, at_desk
from .output import complain, print_job, print_json, say

LOOK_EVERY = 0.2
#: A worker takes a job within milliseconds; a job that waits for longer may wait in vain.
WONDER_AFTER = 2.0


def add_to(app: typer.Typer) -> None:
    app.command()(submit)


def submit(
    job_type: str,
    parameter: Annotated[
        list[str] | None, typer.Option("-p", help="key=value; the value may be JSON")
    ] = None,
    parameters: Annotated[
        str | None, typer.Option(help="All parameters as JSON, or @FILE with them")
    ] = None,
    name: Annotated[str | None, typer.Option(help="A name to find the job by")] = None,
    priority: Annotated[int, typer.Option(help="-100 to 100; higher starts earlier")] = 0,
    user: Annotated[str | None, typer.Option(help="Whose job this is")] = None,
    run_at: Annotated[str | None, typer.Option(help="Not before, like 2030-01-31T08:00Z")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="How often it may be tried")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds one attempt may take")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the job has ended")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> None:
    """Hand in a job; with --wait the exit code is 0 if it completed, 1 if not."""
    request = read(
        JobRequest,
        {
            "job_type": job_type,
            "parameters": read_parameters(parameter or [], parameters),
            "job_name": name,
            "priority": priority,
            "user_id": user,
            "run_at": run_at,
            "max_attempts": max_attempts,
            "timeout_s": timeout,
        },
    )

    async def work(desk: Desk) -> Job:
        if request.job_type not in desk.registry:
            known = ", ".join(sorted(desk.registry.job_types))
            complain(f"There is no handler for {job_type!r} here (there are: {known}).")
        job = await desk.submit(request)
        return await _wait(desk, job) if wait else job

    job = at_desk(config, data_dir, work, make_store=True)
    if as_json:
        print_json(job.document())
    elif wait:
        print_job(job)
    else:
        say(job.job_id)
    if wait and job.status is not JobStatus.COMPLETED:
        raise typer.Exit(1)


def read_parameters(pairs: list[str], document: str | None) -> dict[str, Any]:
    """`-p` adds to `--parameters` and wins."""
    parameters = _read_document(document) if document is not None else {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise InvalidParameters(f"-p {pair}: it must look like key=value")
        parameters[key] = _json_or_text(text)
    return parameters


def _read_document(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidParameters(f"--parameters {text}: {error.strerror}") from None
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidParameters(f"--parameters: this is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidParameters("--parameters: it must be a JSON object")
    return document


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _wait(desk: Desk, job: Job) -> Job:
    complain(f"{job.job_id} is waiting to start")
    if not sys.stderr.isatty():
        return await wait_for(desk, job.job_id, show=lambda job: None)
    # Loaded here: no other command needs it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("pending", total=100)

        def show(job: Job) -> None:
            step = job.progress.step if job.status == JobStatus.PROCESSING else job.status.value
            bar.update(task, completed=job.progress.percent, description=step)

        return await wait_for(desk, job.job_id, show=show)


async def wait_for(desk: Desk, job_id: str, *, show: Callable[[Job], None]) -> Job:
    started = time.monotonic()
    wondered = False
    while True:
        job = await desk.job(job_id)
        show(job)
        if job.status in FINAL:
            return job
        if not wondered and time.monotonic() - started > WONDER_AFTER:
            wondered = True
            if job.status == JobStatus.PENDING and not await desk.workers_alive():
                complain(
                    "No worker is running, so the job waits. Start one in another terminal:"
                    " secretary worker (with the same --data-dir and --config)"
                )
        await asyncio.sleep(LOOK_EVERY)
