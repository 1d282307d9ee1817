"""`secretary workers …`: who does the work."""

import typer

from .options import AsJson, Target, somewhere
from .output import print_json

app = typer.Typer(help="Look at the workers of all machines.", no_args_is_help=True)


@app.command("list")
@somewhere
def list_workers(where: Target, as_json: AsJson = False) -> None:
    """List the workers with what they take, their slots and their last sign of life."""
    workers = where.work(lambda place: place.workers())
    if as_json:
        print_json({"workers": workers})
    else:
        from .tables import print_workers

        print_workers(workers)
