"""A proxy on loopback through which one program may reach what this service may reach."""

import asyncio
import base64
import hmac
import logging
import re
import secrets
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx

from ..core.errors import AddressRefused
from .client import Network, TcpStream

#: Together with the empty line behind them.
MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100
#: Programs that download hardly send anything; a form at the most.
MAX_BODY_BYTES = 1024 * 1024

Headers = tuple[tuple[str, str], ...]

_FIRST_LINE = re.compile(r"(CONNECT|GET|HEAD|POST|OPTIONS) ([!-~]+) HTTP/1\.[01]")
_STATUS_LINE = re.compile(r"HTTP/1\.[01] ([1-9][0-9]{2})( [\t -~\x80-\xff]*)?")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*)")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+):([0-9]{1,5})")

#: For the proxy itself, or about this one connection.
_NOT_PASSED_ON = frozenset(
    {
        "connection", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_NOT_PASSED_BACK = frozenset({"connection", "keep-alive", "proxy-connection"})


class BadRequest(Exception):
    """The request, or the answer to it, is not one that would be passed on."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    method: str
    #: Where to connect; the path of a CONNECT is empty.
    url: httpx.URL
    headers: Headers
    body_bytes: int

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    @property
    def authorization(self) -> str:
        given = [value for name, value in self.headers if name.lower() == "proxy-authorization"]
        return given[0] if len(given) == 1 else ""

    def head(self) -> bytes:
        """As its server is to get it: one request on a connection that ends with the answer."""
        lines = [f"{self.method} {self.url.raw_path.decode('ascii')} HTTP/1.1"]
        lines.append(f"Host: {self.url.netloc.decode('ascii')}")
        lines += _kept(self.headers, _NOT_PASSED_ON)
        return _encoded([*lines, "Connection: close"])


def read_request(head: bytes) -> ProxyRequest:
    first, headers = _read(head)
    match = _FIRST_LINE.fullmatch(first)
    if match is None:
        raise BadRequest("The request cannot be read")
    method, target = match.groups()
    try:
        url = _tunnel_url(target) if method == "CONNECT" else _plain_url(target)
    except httpx.InvalidURL:
        raise BadRequest("The address cannot be read") from None
    return ProxyRequest(method, url, headers, _body_bytes(headers))


def passed_back(head: bytes) -> bytes | None:
    """The head of an answer as its program is to get it; None when another is to follow."""
    first, headers = _read(head)
    match = _STATUS_LINE.fullmatch(first)
    if match is None:
        raise BadRequest("The answer cannot be read")
    if match[1].startswith("1"):
        return None
    return _encoded([first, *_kept(headers, _NOT_PASSED_BACK), "Connection: close"])


def _read(head: bytes) -> tuple[str, Headers]:
    first, *lines = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    if len(lines) > MAX_HEADERS:
        raise BadRequest("There are too many headers")
    headers = []
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise BadRequest("A header cannot be read")
        headers.append((match[1], match[2].rstrip(" \t")))
    return first, tuple(headers)


def _tunnel_url(target: str) -> httpx.URL:
    if not _AUTHORITY.fullmatch(target):
        raise BadRequest("The address cannot be read")
    return httpx.URL(f"https://{target}")


def _plain_url(target: str) -> httpx.URL:
    url = httpx.URL(target)
    if url.scheme != "http" or not url.host:
        raise BadRequest("Only http:// is asked for like this")
    return url


def _body_bytes(headers: Headers) -> int:
    """The length of the body: said once, or there is none."""
    names = [name.lower() for name, _ in headers]
    if "transfer-encoding" in names:
        raise BadRequest("A body must say its length")
    said = [value for name, value in headers if name.lower() == "content-length"]
    if not said:
        return 0
    if len(said) > 1 or not re.fullmatch("[0-9]{1,9}", said[0]) or int(said[0]) > MAX_BODY_BYTES:
        raise BadRequest("The length of the body is wrong, or too much")
    return int(said[0])


def _kept(headers: Headers, left_out: frozenset[str]) -> list[str]:
    # What a Connection header names is about that connection too.
    named = {
        name.strip().lower()
        for key, value in headers
        if key.lower() == "connection"
        for name in value.split(",")
    }
    named -= {"content-length", "transfer-encoding", "content-type"}
    left_out = left_out | named
    return [f"{name}: {value}" for name, value in headers if name.lower() not in left_out]


def _encoded(lines: Sequence[str]) -> bytes:
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


logger = logging.getLogger(__name__)

PIECE = 65536
HEAD_SECONDS = 10.0
MAX_CONNECTIONS = 32
#: Answers that announce another one; more of them are a game.
MAX_INTERIM = 5
USER = "secretary"


class EgressProxy:
    """
    Dials only what `network` allows, for whoever knows its secret, until `max_bytes` have come
    through it. `limit_reached` is set when that is so; from then on it serves nobody.
    """

    def __init__(self, network: Network, *, max_bytes: int, idle: timedelta) -> None:
        self.limit_reached = asyncio.Event()
        #: Bytes in both directions.
        self.transferred_bytes = 0
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
            with suppress(ConnectionError, _LimitReached, asyncio.CancelledError):
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
        if self.limit_reached.is_set() or len(self._tasks) > MAX_CONNECTIONS:
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

    async def _dial(self, request: ProxyRequest, writer: asyncio.StreamWriter) -> TcpStream | None:
        try:
            return await self._network.dial(request.url)
        except AddressRefused as error:
            self.refused = self.refused or error
            await _say(writer, "403 Forbidden")
        except ConnectionError:
            await _say(writer, "502 Bad Gateway")
        return None

    async def _tunnel(
        self, line: TcpStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await _first_to_end(self._carry_back(line, writer), self._carry_out(line, reader))

    async def _forward(
        self,
        request: ProxyRequest,
        body: bytes,
        line: TcpStream,
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

    async def _answer_head(self, line: TcpStream) -> tuple[bytes, bytes]:
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

    async def _carry_back(self, line: TcpStream, writer: asyncio.StreamWriter) -> None:
        while piece := await line.read(self._idle):
            self._count(piece)
            await _send(writer, piece)

    async def _carry_out(self, line: TcpStream, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(PIECE):
            self._count(piece)
            await line.write(piece, self._idle)

    def _count(self, piece: bytes) -> None:
        self.transferred_bytes += len(piece)
        if self.transferred_bytes > self._max_bytes:
            self.limit_reached.set()
            for task in self._tasks - {asyncio.current_task()}:
                task.cancel()
            raise _LimitReached


class _LimitReached(Exception):
    pass


@asynccontextmanager
async def open_egress_proxy(
    network: Network, *, max_bytes: int, idle: timedelta
) -> AsyncIterator[EgressProxy]:
    """A gateway for as long as this is open; then nothing of it is left."""
    gateway = EgressProxy(network, max_bytes=max_bytes, idle=idle)
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
