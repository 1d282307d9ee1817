"""Address rules: which addresses are public, and which hosts are allowed although they are not."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

IPAddress = IPv4Address | IPv6Address

LABEL = re.compile(r"[a-z0-9_-]{1,63}")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

#: Not public, although `ipaddress` (at least in some Python versions) calls them global.
NOT_PUBLIC = (
    IPv4Network("168.63.129.16/32"),  # Azure's metadata and wire server
    IPv4Network("192.0.0.0/24"),  # protocol assignments, including Oracle's metadata service
    IPv4Network("192.88.99.0/24"),  # 6to4 relays
    IPv6Network("2001::/32"),  # Teredo: tunnels to an embedded IPv4 address
    IPv6Network("3fff::/20"),  # documentation
)
#: Reachable with `network.allow_private`: this machine and local networks.
LOCAL_NETWORKS = (
    IPv4Network("127.0.0.0/8"),
    IPv4Network("10.0.0.0/8"),
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.168.0.0/16"),
    IPv4Network("100.64.0.0/10"),  # shared by carriers, and by overlay networks such as Tailscale
    IPv6Network("::1/128"),
    IPv6Network("fc00::/7"),
)
#: Metadata services inside these networks. The others use link-local addresses or NOT_PUBLIC.
LOCAL_METADATA = (
    IPv4Network("100.100.100.200/32"),  # Alibaba
    IPv6Network("fd00:ec2::/32"),  # Amazon
    IPv6Network("fd20:ce::/32"),  # Google
    IPv6Network("fd00:c1::/32"),  # Oracle
)
GLOBAL_UNICAST = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")


def parse_host(text: str) -> str | IPAddress:
    """The IP address that `text` spells in any form that resolvers accept, or a host name. Raises
    ValueError if it is neither."""
    host = text.lower().removesuffix(".")
    if ":" in host:
        return unmap_ipv4(IPv6Address(host))
    if not host.isascii():
        import idna  # large, and hardly ever needed

        host = idna.encode(host, uts46=True).decode("ascii")
    labels = host.split(".")
    if NUMBER.fullmatch(labels[-1]):
        return _parse_ipv4(labels)
    if len(host) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise ValueError("not a host name")
    return host


def _parse_ipv4(labels: list[str]) -> IPv4Address:
    """Like inet_aton of the C library: one to four decimal, octal or hexadecimal numbers."""
    numbers = []
    for label in labels:
        if label.startswith("0x"):
            numbers.append(int(label[2:] or "0", 16))
        elif label.isdigit():
            numbers.append(int(label, 8 if label.startswith("0") else 10))
        else:
            raise ValueError("not an IPv4 address")
    *first, last = numbers
    bits = 8 * (4 - len(first))
    if len(first) > 3 or any(number > 255 for number in first) or last >= 1 << bits:
        raise ValueError("not an IPv4 address")
    return IPv4Address(int.from_bytes(bytes(first)) << bits | last)


def unmap_ipv4(address: IPAddress) -> IPAddress:
    """Turn `::ffff:10.0.0.1` into 10.0.0.1, which is what the system would connect to."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_public(address: IPAddress) -> bool:
    address = unmap_ipv4(address)
    if any(address in network for network in NOT_PUBLIC):
        return False
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    if address.scope_id is not None:
        return False
    # The IPv4 address to which a NAT64 or 6to4 gateway forwards packets for this one.
    is_nat64 = address in NAT64
    embedded = IPv4Address(int(address) & 0xFFFFFFFF) if is_nat64 else address.sixtofour
    if embedded is not None:
        return is_public(embedded)
    return address in GLOBAL_UNICAST and address.is_global


def is_local(address: IPAddress) -> bool:
    """Whether it is an address of this machine or of a local network. Link-local addresses and
    metadata services are not: their answers contain credentials."""
    address = unmap_ipv4(address)
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    is_metadata = any(address in network for network in LOCAL_METADATA)
    return not is_metadata and any(address in network for network in LOCAL_NETWORKS)


def is_private_name(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """An entry of the allow list: a name (`.domain` for all names below it) or a range of
    addresses, on one port or all."""

    target: str | IPv4Network | IPv6Network
    port: int | None = None

    def matches(self, host: str | IPAddress, port: int) -> bool:
        if self.port not in (None, port):
            return False
        if not isinstance(self.target, str):
            return not isinstance(host, str) and host in self.target
        if not isinstance(host, str):
            return False
        return host.endswith(self.target) if self.target[0] == "." else host == self.target


class AllowList:
    def __init__(self, entries: Iterable[str]) -> None:
        self._hosts = tuple(parse_allowed_host(entry) for entry in entries)
        #: Whether names may be allowed because of the addresses they resolve to.
        self.has_ranges = any(not isinstance(allowed.target, str) for allowed in self._hosts)

    def allows(self, host: str | IPAddress, port: int) -> bool:
        return any(allowed.matches(host, port) for allowed in self._hosts)


def parse_allowed_host(entry: str) -> AllowedHost:
    """Raises ValueError if the entry is malformed."""
    text = entry.strip().lower()
    try:
        if "/" in text:
            return AllowedHost(ip_network(text))
        name, port = _split_port(text)
        if name.startswith("*."):
            domain = parse_host(name[2:])
            if not isinstance(domain, str):
                raise ValueError("addresses have no subdomains")
            return AllowedHost(f".{domain}", port)
        host = parse_host(name)
        return AllowedHost(host if isinstance(host, str) else ip_network(host), port)
    except ValueError as error:
        forms = "a host, host:port, *.domain, an address or a range like 10.0.0.0/8"
        raise ValueError(f"{entry!r} is not {forms}") from error


def _split_port(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError("unbalanced brackets")
        digits = rest[1:] if rest else None
    elif text.count(":") == 1:
        host, _, digits = text.partition(":")
    else:
        host, digits = text, None
    if digits is None:
        return host, None
    port = int(digits) if digits.isascii() and digits.isdigit() else 0
    if not 0 < port < 65536:
        raise ValueError("not a port")
    return host, port
