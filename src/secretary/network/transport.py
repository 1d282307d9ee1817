"""HTTP over connections to addresses that were approved."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import httpcore
import httpx

from ..core.errors import AddressRefused

#: Raises AddressRefused for a URL that must not be asked for.
Check = Callable[[httpx.URL], None]
#: Gives the approved addresses of a host and port, or raises AddressRefused.
Addresses = Callable[[str, int], Awaitable[Sequence[str]]]
#: Connects to an address and a port, within seconds.
Connect = Callable[[str, int, float], Awaitable[httpcore.AsyncNetworkStream]]

CONNECT_SECONDS = 10.0
#: One dead address of several must not use up the time of the others.
CONNECT_SECONDS_EACH = 3.0


class TcpStream:
    """A connection for bytes of any kind; what breaks it is a ConnectionError."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, seconds: float) -> bytes:
        """What comes next, within so many seconds; nothing when the other side has ended."""
        with _as_connection_error():
            return await self._stream.read(65536, timeout=seconds)

    async def write(self, data: bytes, seconds: float) -> None:
        with _as_connection_error():
            await self._stream.write(data, timeout=seconds)

    async def close(self) -> None:
        await self._stream.aclose()


async def line_to(addresses: Addresses, connect: Connect, host: str, port: int) -> TcpStream:
    with _as_connection_error():
        return TcpStream(await _CheckedBackend(addresses, connect).connect_tcp(host, port))


@contextmanager
def _as_connection_error() -> Iterator[None]:
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError) as error:
        raise ConnectionError(str(error)) from error


async def tcp_connection(address: str, port: int, seconds: float) -> httpcore.AsyncNetworkStream:
    return await httpcore.AnyIOBackend().connect_tcp(address, port, timeout=seconds)


class CheckedTransport(httpx.AsyncBaseTransport):
    """httpx on a pool whose every request and every connection is checked first."""

    def __init__(
        self, check: Check, addresses: Addresses, connect: Connect, tls: ssl.SSLContext
    ) -> None:
        self._check = check
        # Connections are kept by name and port, so that one is never used for another name.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5,
            network_backend=_CheckedBackend(addresses, connect),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._check(request.url)
        url = request.url
        asked = httpcore.Request(
            request.method,
            httpcore.URL(
                scheme=url.raw_scheme,
                host=url.raw_host.removesuffix(b"."),  # certificates have no dot at the end
                port=url.port,
                target=url.raw_path,
            ),
            headers=[(b"Host", url.netloc), *_without_host(request.headers)],
            content=request.stream,
            # All others could lead elsewhere (`sni_hostname`, `target`).
            extensions={"timeout": request.extensions.get("timeout", {})},
        )
        with _as_httpx():
            answer = await self._pool.handle_async_request(asked)
        return httpx.Response(
            answer.status,
            headers=_without_broken_location(url, httpx.Headers(answer.headers)),
            stream=_Body(answer),
            extensions={
                key: value for key, value in answer.extensions.items() if key != "network_stream"
            },
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


def _without_host(headers: httpx.Headers) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers.raw if name.lower() != b"host"]


def _without_broken_location(url: httpx.URL, headers: httpx.Headers) -> httpx.Headers:
    """httpx reads a Location before anyone asks it to, and fails in ways it does not document."""
    try:
        _ = url.join(headers.get("location", "")).host
    except (httpx.InvalidURL, ValueError):
        del headers["location"]
    return headers


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx():
            async for part in self._answer.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


@contextmanager
def _as_httpx() -> Iterator[None]:
    """Errors of the lower layer as those that httpx documents; each has the same name in both."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
        raise kind(str(error)) from error
    except ssl.SSLError as error:
        raise httpx.ReadError(str(error)) from error


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, addresses: Addresses, connect: Connect) -> None:
        self._addresses = addresses
        self._connect = connect

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (the signature is httpcore's)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout or CONNECT_SECONDS):
                addresses = await self._addresses(host, port)
                return await self._first(addresses, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"No connection to {host} in time") from error
        except (OSError, ValueError) as error:  # the resolver's
            raise httpcore.ConnectError(f"The name {host} cannot be resolved") from error

    async def _first(self, addresses: Sequence[str], port: int) -> httpcore.AsyncNetworkStream:
        """A connection to the first address that answers: the addresses, not the name again."""
        for number, address in enumerate(addresses, start=1):
            last = number == len(addresses)
            seconds = CONNECT_SECONDS if last else CONNECT_SECONDS_EACH
            try:
                return await self._connect(address, port, seconds)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if last:
                    raise
        raise httpcore.ConnectError("The name has no addresses")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109  (the signature is httpcore's)
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise AddressRefused("Sockets of this machine are not reached by HTTP")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
