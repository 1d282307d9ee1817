"""`secretary workers …`: who does the work."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import typer

from ..desk import Desk
from ..worker_document import worker_document
from .options import AsJson, ConfigFile, DataDir, at_desk
from .output import print_json, print_workers

app = typer.Typer(help="Look at the workers of all machines.", no_args_is_help=True)


@app.command("list")
def list_workers(
    as_json: AsJson = False, data_dir: DataDir = None, config: ConfigFile = None
) -> None:
    """List the workers with what they take, their slots and their last sign of life."""

    async def ask(desk: Desk) -> list[dict[str, Any]]:
        return [worker_document(worker) for worker in await desk.store.workers()]

    workers = _by_age(at_desk(config, data_dir, ask))
    if as_json:
        print_json({"workers": workers})
    else:
        print_workers(workers)


def _by_age(workers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(workers, key=lambda worker: datetime.fromisoformat(worker["started_at"]))
