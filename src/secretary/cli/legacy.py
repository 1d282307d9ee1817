"""`secretary import-legacy`: what the service before this one has stored."""

from typing import Annotated

import typer

from .options import AsJson, ConfigFile, DataDir, read_settings


def add_to(app: typer.Typer) -> None:
    app.command("import-legacy")(import_legacy)


def import_legacy(
    uri: Annotated[
        str, typer.Argument(help="mongodb://host/database, or settings for that of MONGODB_URI")
    ],
    running: Annotated[
        str, typer.Option(help="What jobs become that were running there: failed or pending")
    ] = "failed",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look, import nothing")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> None:
    """Take over the jobs and batches of event_jobs and event_batches."""
    from .legacy_import import import_older  # loaded here: it is heavy

    settings = read_settings(config, data_dir)
    import_older(uri, running=running, dry_run=dry_run, as_json=as_json, settings=settings)
