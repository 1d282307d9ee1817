"""`secretary serve`, `secretary worker` and `secretary mcp`: the commands that start a process."""

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import InvalidParameters, InvalidSettings
from ..version import __version__
from .options import ConfigFile, DataDir, Target
from .output import echo

if TYPE_CHECKING:
    from ..config import Settings


def _refuse_url(url: str | None) -> None:
    if url is not None:
        raise InvalidParameters(
            "--url: this command starts something on this machine and does not use a service."
            " Set --data-dir or storage.mongodb_uri to choose the store."
        )


NoUrl = Annotated[str | None, typer.Option("--url", hidden=True, callback=_refuse_url)]


def start_service(
    host: Annotated[str | None, typer.Option(help="Address to bind [default: 127.0.0.1]")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 picks a free one [default: 5000]")
    ] = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Only the HTTP API; workers run elsewhere")
    ] = False,
    data_dir: DataDir = None,
    config: ConfigFile = None,
    url: NoUrl = None,
) -> None:
    """Start the HTTP API, with a worker inside."""
    from ..serve import serve

    options = {"host": host, "port": port}
    server = {name: value for name, value in options.items() if value is not None}
    settings = Target(data_dir, config).settings(server=server)
    with_worker = settings.generic_worker.active and not no_worker
    on_ready = partial(_print_welcome, settings, with_worker)
    asyncio.run(serve(settings, with_worker=with_worker, ready=on_ready))


def start_worker(
    types: Annotated[
        str | None, typer.Option(help="Only these job types, such as pdf,office")
    ] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="Number of concurrent jobs")] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port for health and metrics; 0 picks a free one")
    ] = None,
    data_dir: DataDir = None,
    config: ConfigFile = None,
    url: NoUrl = None,
) -> None:
    """Start a worker without the HTTP API."""
    from ..serve import work

    generic_worker = {} if metrics_port is None else {"metrics_port": metrics_port}
    settings = Target(data_dir, config).settings(generic_worker=generic_worker)
    job_types = None
    if types is not None:
        job_types = frozenset(part.strip() for part in types.split(",") if part.strip())
        if not job_types:
            raise InvalidParameters("--types: name at least one job type")
    asyncio.run(work(settings, job_types=job_types, slots=slots))


def start_mcp_server(
    url: Annotated[
        str, typer.Option(envvar="SECRETARY_URL", help="URL of the service")
    ] = "http://127.0.0.1:5000",
    api_key: Annotated[
        str | None,
        typer.Option(envvar="SECRETARY_API_KEY", help="API key of the service, or @FILE"),
    ] = None,
    user: Annotated[str | None, typer.Option(help="User who owns the jobs")] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(help="Only read files below this directory; repeatable [default: .]"),
    ] = None,
) -> None:
    """Offer the service to language models as an MCP server on standard input and output."""
    try:
        from .mcp_server import serve
    except ModuleNotFoundError as error:
        text = f"{error.name} is not installed: pip install 'secretary[mcp]'"
        raise InvalidSettings(text) from None
    from ..client import AsyncClient

    client = AsyncClient(url, api_key=Target(api_key=api_key).key, user=user)
    asyncio.run(serve(client, root or [Path.cwd()]))


def _print_welcome(settings: "Settings", with_worker: bool, url: str) -> None:
    group = settings.generic_worker
    data_dir = settings.storage.data_dir.resolve()
    slots = f"{group.max_concurrent_workers} slots and {group.max_concurrent_io} I/O slots"
    worker = f"a worker of {slots}" if with_worker else "no worker"
    keys = settings.access.api_keys
    header = ' -H "Authorization: Bearer $KEY"' if keys else ""
    access = (
        "Requests need an API key."
        if keys
        else "No API keys are set (SECRETARY_API_KEYS), so only this machine has access."
    )
    echo(
        f"""\
Secretary {__version__} listens on {url} with {worker}; its data is in {data_dir}
{access}

Try it with a PDF:
  curl{header} -F file=@document.pdf '{url}/api/pdf/process?sync=true'
  curl{header} {url}/api/jobs
  curl {url}/api/health
Dashboard: {url}/   API reference: {url}/api/doc   Stop: Ctrl-C, twice to stop at once"""
    )
