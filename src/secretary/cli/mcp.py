"""`secretary mcp`: the service as tools for language models."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import InvalidSettings
from .options import Target


def add_to(app: typer.Typer) -> None:
    app.command("mcp")(mcp)


def mcp(
    url: Annotated[
        str, typer.Option(envvar="SECRETARY_URL", help="Target the service is")
    ] = "http://127.0.0.1:5000",
    api_key: Annotated[
        str | None, typer.Option(envvar="SECRETARY_API_KEY", help="Its API key, or @FILE with it")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whom the jobs belong to")] = None,
    root: Annotated[
        list[Path] | None, typer.Option(help="Read files below this [default: where you are]")
    ] = None,
) -> None:
    """Offer the service to a language model, on standard input and output (MCP)."""
    # Loaded here: no other command needs them.
    try:
        from .mcp_server import serve
    except ModuleNotFoundError as error:
        raise InvalidSettings(f"There is no {error.name}; pip install 'secretary[mcp]'") from None
    from ..client import AsyncClient

    client = AsyncClient(url, api_key=Target(api_key=api_key).key, user=user)
    asyncio.run(serve(client, root or [Path.cwd()]))
