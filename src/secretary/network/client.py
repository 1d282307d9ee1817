"""HTTP clients that reach public addresses and allowed hosts only."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from threading import Thread
from typing import Any

import httpcore
import httpx

from ..core.errors import AddressRefused
from .addresses import AllowList, IPAddress, is_private_name, is_public, parse_host, unmap_ipv4

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


async def open_tcp_stream(
    addresses: Addresses, connect: Connect, host: str, port: int
) -> TcpStream:
    with _as_connection_error():
        return TcpStream(await _CheckedBackend(addresses, connect).connect_tcp(host, port))


@contextmanager
def _as_connection_error() -> Iterator[None]:
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError) as error:
        raise ConnectionError(str(error)) from error


async def connect_tcp(address: str, port: int, seconds: float) -> httpcore.AsyncNetworkStream:
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


RESOLVE_SECONDS = 10.0


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """
    What the system's resolver says. It cannot be stopped while it waits for a name server, so it
    gets a thread of its own: those that everyone shares would soon all be waiting.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[str]] = loop.create_future()

    def settle(settled: Callable[[Any], None], value: object) -> None:
        if not answer.done():
            settled(value)

    def look_up() -> None:
        with suppress(RuntimeError):  # the loop has ended in the meantime
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                loop.call_soon_threadsafe(settle, answer.set_exception, error)
            else:
                addresses = [str(address[0]) for *_, address in found]
                loop.call_soon_threadsafe(settle, answer.set_result, addresses)

    Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    async with asyncio.timeout(RESOLVE_SECONDS):
        return await answer


logger = logging.getLogger(__name__)

#: Gives the addresses of a name; the port is for resolvers that want to know.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

DEFAULT_TIMEOUT = httpx.Timeout(30, connect=10)
DEFAULT_PORTS = {"http": 80, "https": 443}
#: Other services that might take a request for commands; no web server listens there.
NO_WEB_PORTS = frozenset(
    {21, 22, 23, 25, 53, 110, 119, 143, 389, 465, 587, 636, 993, 995, 5060, 6379, 6667, 11211}
)


class Network:
    """What may be reached: public addresses, and the hosts an operator has allowed."""

    def __init__(
        self,
        allow_hosts: Sequence[str] = (),
        *,
        resolve: Resolve = resolve_host,
        connect: Connect = connect_tcp,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = AllowList(allow_hosts)
        self._resolve = resolve
        self._connect = connect
        self._ssl_context = ssl_context

    def check(self, url: str | httpx.URL, *, https_only: bool = False) -> None:
        """
        Raise AddressRefused for a URL that can be told to be wrong without asking for its name.
        With `https_only` plain http is refused too, except for allowed hosts.
        """
        scheme, host, port = _read(url)
        if self._allowed.allows(host, port):
            return
        if https_only and scheme != "https":
            raise AddressRefused(f"The address of {host} must begin with https://", host=str(host))
        if port in NO_WEB_PORTS:
            raise AddressRefused(f"Port {port} of {host} is not for the web", host=str(host))
        if self._is_private(host):
            raise _not_public(host)

    def _is_private(self, host: str | IPAddress) -> bool:
        if isinstance(host, str):
            return is_private_name(host) and not self._allowed.has_ranges
        return not is_public(host)

    def client(self, *, timeout: httpx.Timeout | float = DEFAULT_TIMEOUT) -> httpx.AsyncClient:
        """
        A client that connects to checked addresses only, for each request it makes. It knows no
        proxies, no netrc and no sockets of this machine, keeps no cookies, and follows no
        redirects by itself.
        """
        return httpx.AsyncClient(
            transport=CheckedTransport(self.check, self._addresses, self._connect, self._tls),
            timeout=timeout,
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )

    async def dial(self, url: str | httpx.URL) -> TcpStream:
        """A bare connection to where `url` leads, if a request for it would be allowed."""
        self.check(url)
        _, host, port = _read(url)
        return await open_tcp_stream(self._addresses, self._connect, str(host), port)

    async def _addresses(self, host: str, port: int) -> list[str]:
        """The addresses to which a connection may be made; all are checked, or none is given."""
        target = parse_host(host)
        if not isinstance(target, str):
            found = [target]
        else:
            found = [unmap_ipv4(ip_address(text)) for text in await self._resolve(target, port)]
        if not self._allowed.allows(target, port):
            for address in found:
                if not is_public(address) and not self._allowed.allows(address, port):
                    logger.warning("Refused to connect to %s: it leads to %s", host, address)
                    raise _not_public(target)
        return list(dict.fromkeys(str(address) for address in found))

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # The environment may name an authority of the house's own (SSL_CERT_FILE).
        return self._ssl_context or httpx.create_ssl_context(trust_env=True)


def _read(url: str | httpx.URL) -> tuple[str, str | IPAddress, int]:
    """Scheme, host and port, as the client will understand them."""
    try:
        parsed = httpx.URL(url)
        _ = parsed.host  # raises when the name is no word in any script
        text = parsed.raw_host.decode("ascii")
    except (httpx.InvalidURL, ValueError):
        raise AddressRefused("The URL cannot be read") from None
    if parsed.scheme not in DEFAULT_PORTS:
        raise AddressRefused("The URL must begin with https:// or http://")
    if not text:
        raise AddressRefused("The URL names no host")
    shown = text[:100]
    if parsed.userinfo:
        raise AddressRefused(f"The URL of {shown} must not hold a user or password", host=shown)
    try:
        host = parse_host(text)
    except ValueError:
        raise AddressRefused(f"{shown} is not a valid host", host=shown) from None
    port = DEFAULT_PORTS[parsed.scheme] if parsed.port is None else parsed.port
    if not 0 < port < 65536:
        raise AddressRefused(f"The URL of {shown} has an impossible port", host=shown)
    return parsed.scheme, host, port


def _not_public(host: str | IPAddress) -> AddressRefused:
    text = f"{host} is not a public address, and not among the allowed hosts"
    return AddressRefused(text, host=str(host))
