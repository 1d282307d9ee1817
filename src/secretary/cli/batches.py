"""`secretary batches …`: look at batches, make them and change them."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import Conflict, InvalidParameters
from . import watch
from .backend import BatchFilter, BatchVerb, Document
from .options import AsJson, Target, somewhere
from .output import complain, print_json, say

app = typer.Typer(help="Look at batches, make them and change them.", no_args_is_help=True)


@app.command("list")
@somewhere
def list_batches(
    where: Target,
    user: Annotated[str | None, typer.Option(help="Whose batches")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on behind an earlier list")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Archived batches too")] = False,
    as_json: AsJson = False,
) -> None:
    """List batches, the newest first."""
    wanted = BatchFilter(user, everything, limit, cursor)
    page = where.work(lambda place: place.batches(wanted))
    if as_json:
        print_json({"batches": page.items, "next_cursor": page.next_cursor})
        return
    from .tables import print_batches

    print_batches(page.items)
    if page.next_cursor:
        complain(f"There are more: --cursor {page.next_cursor}")


@app.command()
@somewhere
def show(where: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Show one batch."""
    _tell(where.work(lambda place: place.batch(batch_id)), as_json=as_json)


watch.add_batches_to(app)


@app.command()
@somewhere
def create(
    where: Target,
    file: Annotated[
        str, typer.Argument(help="JSON or YAML of {batch_name, jobs: […]}; - reads standard input")
    ],
    as_json: AsJson = False,
) -> None:
    """Hand in all jobs of a file, or none of them."""
    request = _read_document(file)
    batch = where.work(lambda place: place.submit_batch(request))
    if as_json:
        print_json(batch)
    else:
        say(batch["batch_id"])


@app.command()
@somewhere
def pause(where: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Start no more of its jobs; those that run go on."""
    _tell(_changed(where, batch_id, "pause"), as_json=as_json)


@app.command()
@somewhere
def resume(where: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Start its jobs again."""
    _tell(_changed(where, batch_id, "resume"), as_json=as_json)


@app.command()
@somewhere
def archive(where: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Hide a batch and its jobs from lists; nothing is deleted."""
    _tell(_changed(where, batch_id, "archive"), as_json=as_json)


@app.command()
@somewhere
def unarchive(where: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Show a batch and its jobs in lists again."""
    _tell(_changed(where, batch_id, "unarchive"), as_json=as_json)


@app.command()
@somewhere
def cancel(where: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Cancel all its jobs that have not ended."""
    _tell_jobs(_changed(where, batch_id, "cancel"), "cancelled", as_json=as_json)


@app.command("restart-failed")
@somewhere
def restart_failed(where: Target, batch_id: str, as_json: AsJson = False) -> None:
    """Run its failed jobs again."""
    _tell_jobs(_changed(where, batch_id, "restart-failed"), "restarted", as_json=as_json)


@app.command()
@somewhere
def delete(where: Target, batch_id: str) -> None:
    """Delete a batch that has ended, its jobs and their files."""
    where.work(lambda place: place.delete_batch(batch_id))
    say(f"{batch_id} is deleted")


def _changed(where: Target, batch_id: str, verb: BatchVerb) -> Document:
    return where.work(lambda place: place.change_batch(batch_id, verb))


def _tell(batch: Document, *, as_json: bool) -> None:
    if as_json:
        print_json(batch)
    else:
        from .tables import print_batch

        print_batch(batch)


def _tell_jobs(batch: Document, verb: str, *, as_json: bool) -> None:
    job_ids = batch["job_ids"]
    if as_json:
        print_json({"job_ids": job_ids})
    elif job_ids:
        say(f"{len(job_ids)} jobs {verb}")
    if not job_ids:
        raise Conflict(f"There was nothing to be {verb}")


def _read_document(file: str) -> Any:
    import yaml

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return yaml.safe_load(text)  # which reads JSON too
    except OSError as error:
        raise InvalidParameters(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as a 31st of February
        raise InvalidParameters(f"{file} is neither JSON nor YAML: {error}") from None
