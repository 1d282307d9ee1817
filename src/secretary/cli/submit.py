"""`secretary submit`: submit jobs and, on request, wait for them."""

import asyncio
import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import InvalidParameters
from ..jobs.submission import JOB_TYPE_ALIASES
from .backend import Backend, Document, Status
from .options import AsJson, Target, complete_job_type, with_target
from .output import (
    ExitCode,
    echo,
    echo_err,
    print_job,
    print_jobs,
    print_json,
    print_warnings,
    progress_display,
)

#: Check for workers if a job is still pending after this time; a claim takes milliseconds.
WORKER_CHECK_SECONDS = 2.0


@with_target
def submit(
    target: Target,
    job_type: Annotated[str, typer.Argument(autocompletion=complete_job_type)],
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="File to process; repeatable")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("-p", help="key=value; the value may be JSON; repeatable")
    ] = None,
    parameters: Annotated[
        str | None, typer.Option(help="Parameters as a JSON object, or @FILE")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the job")] = None,
    priority: Annotated[int, typer.Option(help="-100 to 100; higher starts earlier")] = 0,
    user: Annotated[str | None, typer.Option(help="User who owns the job")] = None,
    run_at: Annotated[
        str | None, typer.Option(help="Start no earlier than, such as 2030-01-31T08:00Z")
    ] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Maximum number of attempts")] = None,
    timeout: Annotated[float | None, typer.Option(help="Timeout of an attempt in seconds")] = None,
    retention_days: Annotated[
        float | None, typer.Option(help="Days to keep the finished job; 0 keeps it forever")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the job finishes")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a job, or one per file. With --wait, exit with 0 if all completed, else with 1."""
    request = {
        "job_type": job_type,
        "parameters": read_parameters(parameter or [], parameters),
        "priority": priority,
        "user_id": user,
        "run_at": run_at,
        "max_attempts": max_attempts,
        "timeout_s": timeout,
        "retention_days": retention_days,
    }
    for path in file or []:
        try:
            path.open("rb").close()
        except OSError as error:
            raise InvalidParameters(f"--file {path}: {error.strerror}") from None

    async def work(backend: Backend) -> list[Document]:
        job_types = await backend.job_types()
        if job_type not in job_types and job_type not in JOB_TYPE_ALIASES:
            matches = get_close_matches(job_type, job_types, n=1)
            hint = f" Did you mean {matches[0]!r}?" if matches else ""
            valid = ", ".join(job_types)
            echo_err(f"There is no handler for {job_type!r} here (there are: {valid}).{hint}")
        jobs = [await backend.submit(request | {"job_name": name})] if not file else []
        for path in file or []:  # each job is named after its file, unless there is a name
            job_name = path.name[:500] if name is None else name
            jobs.append(await backend.submit(request | {"job_name": job_name}, path))
        for job in jobs:
            print_warnings(job)
        return await _wait_for(target, backend, jobs) if wait else jobs

    jobs = target.run(work)
    if as_json:
        print_json(jobs[0] if len(jobs) == 1 else {"jobs": jobs})
    elif not wait:
        for job in jobs:
            echo(job["job_id"])
    elif len(jobs) == 1:
        print_job(jobs[0])
    else:
        print_jobs(jobs)
    if wait and any(job["status"] != Status.COMPLETED for job in jobs):
        raise typer.Exit(ExitCode.FAILED)


def read_parameters(pairs: list[str], document: str | None) -> dict[str, Any]:
    """Combine `--parameters` with `-p`, which takes precedence."""
    parameters = _read_json_object(document) if document is not None else {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise InvalidParameters(f"-p {pair}: it must look like key=value")
        try:
            parameters[key] = json.loads(text)
        except (ValueError, RecursionError):
            parameters[key] = text
    return parameters


def _read_json_object(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidParameters(f"--parameters {text}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidParameters(f"--parameters {text}: not a text file") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidParameters(f"--parameters: this is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidParameters("--parameters: it must be a JSON object")
    return document


async def _wait_for(target: Target, backend: Backend, jobs: Sequence[Document]) -> list[Document]:
    """Wait for all jobs. If interrupted, print how to follow or cancel them."""
    worker_check = asyncio.create_task(_warn_without_workers(target, backend, jobs[0]["job_id"]))
    tasks: list[asyncio.Task[Document]] = []

    async def follow(job: Document) -> Document:
        echo_err(f"{job['job_id']} submitted")
        with display.job(job["job_name"] or job["job_type"], job["job_id"]) as on_progress:
            return await backend.follow(job["job_id"], on_progress)

    try:
        with progress_display(lines=True) as display:
            tasks += [asyncio.create_task(follow(job)) for job in jobs]
            return await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        ids = " ".join(job["job_id"] for job in jobs)
        echo_err(
            f"{'The job continues' if len(jobs) == 1 else 'The jobs continue'} to run."
            f"\nFollow: secretary jobs watch {ids}{target.as_options}"
            f"\nStop:   secretary jobs cancel {ids}{target.as_options}"
        )
        raise
    finally:
        for task in (worker_check, *tasks):
            task.cancel()
        await asyncio.gather(worker_check, *tasks, return_exceptions=True)


async def _warn_without_workers(target: Target, backend: Backend, job_id: str) -> None:
    await asyncio.sleep(WORKER_CHECK_SECONDS)
    job = await backend.get("jobs", job_id)
    is_waiting = job["status"] == Status.PENDING
    if is_waiting and not any(worker["alive"] for worker in await backend.workers()):
        echo_err(
            "No worker is running, so the job waits. Start one in another terminal:"
            " secretary worker (with the same --data-dir and --config)"
            if target.service_url is None
            else "No worker is running there, so the job waits until one is started."
        )
