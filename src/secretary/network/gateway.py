"""A proxy on loopback through which one program may reach what this service may reach."""

import asyncio
import base64
import hmac
import logging
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

from ..errors import AddressRefused
from .client import Network
from .proxy_request import MAX_HEAD_BYTES, BadRequest, ProxyRequest, passed_back, read_request
from .transport import Line

logger = logging.getLogger(__name__)

PIECE = 65536
HEAD_SECONDS = 10.0
MAX_CONNECTIONS = 32
#: Answers that announce another one; more of them are a game.
MAX_INTERIM = 5
USER = "secretary"


class Gateway:
    """
    Dials only what `network` allows, for whoever knows its secret, until `max_bytes` have come
    through it. `used_up` is set when that is so; from then on it serves nobody.
    """

    def __init__(self, network: Network, *, max_bytes: int, idle: timedelta) -> None:
        self.used_up = asyncio.Event()
        #: Bytes in both directions.
        self.carried = 0
        #: The first address that was asked for and not allowed.
        self.refused: AddressRefused | None = None
        self._network = network
        self._max_bytes = max_bytes
        self._idle = idle.total_seconds()
        self._secret = secrets.token_hex(16)
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        """With the secret: neither for a log nor for a command line, which everyone can read."""
        return f"http://{USER}:{self._secret}@127.0.0.1:{self.port}"

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, _UsedUp, asyncio.CancelledError):
                await self._answer(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def end(self) -> None:
        """Cuts all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.used_up.is_set() or len(self._tasks) > MAX_CONNECTIONS:
            return await _say(writer, "503 Service Unavailable")
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                request = read_request(await reader.readuntil(b"\r\n\r\n"))
                body = await reader.readexactly(request.body_bytes)
        except (BadRequest, asyncio.LimitOverrunError):
            return await _say(writer, "400 Bad Request")
        except (TimeoutError, asyncio.IncompleteReadError):
            return
        if not self._is_known(request):
            header = 'Proxy-Authenticate: Basic realm="secretary"'
            return await _say(writer, "407 Proxy Authentication Required", header)
        line = await self._dial(request, writer)
        if line is None:
            return
        try:
            if request.is_tunnel:
                await _send(writer, b"HTTP/1.1 200 Connection established\r\n\r\n")
                await self._tunnel(line, reader, writer)
            else:
                await self._forward(request, body, line, reader, writer)
        finally:
            await line.close()

    def _is_known(self, request: ProxyRequest) -> bool:
        expected = base64.b64encode(f"{USER}:{self._secret}".encode()).decode()
        scheme, _, given = request.authorization.partition(" ")
        return scheme.lower() == "basic" and hmac.compare_digest(
            given.strip().encode(), expected.encode()
        )

    async def _dial(self, request: ProxyRequest, writer: asyncio.StreamWriter) -> Line | None:
        try:
            return await self._network.dial(request.url)
        except AddressRefused as error:
            self.refused = self.refused or error
            await _say(writer, "403 Forbidden")
        except ConnectionError:
            await _say(writer, "502 Bad Gateway")
        return None

    async def _tunnel(
        self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await _first_to_end(self._carry_back(line, writer), self._carry_out(line, reader))

    async def _forward(
        self,
        request: ProxyRequest,
        body: bytes,
        line: Line,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Whatever the program sends behind its request reaches nobody: it may be for another."""
        sent = request.head() + body
        self._count(sent)
        await line.write(sent, self._idle)
        try:
            head, rest = await self._answer_head(line)
        except BadRequest:
            return await _say(writer, "502 Bad Gateway")
        await _send(writer, head + rest)
        await _first_to_end(self._carry_back(line, writer), reader.read(1))

    async def _answer_head(self, line: Line) -> tuple[bytes, bytes]:
        """The head of the answer, and what has come of its body."""
        received = b""
        for _ in range(MAX_INTERIM + 1):
            while b"\r\n\r\n" not in received:
                piece = await line.read(self._idle)
                received += piece
                self._count(piece)
                if not piece or len(received) > MAX_HEAD_BYTES:
                    raise BadRequest("The answer has no head")
            end = received.index(b"\r\n\r\n") + 4
            head, received = passed_back(received[:end]), received[end:]
            if head is not None:
                return head, received
        raise BadRequest("The answer does not come to an end")

    async def _carry_back(self, line: Line, writer: asyncio.StreamWriter) -> None:
        while piece := await line.read(self._idle):
            self._count(piece)
            await _send(writer, piece)

    async def _carry_out(self, line: Line, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(PIECE):
            self._count(piece)
            await line.write(piece, self._idle)

    def _count(self, piece: bytes) -> None:
        self.carried += len(piece)
        if self.carried > self._max_bytes:
            self.used_up.set()
            for task in self._tasks - {asyncio.current_task()}:
                task.cancel()
            raise _UsedUp


class _UsedUp(Exception):
    pass


@asynccontextmanager
async def opened_gateway(
    network: Network, *, max_bytes: int, idle: timedelta
) -> AsyncIterator[Gateway]:
    """A gateway for as long as this is open; then nothing of it is left."""
    gateway = Gateway(network, max_bytes=max_bytes, idle=idle)
    server = await asyncio.start_server(gateway.connected, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
    gateway.port = server.sockets[0].getsockname()[1]
    try:
        yield gateway
    finally:
        server.close()
        await gateway.end()
        await server.wait_closed()


async def _first_to_end(*works: Coroutine[Any, Any, object]) -> None:
    """Until one of them has ended; the others are ended then. What went wrong is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def _say(writer: asyncio.StreamWriter, status: str, *headers: str) -> None:
    lines = [f"HTTP/1.1 {status}", *headers, "Content-Length: 0", "Connection: close"]
    await _send(writer, ("\r\n".join(lines) + "\r\n\r\n").encode())
