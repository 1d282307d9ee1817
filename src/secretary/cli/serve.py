"""`secretary serve` and `secretary worker`: the processes that do the work."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import InvalidParameters
from ..version import __version__
from .options import ConfigFile, DataDir, read_settings, set_up_logging
from .output import say

if TYPE_CHECKING:
    from ..config import Settings


def _refuse_url(url: str | None) -> None:
    if url is not None:
        raise InvalidParameters(
            "--url: this command starts something on this machine and asks no service."
            " Where workers find their jobs say --data-dir, or storage.mongodb_uri."
        )


NoUrl = Annotated[str | None, typer.Option("--url", hidden=True, callback=_refuse_url)]


def add_to(app: typer.Typer) -> None:
    app.command("serve")(start_service)
    app.command("worker")(start_worker)


def start_service(
    host: Annotated[str | None, typer.Option(help="[default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="0 takes a free one [default: 5000]")] = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Only the HTTP API; workers run elsewhere")
    ] = False,
    data_dir: DataDir = None,
    config: ConfigFile = None,
    url: NoUrl = None,
) -> None:
    """Start the HTTP API, with a worker inside."""
    from ..serve import serve  # loaded here: no other command needs it

    server = {"host": host, "port": port}
    given = {key: value for key, value in server.items() if value is not None}
    settings = read_settings(config, data_dir, server=given)
    set_up_logging(settings)
    with_worker = settings.generic_worker.active and not no_worker
    greet = partial(_greet, settings, with_worker)
    asyncio.run(serve(settings, with_worker=with_worker, ready=greet))


def start_worker(
    types: Annotated[str | None, typer.Option(help="Only these job types, like pdf,office")] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="How many jobs at once")] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Tell health and metrics by HTTP there; 0 takes a free one")
    ] = None,
    data_dir: DataDir = None,
    config: ConfigFile = None,
    url: NoUrl = None,
) -> None:
    """Start a worker without the HTTP API."""
    from ..serve import work

    given = {} if metrics_port is None else {"metrics_port": metrics_port}
    settings = read_settings(config, data_dir, generic_worker=given)
    set_up_logging(settings)
    asyncio.run(work(settings, job_types=_listed(types), slots=slots))


def _listed(types: str | None) -> frozenset[str] | None:
    if types is None:
        return None
    listed = frozenset(part.strip() for part in types.split(",") if part.strip())
    if not listed:
        raise InvalidParameters("--types: name at least one job type")
    return listed


def _greet(settings: "Settings", with_worker: bool, url: str) -> None:
    slots = settings.generic_worker.max_concurrent_workers
    data_dir = settings.storage.data_dir.resolve()
    worker = f"a worker of {slots} slots" if with_worker else "no worker"
    key = ' -H "Authorization: Bearer $KEY"' if settings.access.api_keys else ""
    say(
        f"""\
Secretary {__version__} listens on {url} with {worker}; its data is in {data_dir}
{_who_may(settings)}

Try it, with a PDF of yours:
  curl{key} -F file=@document.pdf '{url}/api/pdf/process?sync=true'
  curl{key} {url}/api/jobs
  curl {url}/api/health
Dashboard: {url}/   All routes: {url}/api/doc   Stop: Ctrl-C, twice to stop at once"""
    )


def _who_may(settings: "Settings") -> str:
    if settings.access.api_keys:
        return "It answers those who show an API key."
    return "There are no API keys (SECRETARY_API_KEYS), so it answers this machine only."
