"""HTTP clients that reach public addresses and allowed hosts only."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cached_property
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from threading import Thread
from typing import Any

import httpx

from ..core.errors import AddressRefused
from .addresses import AllowList, IPAddress, as_host, is_private_name, is_public, unmapped
from .transport import CheckedTransport, Connect, TcpStream, line_to, tcp_connection

RESOLVE_SECONDS = 10.0


async def system_addresses(host: str, port: int) -> Sequence[str]:
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
        resolve: Resolve = system_addresses,
        connect: Connect = tcp_connection,
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
        if self._allowed.has(host, port):
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
        return await line_to(self._addresses, self._connect, str(host), port)

    async def _addresses(self, host: str, port: int) -> list[str]:
        """The addresses to which a connection may be made; all are checked, or none is given."""
        target = as_host(host)
        if not isinstance(target, str):
            found = [target]
        else:
            found = [unmapped(ip_address(text)) for text in await self._resolve(target, port)]
        if not self._allowed.has(target, port):
            for address in found:
                if not is_public(address) and not self._allowed.has(address, port):
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
        host = as_host(text)
    except ValueError:
        raise AddressRefused(f"{shown} is not a valid host", host=shown) from None
    port = DEFAULT_PORTS[parsed.scheme] if parsed.port is None else parsed.port
    if not 0 < port < 65536:
        raise AddressRefused(f"The URL of {shown} has an impossible port", host=shown)
    return parsed.scheme, host, port


def _not_public(host: str | IPAddress) -> AddressRefused:
    text = f"{host} is not a public address, and not among the allowed hosts"
    return AddressRefused(text, host=str(host))
