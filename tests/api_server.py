"""Serves an application on a real socket on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from secretary.serve import Connection, HttpServer, listen


@asynccontextmanager
async def served(app: Any, **options: Any) -> AsyncIterator[tuple[str, HttpServer]]:
    """The URL and the server."""
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    with listen("127.0.0.1", 0, loopback_only=True) as listener:
        server = HttpServer(app, listener, url.set_result, **options)
        running = asyncio.create_task(server.run_until_stopped())
        try:
            yield await asyncio.wait_for(url, 10), server
        finally:
            server.stop()
            await running


@asynccontextmanager
async def serving(app: Any, connection: type[Connection] = Connection) -> AsyncIterator[str]:
    """Only the URL; a proxy on this machine may be in front of it."""
    options = {"connection": connection, "trusted_proxies": ["127.0.0.1"]}
    async with served(app, **options) as (url, _):
        yield url
