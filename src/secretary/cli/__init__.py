"""The command line: `secretary --help` lists the commands."""

import os
import sys
import traceback
from typing import Annotated

import typer

from ..core.errors import SecretaryError
from ..version import __version__
from . import (
    batches,
    completion,
    convert,
    doctor,
    imports,
    jobs,
    legacy,
    mcp,
    serve,
    store,
    submit,
    templates,
    workers,
)
from .output import ExitCode, complain, exit_code

app = typer.Typer(
    help="Durable background jobs behind one HTTP API.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
convert.add_to(app)
serve.add_to(app)
submit.add_to(app)
imports.add_to(app)
legacy.add_to(app)
doctor.add_to(app)
mcp.add_to(app)
completion.add_to(app)
app.add_typer(jobs.app, name="jobs")
app.add_typer(batches.app, name="batches")
app.add_typer(templates.app, name="template")
app.add_typer(workers.app, name="workers")
app.add_typer(store.app, name="store")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"secretary {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    try:
        app(prog_name="secretary")  # also as `python -m`: completion goes by this name
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    except SecretaryError as error:
        _trace()
        complain(str(error))
        sys.exit(exit_code(error))
    except OSError as error:
        # A disk that is full, a directory that may not be written: no fault of the program.
        _trace()
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(ExitCode.FAILED)


def _trace() -> None:
    if os.environ.get("SECRETARY_LOGGING__LEVEL") == "debug":
        traceback.print_exc()
