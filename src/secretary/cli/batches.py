"""`secretary batches …`: look at batches, make them and change them."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from ..desk import Desk
from ..errors import Conflict, InvalidParameters
from ..job import Batch
from ..store import BatchQuery
from ..submission import BatchRequest, read
from .options import AsJson, ConfigFile, DataDir, at_desk
from .output import complain, print_batch, print_batches, print_json, say

app = typer.Typer(help="Look at batches, make them and change them.", no_args_is_help=True)


@app.command("list")
def list_batches(
    user: Annotated[str | None, typer.Option(help="Whose batches")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on behind an earlier list")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Archived batches too")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> None:
    """List batches, the newest first."""
    archived = None if everything else False
    query = BatchQuery(user_id=user, archived=archived, limit=limit, cursor=cursor)
    page = at_desk(config, data_dir, lambda desk: desk.batches(query))
    if as_json:
        documents = [batch.document() for batch in page.items]
        print_json({"batches": documents, "next_cursor": page.next_cursor})
        return
    print_batches(page.items)
    if page.next_cursor:
        complain(f"There are more: --cursor {page.next_cursor}")


@app.command()
def show(
    batch_id: str, as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None
) -> None:
    """Show one batch."""
    _tell(at_desk(config, data_dir, lambda desk: desk.batch(batch_id)), as_json=as_json)


@app.command()
def create(
    file: Annotated[
        str, typer.Argument(help="JSON or YAML of {batch_name, jobs: […]}; - reads standard input")
    ],
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> None:
    """Hand in all jobs of a file, or none of them."""
    request = read(BatchRequest, _read_document(file))

    async def work(desk: Desk) -> Batch:
        batch, _ = await desk.submit_batch(request)
        return batch

    batch = at_desk(config, data_dir, work, make_store=True)
    if as_json:
        print_json(batch.document())
    else:
        say(batch.batch_id)


@app.command()
def pause(
    batch_id: str, as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None
) -> None:
    """Start no more of its jobs; those that run go on."""
    work = at_desk(config, data_dir, lambda desk: desk.set_batch_active(batch_id, False))
    _tell(work, as_json=as_json)


@app.command()
def resume(
    batch_id: str, as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None
) -> None:
    """Start its jobs again."""
    batch = at_desk(config, data_dir, lambda desk: desk.set_batch_active(batch_id, True))
    _tell(batch, as_json=as_json)


@app.command()
def archive(
    batch_id: str, as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None
) -> None:
    """Hide a batch and its jobs from lists; nothing is deleted."""
    _tell(at_desk(config, data_dir, lambda desk: desk.archive_batch(batch_id)), as_json=as_json)


@app.command()
def cancel(
    batch_id: str, as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None
) -> None:
    """Cancel all its jobs that have not ended."""
    ids = at_desk(config, data_dir, lambda desk: desk.cancel_batch(batch_id))
    _tell_changed(ids, "cancelled", as_json=as_json)


@app.command("restart-failed")
def restart_failed(
    batch_id: str, as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None
) -> None:
    """Run its failed jobs again."""
    ids = at_desk(config, data_dir, lambda desk: desk.restart_failed(batch_id))
    _tell_changed(ids, "restarted", as_json=as_json)


@app.command()
def delete(batch_id: str, data_dir: DataDir = None, config: ConfigFile = None) -> None:
    """Delete a batch that has ended, its jobs and their files."""
    at_desk(config, data_dir, lambda desk: desk.delete_batch(batch_id))
    say(f"{batch_id} is deleted")


def _tell(batch: Batch, *, as_json: bool) -> None:
    if as_json:
        print_json(batch.document())
    else:
        print_batch(batch)


def _tell_changed(job_ids: list[str], verb: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"job_ids": job_ids})
    elif job_ids:
        say(f"{len(job_ids)} jobs {verb}")
    if not job_ids:
        raise Conflict(f"There was nothing to be {verb}")


def _read_document(file: str) -> Any:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return yaml.safe_load(text)  # which reads JSON too
    except OSError as error:
        raise InvalidParameters(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidParameters(f"{file} is neither JSON nor YAML: {error}") from None
