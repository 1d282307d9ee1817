"""What a host in a URL means, and which addresses are public."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

IPAddress = IPv4Address | IPv6Address

LABEL = re.compile(r"[a-z0-9_-]{1,63}")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

#: Names that stand for this machine or its own network, wherever they are asked for.
PRIVATE_NAMES = ("localhost",)

#: Not public although `ipaddress` (of some Python version at least) calls them global.
NOT_PUBLIC = (
    IPv4Network("168.63.129.16/32"),  # Azure's metadata and wire server
    IPv4Network("192.0.0.0/24"),  # protocol assignments, Oracle's metadata among them
    IPv4Network("192.88.99.0/24"),  # relays from IPv4 to 6to4
    IPv6Network("2001::/32"),  # Teredo: a tunnel to an IPv4 address inside
    IPv6Network("3fff::/20"),  # documentation
)
GLOBAL_UNICAST = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")


def parse_host(text: str) -> str | IPAddress:
    """The address that `text` spells, in any form a resolver would take, or the name it is."""
    host = text.lower().removesuffix(".")
    if ":" in host:
        return unmap_ipv4(IPv6Address(host))
    labels = to_ascii(host).split(".")
    if NUMBER.fullmatch(labels[-1]):
        return _ipv4(labels)
    if len(host) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise ValueError("it is not a host name")
    return ".".join(labels)


def to_ascii(name: str) -> str:
    if name.isascii():
        return name
    import idna  # large, and hardly ever needed

    return idna.encode(name, uts46=True).decode("ascii")


def _ipv4(labels: list[str]) -> IPv4Address:
    """Read like C's inet_aton: one to four numbers, each decimal, octal or hexadecimal."""
    *first, last = (_number(label) for label in labels)
    if len(first) > 3 or any(number > 255 for number in first):
        raise ValueError("it is not an address")
    room = 8 * (4 - len(first))
    if last >= 1 << room:
        raise ValueError("it is not an address")
    value = int.from_bytes(bytes(first)) << room | last
    return IPv4Address(value)


def _number(label: str) -> int:
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    if not label.isdigit():
        raise ValueError("it is not an address")
    return int(label, 8 if label.startswith("0") else 10)


def unmap_ipv4(address: IPAddress) -> IPAddress:
    """`::ffff:10.0.0.1` is 10.0.0.1: the system would connect to that."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_public(address: IPAddress) -> bool:
    address = unmap_ipv4(address)
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and not _is_excepted(address)
    if address.scope_id is not None:
        return False
    tunnelled = _tunnelled(address)
    if tunnelled is not None:
        return is_public(tunnelled)
    return address in GLOBAL_UNICAST and address.is_global and not _is_excepted(address)


def _is_excepted(address: IPAddress) -> bool:
    return any(address in network for network in NOT_PUBLIC)


def _tunnelled(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address to which a gateway would carry what is sent to this one."""
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour


def is_private_name(name: str) -> bool:
    return any(name == private or name.endswith(f".{private}") for private in PRIVATE_NAMES)


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
        self._hosts = tuple(parse_allowed_host(entry) for entry in entries)

    @property
    def has_ranges(self) -> bool:
        """Whether a name could be allowed by where it leads."""
        return any(not isinstance(allowed.place, str) for allowed in self._hosts)

    def allows(self, host: str | IPAddress, port: int) -> bool:
        return any(allowed.fits(host, port) for allowed in self._hosts)


def parse_allowed_host(entry: str) -> AllowedHost:
    """What an entry means; ValueError when it means nothing."""
    text = entry.strip().lower()
    try:
        if "/" in text:
            return AllowedHost(ip_network(text))
        name, port = _without_port(text)
        if name.startswith("*."):
            below = parse_host(name[2:])
            if not isinstance(below, str):
                raise ValueError("addresses have no names below them")
            return AllowedHost(f".{below}", port)
        host = parse_host(name)
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
