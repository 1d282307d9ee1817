"""The hosts an operator has opened, although they may be private."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from .addresses import IPAddress, as_host

FORMS = "a host, host:port, *.domain, an address or a range like 10.0.0.0/8"


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """One entry: a name (with a dot in front: all names below it) or a range of addresses."""

    place: str | IPv4Network | IPv6Network
    port: int | None = None

    def fits(self, host: str | IPAddress, port: int) -> bool:
        if self.port not in (None, port):
            return False
        if isinstance(self.place, str):
            return isinstance(host, str) and self._names(host)
        return not isinstance(host, str) and host in self.place

    def _names(self, host: str) -> bool:
        assert isinstance(self.place, str)
        return host.endswith(self.place) if self.place[0] == "." else host == self.place


class AllowList:
    def __init__(self, entries: Iterable[str]) -> None:
        self._hosts = tuple(allowed_host(entry) for entry in entries)

    @property
    def has_ranges(self) -> bool:
        """Whether a name could be allowed by where it leads."""
        return any(not isinstance(allowed.place, str) for allowed in self._hosts)

    def has(self, host: str | IPAddress, port: int) -> bool:
        return any(allowed.fits(host, port) for allowed in self._hosts)


def allowed_host(entry: str) -> AllowedHost:
    """What an entry means; ValueError when it means nothing."""
    text = entry.strip().lower()
    try:
        if "/" in text:
            return AllowedHost(ip_network(text))
        name, port = _without_port(text)
        if name.startswith("*."):
            below = as_host(name[2:])
            if not isinstance(below, str):
                raise ValueError("addresses have no names below them")
            return AllowedHost(f".{below}", port)
        host = as_host(name)
        return AllowedHost(host if isinstance(host, str) else ip_network(host), port)
    except ValueError as error:
        raise ValueError(f"{entry!r} is not {FORMS}") from error


def _without_port(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError("the brackets are not closed")
        return host, _port(rest[1:]) if rest else None
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _port(port)
    return text, None


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < port < 65536:
        raise ValueError("it is not a port")
    return port
