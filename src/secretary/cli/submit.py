"""`secretary submit`: hand in a job, and wait for it if that is asked for."""

import asyncio
import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import InvalidParameters
from .backend import Backend, Document, Status
from .completion import complete_job_type
from .options import AsJson, Target, somewhere
from .output import ExitCode, complain, print_json, say
from .progress_bar import ProgressBar, meter

#: A worker takes a job within milliseconds; a job that waits for longer may wait in vain.
WONDER_AFTER = 2.0


async def wait_for(where: Target, place: Backend, jobs: Sequence[Document]) -> list[Document]:
    """The jobs when all have ended. Whoever interrupts this is told that they go on."""
    wondering = asyncio.create_task(_wonder(where, place, jobs[0]["job_id"]))
    tasks: list[asyncio.Task[Document]] = []
    try:
        with meter(lines=True) as show:
            tasks += [asyncio.create_task(_follow(place, job, show)) for job in jobs]
            return await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        ids = " ".join(job["job_id"] for job in jobs)
        complain(
            f"{'It goes' if len(jobs) == 1 else 'They go'} on without you."
            f"\nFollow: secretary jobs watch {ids}{where.again()}"
            f"\nStop:   secretary jobs cancel {ids}{where.again()}"
        )
        raise
    finally:
        for task in (wondering, *tasks):
            task.cancel()
        await asyncio.gather(wondering, *tasks, return_exceptions=True)


async def _follow(place: Backend, job: Document, show: ProgressBar) -> Document:
    complain(f"{job['job_id']} is handed in")
    with show.job(job["job_name"] or job["job_type"], job["job_id"]) as tell:
        return await place.follow(job["job_id"], tell)


async def _wonder(where: Target, place: Backend, job_id: str) -> None:
    await asyncio.sleep(WONDER_AFTER)
    job = await place.job(job_id)
    if job["status"] == Status.PENDING and not await place.has_workers():
        complain(
            "No worker is running, so the job waits. Start one in another terminal:"
            " secretary worker (with the same --data-dir and --config)"
            if where.service is None
            else "No worker is running there, so the job waits until one is started."
        )


def add_to(app: typer.Typer) -> None:
    app.command()(submit)


@somewhere
def submit(
    where: Target,
    job_type: Annotated[str, typer.Argument(autocompletion=complete_job_type)],
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="What to work on; may be given twice")
    ] = None,
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
) -> None:
    """Hand in a job, one for each file; with --wait the exit code is 0 if all completed, else 1."""
    request = {
        "job_type": job_type,
        "parameters": read_parameters(parameter or [], parameters),
        "job_name": name,
        "priority": priority,
        "user_id": user,
        "run_at": run_at,
        "max_attempts": max_attempts,
        "timeout_s": timeout,
    }
    files: Sequence[Path | None] = [_readable(path) for path in file or []] or [None]

    async def work(place: Backend) -> list[Document]:
        await _warn_of_unknown(place, job_type)
        jobs = [await place.submit(_named(request, one), one) for one in files]
        return await wait_for(where, place, jobs) if wait else jobs

    jobs = where.work(work)
    _tell(jobs, ended=wait, as_json=as_json)
    if wait and any(job["status"] != Status.COMPLETED for job in jobs):
        raise typer.Exit(ExitCode.FAILED)


def _tell(jobs: list[Document], *, ended: bool, as_json: bool) -> None:
    if as_json:
        print_json(jobs[0] if len(jobs) == 1 else {"jobs": jobs})
    elif not ended:
        for job in jobs:
            say(job["job_id"])
    else:
        from .tables import print_job, print_jobs

        if len(jobs) == 1:
            print_job(jobs[0])
        else:
            print_jobs(jobs)


def _readable(file: Path) -> Path:
    """Said before anything is sent."""
    try:
        file.open("rb").close()
    except OSError as error:
        raise InvalidParameters(f"--file {file}: {error.strerror}") from None
    return file


def _named(request: Document, file: Path | None) -> Document:
    """A job of a file is called by it, unless it has a name."""
    if file is None or request["job_name"] is not None:
        return request
    return {**request, "job_name": file.name[:500]}


async def _warn_of_unknown(place: Backend, job_type: str) -> None:
    known = await place.job_types()
    if job_type in known:
        return
    near = get_close_matches(job_type, known, n=1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    complain(f"There is no handler for {job_type!r} here (there are: {', '.join(known)}).{meant}")


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
        except UnicodeDecodeError:
            raise InvalidParameters(f"--parameters {text}: it is no text") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidParameters(f"--parameters: this is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidParameters("--parameters: it must be a JSON object")
    return document


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
