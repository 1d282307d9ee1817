"""The command line: `secretary --help` shows what there is."""

import os
import sys
import traceback
from typing import Annotated

import typer

from ..errors import (
    InvalidParameters,
    InvalidSettings,
    NotFound,
    SecretaryError,
    StoreUnavailable,
)
from ..version import __version__
from . import (
    batches,
    convert,
    doctor,
    imports,
    jobs,
    legacy,
    mcp,
    start,
    store,
    submit,
    templates,
)
from .output import complain

#: The first that fits; any other error of ours is 1, a wrong use of the command line is 2.
EXIT_CODES: dict[type[SecretaryError], int] = {
    InvalidSettings: 2,
    InvalidParameters: 2,
    StoreUnavailable: 3,
    NotFound: 4,
}
INTERRUPTED = 130

app = typer.Typer(
    help="Durable background jobs behind one HTTP API.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
convert.add_to(app)
start.add_to(app)
submit.add_to(app)
imports.add_to(app)
legacy.add_to(app)
doctor.add_to(app)
mcp.add_to(app)
app.add_typer(jobs.app, name="jobs")
app.add_typer(batches.app, name="batches")
app.add_typer(templates.app, name="template")
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
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except SecretaryError as error:
        if os.environ.get("SECRETARY_LOGGING__LEVEL") == "debug":
            traceback.print_exc()
        complain(str(error))
        sys.exit(exit_code(error))


def exit_code(error: SecretaryError) -> int:
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
