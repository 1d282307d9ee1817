"""Listens on an address and answers with an application until it is told to stop."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .errors import InvalidSettings

BACKLOG = 2048
#: Answers that are on their way when the server stops get so long to arrive.
GRACE_SECONDS = 5
#: What a client may send before the body of its request begins.
MAX_HEAD_BYTES = 64 * 1024


def listen(host: str, port: int, *, loopback_only: bool) -> socket.socket:
    """A socket on that address. Whoever reaches it may do anything, unless there are keys."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        if loopback_only and not ip_address(address[0]).is_loopback:
            raise InvalidSettings(
                f"server.host: {host} can be reached from other machines, so API keys are needed."
                " Set access.api_keys (SECRETARY_API_KEYS), or use 127.0.0.1."
            )
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
        # Every connection has it from here. Without, the second packet of an answer waits until
        # the client acknowledges the first: 40 ms. The event loop sets it on its own sockets only.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidSettings(f"server: cannot listen on {host}:{port}: {reason}") from None


class Connection(HttpToolsProtocol):
    """The faster of uvicorn's two parsers, with the limit that only the other one has: else a
    head without an end, or what may follow a body, would fill the memory."""

    #: Received since there was a whole head, a piece of a body or a whole request.
    _pending_bytes = 0

    def data_received(self, data: bytes) -> None:
        self._pending_bytes += len(data)
        super().data_received(data)
        if self._pending_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._pending_bytes = 0

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._pending_bytes = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._pending_bytes = 0


class HttpServer(uvicorn.Server):
    """`ready` is called with the URL once requests are answered."""

    def __init__(self, app: Any, listener: socket.socket, ready: Callable[[str], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._listener = listener
        self._ready = ready

    async def run_until_stopped(self) -> None:
        await self.serve(sockets=[self._listener])

    def stop(self, *, now: bool = False) -> None:
        self.should_exit = True
        self.force_exit = self.force_exit or now

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._ready(_url(self._listener))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are for the whole process: see `app.serve`."""
        yield


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
