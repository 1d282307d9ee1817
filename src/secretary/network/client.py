"""HTTP clients that reach only public addresses and allowed hosts.

Host names are resolved and checked for every new connection, and the connection goes to the
checked address, so DNS rebinding does not help an attacker.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cached_property
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from threading import Thread

import httpcore
import httpx

from ..core.errors import AddressRefused
from .addresses import (
    AllowList,
    IPAddress,
    is_local,
    is_private_name,
    is_public,
    parse_host,
    unmap_ipv4,
)

logger = logging.getLogger(__name__)

#: Returns the addresses of a host and port.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
#: Connects to an address and port, with a timeout in seconds.
Connect = Callable[[str, int, float], Awaitable[httpcore.AsyncNetworkStream]]

DEFAULT_TIMEOUT = httpx.Timeout(30, connect=10)
DEFAULT_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=5)
CONNECT_TIMEOUT = 10.0
#: For each address but the last, so that a dead one does not use up the time of the others.
CONNECT_TIMEOUT_EACH = 3.0
RESOLVE_TIMEOUT = 10.0
DEFAULT_PORTS = {"http": 80, "https": 443}
#: Ports of other protocols, whose servers might mistake a request for commands.
BLOCKED_PORTS = frozenset(
    {21, 22, 23, 25, 53, 110, 119, 143, 389, 465, 587, 636, 993, 995, 5060, 6379, 6667, 11211}
)


class Network:
    """Checks outgoing requests: only public addresses and allowed hosts can be reached; for
    development, `allow_private` adds this machine and local networks."""

    def __init__(
        self,
        allow_hosts: Sequence[str] = (),
        *,
        allow_private: bool = False,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = AllowList(allow_hosts)
        self._allow_private = allow_private
        self._resolve = resolve_host if resolve is None else resolve
        connect = connect_tcp if connect is None else connect
        self._backend = _CheckedBackend(self._addresses, connect)
        self._ssl_context = ssl_context

    def check(self, url: str | httpx.URL, *, https_only: bool = False) -> None:
        """Raise AddressRefused for a URL that is not allowed, as far as that is clear before
        resolving its name. With `https_only`, only allowed hosts may use plain HTTP, and names
        if they may be private."""
        scheme, host, port = _parse_url(url)
        if self._allowed.allows(host, port):
            return
        if https_only and scheme != "https" and not self._may_be_local(host):
            raise AddressRefused(f"The URL of {host} must begin with https://", host=str(host))
        if port in BLOCKED_PORTS:
            raise AddressRefused(f"Port {port} of {host} is blocked", host=str(host))
        if self._may_be_local(host):
            return
        if isinstance(host, str):
            is_private = is_private_name(host) and not self._allowed.has_ranges
        else:
            is_private = not is_public(host)
        if is_private:
            raise _not_public(host)

    def _may_be_local(self, host: str | IPAddress) -> bool:
        """Whether `allow_private` allows the host; the addresses of a name are checked later."""
        return self._allow_private and (isinstance(host, str) or is_local(host))

    def client(
        self,
        *,
        timeout: httpx.Timeout | float = DEFAULT_TIMEOUT,
        limits: httpx.Limits = DEFAULT_LIMITS,
    ) -> httpx.AsyncClient:
        """A client that checks every request. It ignores proxies and netrc, stores no cookies, and
        follows no redirects by default."""
        return httpx.AsyncClient(
            transport=_CheckedTransport(self.check, self._backend, self._tls, limits),
            timeout=timeout,
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )

    async def dial(self, url: str | httpx.URL) -> httpcore.AsyncNetworkStream:
        """A TCP connection to the host of `url`, if a request for it would be allowed."""
        self.check(url)
        _, host, port = _parse_url(url)
        return await self._backend.connect_tcp(str(host), port)

    async def _addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host. Raises AddressRefused if any of them is not allowed."""
        target = parse_host(host)
        if not isinstance(target, str):
            addresses = [target]
        else:
            addresses = [unmap_ipv4(ip_address(text)) for text in await self._resolve(target, port)]
        if not self._allowed.allows(target, port):
            for address in addresses:
                is_allowed = self._allow_private and is_local(address)
                is_allowed = is_allowed or self._allowed.allows(address, port)
                if not is_public(address) and not is_allowed:
                    logger.warning("Refused to connect to %s: it resolves to %s", host, address)
                    raise _not_public(target)
        return list(dict.fromkeys(str(address) for address in addresses))

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # The environment may name a private certificate authority (SSL_CERT_FILE).
        return self._ssl_context or httpx.create_ssl_context(trust_env=True)


