"""An HTTP proxy on loopback for external programs, with the same restrictions as `Network`."""

import asyncio
import base64
import hmac
import re
import secrets
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpcore
import httpx

from ..core.errors import AddressRefused
from .client import Network

MAX_CONNECTIONS = 32
#: Limits of a request or response head, including the empty line at its end.
MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100
#: Programs that download send small forms at most.
MAX_BODY_BYTES = 1024 * 1024
#: Maximum number of 1xx responses before the final one.
MAX_INTERIM_RESPONSES = 5
HEAD_TIMEOUT = 10.0
CHUNK_BYTES = 65536
USER = "secretary"

Headers = tuple[tuple[str, str], ...]
#: A connection to a server, and the errors when it fails.
Stream = httpcore.AsyncNetworkStream
_LOST = (httpcore.TimeoutException, httpcore.NetworkError)

_REQUEST_LINE = re.compile(r"(CONNECT|GET|HEAD|POST|OPTIONS) ([!-~]+) HTTP/1\.[01]")
_STATUS_LINE = re.compile(r"HTTP/1\.[01] ([1-9][0-9]{2})( [\t -~\x80-\xff]*)?")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*)")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+):([0-9]{1,5})")

#: Headers for the proxy itself, or about this one connection.
_DROPPED_REQUEST_HEADERS = frozenset(
    {
        "connection", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_DROPPED_RESPONSE_HEADERS = frozenset({"connection", "keep-alive", "proxy-connection"})


@asynccontextmanager
async def open_egress_proxy(
    network: Network, *, max_bytes: int, idle: timedelta
) -> AsyncIterator["EgressProxy"]:
    """Run a proxy on a free port; on exit all its connections are closed."""
    proxy = EgressProxy(network, max_bytes=max_bytes, idle=idle)
    server = await asyncio.start_server(
        proxy.handle_connection, "127.0.0.1", 0, limit=MAX_HEAD_BYTES
    )
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close_connections()
        await server.wait_closed()


class EgressProxy:
    """Forwards to hosts that `network` allows, for clients that know its password, until
    `max_bytes` were transferred. It then sets `limit_reached` and refuses all requests."""

    def __init__(self, network: Network, *, max_bytes: int, idle: timedelta) -> None:
        self.limit_reached = asyncio.Event()
        #: In both directions.
        self.transferred_bytes = 0
        #: The error for the first address that was not allowed.
        self.refused: AddressRefused | None = None
        self._network = network
        self._max_bytes = max_bytes
        self._idle = idle.total_seconds()
        self._password = secrets.token_hex(16)
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        """Contains the password: keep it out of logs and command lines."""
        return f"http://{USER}:{self._password}@127.0.0.1:{self.port}"

    async def handle_connection(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, *_LOST, _LimitReached, asyncio.CancelledError):
                await self._handle_request(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close_connections(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _handle_request(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self.limit_reached.is_set() or len(self._tasks) > MAX_CONNECTIONS:
            return await _respond(writer, "503 Service Unavailable")
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                request = _parse_request(await reader.readuntil(b"\r\n\r\n"))
                body = await reader.readexactly(request.body_bytes)
        except (_InvalidMessage, asyncio.LimitOverrunError):
            return await _respond(writer, "400 Bad Request")
        except (TimeoutError, asyncio.IncompleteReadError):
            return
        expected = base64.b64encode(f"{USER}:{self._password}".encode())
        scheme, _, credentials = request.authorization.partition(" ")
        is_authorized = hmac.compare_digest(credentials.strip().encode(), expected)
        if scheme.lower() != "basic" or not is_authorized:
            header = 'Proxy-Authenticate: Basic realm="secretary"'
            return await _respond(writer, "407 Proxy Authentication Required", header)
        try:
            stream = await self._network.dial(request.url)
        except AddressRefused as error:
            self.refused = self.refused or error
            return await _respond(writer, "403 Forbidden")
        except _LOST:
            return await _respond(writer, "502 Bad Gateway")
        try:
            if request.method == "CONNECT":
                await _send(writer, b"HTTP/1.1 200 Connection established\r\n\r\n")
                await until_first_ends(
                    self._copy_to_client(stream, writer), self._copy_to_server(stream, reader)
                )
                return
            message = request.head + body
            self._count(message)
            await stream.write(message, timeout=self._idle)
            try:
                head, rest = await self._read_response_head(stream)
            except _InvalidMessage:
                return await _respond(writer, "502 Bad Gateway")
            await _send(writer, head + rest)
            # What the client sends after its request is dropped: it may be one for another host.
            await until_first_ends(self._copy_to_client(stream, writer), reader.read(1))
        finally:
            await stream.aclose()

    async def _read_response_head(self, stream: Stream) -> tuple[bytes, bytes]:
        """The head of the final response, and what was received of its body."""
        received = b""
        for _ in range(MAX_INTERIM_RESPONSES + 1):
            while b"\r\n\r\n" not in received:
                chunk = await stream.read(CHUNK_BYTES, timeout=self._idle)
                received += chunk
                self._count(chunk)
                if not chunk or len(received) > MAX_HEAD_BYTES:
                    raise _InvalidMessage("incomplete response head")
            end = received.index(b"\r\n\r\n") + 4
            status_line, headers = _parse_head(received[:end])
            match = _STATUS_LINE.fullmatch(status_line)
            if match is None:
                raise _InvalidMessage("malformed status line")
            received = received[end:]
            if not match[1].startswith("1"):
                forwarded = _forwarded_headers(headers, _DROPPED_RESPONSE_HEADERS)
                return _encode_head([status_line, *forwarded, "Connection: close"]), received
        raise _InvalidMessage("too many interim responses")

    async def _copy_to_client(self, stream: Stream, writer: StreamWriter) -> None:
        while chunk := await stream.read(CHUNK_BYTES, timeout=self._idle):
            self._count(chunk)
            await _send(writer, chunk)

    async def _copy_to_server(self, stream: Stream, reader: StreamReader) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            self._count(chunk)
            await stream.write(chunk, timeout=self._idle)

    def _count(self, data: bytes) -> None:
        self.transferred_bytes += len(data)
        if self.transferred_bytes > self._max_bytes:
            self.limit_reached.set()
            for task in self._tasks - {asyncio.current_task()}:
                task.cancel()
            raise _LimitReached


class _LimitReached(Exception):
    """More than `max_bytes` were transferred."""


class _InvalidMessage(Exception):
    """A request or response that is malformed or not allowed."""


@dataclass(frozen=True, slots=True)
class _ProxyRequest:
    method: str
    #: Where to connect to; for CONNECT it has no path.
    url: httpx.URL
    #: For the server, which closes the connection after its response.
    head: bytes
    body_bytes: int
    authorization: str


def _parse_request(head: bytes) -> _ProxyRequest:
    request_line, headers = _parse_head(head)
    match = _REQUEST_LINE.fullmatch(request_line)
    if match is None:
        raise _InvalidMessage("malformed request line")
    method, target = match.groups()
    is_tunnel = method == "CONNECT"
    if is_tunnel and not _AUTHORITY.fullmatch(target):
        raise _InvalidMessage("malformed authority")
    try:
        url = httpx.URL(f"https://{target}" if is_tunnel else target)
    except httpx.InvalidURL:
        raise _InvalidMessage("malformed URL") from None
    if not is_tunnel and (url.scheme != "http" or not url.host):
        raise _InvalidMessage("not an absolute http:// URL")
    # The length of the body: what servers might interpret differently is rejected.
    if _values(headers, "transfer-encoding"):
        raise _InvalidMessage("Content-Length is required")
    lengths = _values(headers, "content-length") or ["0"]
    is_number = re.fullmatch("[0-9]{1,9}", lengths[0])
    if len(lengths) > 1 or not is_number or int(lengths[0]) > MAX_BODY_BYTES:
        raise _InvalidMessage("invalid Content-Length")
    keys = _values(headers, "proxy-authorization")
    key = keys[0] if len(keys) == 1 else ""
    lines = [
        f"{method} {url.raw_path.decode('ascii')} HTTP/1.1",
        f"Host: {url.netloc.decode('ascii')}",
        *_forwarded_headers(headers, _DROPPED_REQUEST_HEADERS),
        "Connection: close",
    ]
    return _ProxyRequest(method, url, _encode_head(lines), int(lengths[0]), key)


def _values(headers: Headers, wanted: str) -> list[str]:
    return [value for name, value in headers if name.lower() == wanted]


def _parse_head(head: bytes) -> tuple[str, Headers]:
    first, *lines = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    if len(lines) > MAX_HEADERS:
        raise _InvalidMessage("too many headers")
    headers = []
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise _InvalidMessage("malformed header")
        headers.append((match[1], match[2].rstrip(" \t")))
    return first, tuple(headers)


def _forwarded_headers(headers: Headers, dropped: frozenset[str]) -> list[str]:
    # Headers that the Connection header names are about that connection, too.
    values = _values(headers, "connection")
    named = {name.strip().lower() for value in values for name in value.split(",")}
    dropped |= named - {"content-length", "transfer-encoding", "content-type"}
    return [f"{name}: {value}" for name, value in headers if name.lower() not in dropped]


def _encode_head(lines: Sequence[str]) -> bytes:
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def until_first_ends(*coroutines: Coroutine[Any, Any, object]) -> object:
    """Run until one of them ends, then cancel the others. Returns its result, or raises its error
    if it failed."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    results = [task.result() for task in done]
    return results[0]


async def _send(writer: StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def _respond(writer: StreamWriter, status: str, *headers: str) -> None:
    lines = [f"HTTP/1.1 {status}", *headers, "Content-Length: 0", "Connection: close"]
    await _send(writer, _encode_head(lines))
