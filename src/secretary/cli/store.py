"""`secretary store copy`: everything from one store to another, with the files."""

from typing import Annotated

import typer

from .options import AsJson, ConfigFile

app = typer.Typer(help="Copy stores.", no_args_is_help=True)


@app.callback()
def _store() -> None:
    """Keeps `copy` a command of its own while it is the only one."""


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A data directory, or an address")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The same; it may not exist yet")],
    from_files: Annotated[
        str | None, typer.Option(help="Where its files are: a directory, gridfs, s3://… or none")
    ] = None,
    to_files: Annotated[str | None, typer.Option(help="Where they go, if not beside it")] = None,
    into_existing: Annotated[
        bool, typer.Option("--into-existing", help="Add what is missing there; change nothing")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Copy though workers are alive there")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, copy nothing")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every job afterwards")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Copy jobs, batches and files to another store."""
    from .store_copy import CopyOptions as Wishes
    from .store_copy import copy_store  # loaded here: it is heavy

    copy_store(
        source,
        target,
        from_files=from_files,
        to_files=to_files,
        wishes=Wishes(into_existing, anyway, dry_run, verify),
        config=config,
        as_json=as_json,
    )