def _parse_url(url: str | httpx.URL) -> tuple[str, str | IPAddress, int]:
    """Scheme, host and port, as the client will interpret them."""
    try:
        parsed = httpx.URL(url)
        _ = parsed.host  # raises if the name is not valid IDNA
        text = parsed.raw_host.decode("ascii")
    except (httpx.InvalidURL, ValueError):
        raise AddressRefused("The URL is malformed") from None
    if parsed.scheme not in DEFAULT_PORTS:
        raise AddressRefused("The URL must begin with https:// or http://")
    if not text:
        raise AddressRefused("The URL has no host")
    shown = text[:100]
    if parsed.userinfo:
        raise AddressRefused(f"The URL of {shown} must not contain credentials", host=shown)
    try:
        host = parse_host(text)
    except ValueError:
        raise AddressRefused(f"{shown} is not a valid host", host=shown) from None
    port = DEFAULT_PORTS[parsed.scheme] if parsed.port is None else parsed.port
    if not 0 < port < 65536:
        raise AddressRefused(f"The URL of {shown} has an invalid port", host=shown)
    return parsed.scheme, host, port


def _not_public(host: str | IPAddress) -> AddressRefused:
    text = f"{host} is not a public address, and not among the allowed hosts"
    return AddressRefused(text, host=str(host))


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver. Its calls cannot be cancelled, so each runs in a thread of its
    own: slow name servers would soon block all threads of a shared pool."""
    addresses: Future[Sequence[str]] = Future()
    addresses.set_running_or_notify_cancel()  # the thread sets a result even after a timeout

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            addresses.set_exception(error)
        else:
            addresses.set_result([str(address[0]) for *_, address in found])

    Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    async with asyncio.timeout(RESOLVE_TIMEOUT):
        return await asyncio.wrap_future(addresses)


async def connect_tcp(address: str, port: int, seconds: float) -> httpcore.AsyncNetworkStream:
    return await httpcore.AnyIOBackend().connect_tcp(address, port, timeout=seconds)


class _CheckedTransport(httpx.AsyncBaseTransport):
    """An httpx transport that checks every request before it uses the connection pool."""

    def __init__(
        self,
        check: Callable[[httpx.URL], None],
        backend: httpcore.AsyncNetworkBackend,
        tls: ssl.SSLContext,
        limits: httpx.Limits,
    ) -> None:
        self._check = check
        # The pool reuses connections by name and port, never for another name.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=backend,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        self._check(url)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"host"]
        core_request = httpcore.Request(
            request.method,
            httpcore.URL(
                scheme=url.raw_scheme,
                host=url.raw_host.removesuffix(b"."),  # certificates have no trailing dot
                port=url.port,
                target=url.raw_path,
            ),
            headers=[(b"Host", url.netloc), *headers],
            content=request.stream,
            # Others could redirect the request (`sni_hostname`, `target`).
            extensions={"timeout": request.extensions.get("timeout", {})},
        )
        with _as_httpx_errors():
            response = await self._pool.handle_async_request(core_request)
        answered = httpx.Headers(response.headers)
        try:  # httpx builds the next request even if it follows no redirects
            _ = url.join(answered.get("location", "")).host
            following = httpx.URL(answered.get("location", ""))
            if following.scheme and not following.host:
                following.copy_with(host=url.host)
        except (httpx.InvalidURL, ValueError):  # undocumented errors
            del answered["location"]
        extensions = {
            key: value for key, value in response.extensions.items() if key != "network_stream"
        }
        return httpx.Response(
            response.status,
            headers=answered,
            stream=_ResponseStream(response),
            extensions=extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _ResponseStream(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx_errors():
            async for chunk in self._response.aiter_stream():
                yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _as_httpx_errors() -> Iterator[None]:
    """Raise the errors of httpcore as the errors of httpx with the same names."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        error_type: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
        raise error_type(str(error)) from error
    except ssl.SSLError as error:
        raise httpx.ReadError(str(error)) from error


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that `addresses` returns for a host."""

    def __init__(self, addresses: Resolve, connect: Connect) -> None:
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
            async with asyncio.timeout(timeout or CONNECT_TIMEOUT):
                addresses = await self._addresses(host, port)
                for number, address in enumerate(addresses, start=1):
                    is_last = number == len(addresses)
                    limit = CONNECT_TIMEOUT if is_last else CONNECT_TIMEOUT_EACH
                    try:
                        return await self._connect(address, port, limit)
                    except (httpcore.ConnectError, httpcore.ConnectTimeout):
                        if is_last:
                            raise
                raise httpcore.ConnectError("The name has no addresses")
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"Timeout while connecting to {host}") from error
        except (OSError, ValueError) as error:  # from the resolver
            raise httpcore.ConnectError(f"The name {host} cannot be resolved") from error
