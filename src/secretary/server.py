"""Listens on an address and answers with an application until it is told to stop."""

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .errors import InvalidSettings

BACKLOG = 2048
#: Longer than the proxies in front of us keep a connection: who closes first must be them.
KEEP_ALIVE_SECONDS = 75
#: The head of a request, which is kept in memory, may be so large.
MAX_HEAD_BYTES = 65_536
#: Answers that are on their way when the server stops get so long to arrive.
GRACE_SECONDS = 5


def listen(
    host: str, port: int, *, loopback_only: bool, setting: str = "server.host"
) -> socket.socket:
    """A socket on that address. Whoever reaches it may do anything, unless there are keys.
    `setting` is the one to be named when the address cannot be used."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        if loopback_only and not ip_address(address[0]).is_loopback:
            raise InvalidSettings(
                f"{setting}: {host} can be reached from other machines, so API keys are needed."
                " Set access.api_keys (SECRETARY_API_KEYS), or use 127.0.0.1."
            )
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
        # Else the body of an answer waits some 40 ms until the client has confirmed the head:
        # asyncio does this only for sockets that were made with the protocol's number.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        reason = error.strerror or str(error)
        group = setting.partition(".")[0]
        raise InvalidSettings(f"{group}: cannot listen on {host}:{port}: {reason}") from None


class Connection(HttpToolsProtocol):
    """Ends a connection on which a request begins and does not get on; uvicorn would wait for ever
    and keep whatever comes. How many connections there are is for the system to limit: each
    stream is one, and a refusal without our form and headers would help nobody."""

    #: A client has so long for the head of a request.
    head_seconds: ClassVar = 30.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience: asyncio.TimerHandle | None = None
        #: Received since there was a whole head, a piece of a body or a whole request.
        self._pending_bytes = 0

    def connection_made(  # type: ignore[override]  # uvicorn's narrower type
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(transport)
        self._lose_patience_later()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        self._pending_bytes += len(data)
        super().data_received(data)
        if self.cycle is not before:  # a head was complete
            self._be_patient()
        elif before is None or before.response_complete:
            # A head, or the rest of a body that was refused.
            self._lose_patience_later()
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

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        super().connection_lost(exc)

    def _lose_patience_later(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.head_seconds, self.transport.close)

    def _be_patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class HttpServer(uvicorn.Server):
    """`ready` is called with the URL once requests are answered."""

    def __init__(
        self,
        app: Any,
        listener: socket.socket,
        ready: Callable[[str], None],
        *,
        connection: type[Connection] = Connection,
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                http=connection,
                # Any client can write X-Forwarded-For; only these are believed.
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
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
        """Signals are for the whole process: see `running.on_signals`."""
        yield


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
