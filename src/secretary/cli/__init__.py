"""The command line; `secretary --help` lists the commands."""

import os
import sys
import traceback
from typing import Annotated

import typer

from ..core.errors import SecretaryError
from ..version import __version__
from . import batches, convert, jobs, migrate, serve, submit, system
from .output import ExitCode, echo_err, exit_code

app = typer.Typer(
    help="Durable background jobs behind one HTTP API.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(convert.convert)
app.command("serve")(serve.start_service)
app.command("worker")(serve.start_worker)
app.command()(submit.submit)
app.command("import")(batches.import_schedule)
app.command("import-legacy")(migrate.import_legacy)
app.command("import-config")(migrate.import_config)
app.command()(system.doctor)
app.command("mcp")(serve.start_mcp_server)
app.command()(system.completion)
app.add_typer(jobs.app, name="jobs")
app.add_typer(batches.app, name="batches")
app.add_typer(system.templates_app, name="template")
app.add_typer(system.workers_app, name="workers")
app.add_typer(migrate.app, name="store")


def _print_version(requested: bool) -> None:
    if requested:
        print(f"secretary {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    try:
        app(prog_name="secretary")  # with `python -m`, too: shell completion needs this name
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    except (SecretaryError, OSError) as error:
        if os.environ.get("SECRETARY_LOGGING__LEVEL") == "debug":
            traceback.print_exc()
        if isinstance(error, SecretaryError):
            echo_err(str(error))
            sys.exit(exit_code(error))
        # The disk is full or a directory is not writable: not a bug.
        echo_err(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(ExitCode.FAILED)
