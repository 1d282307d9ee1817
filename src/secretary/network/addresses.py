"""What a host in a URL means, and which addresses are public."""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

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


def as_host(text: str) -> str | IPAddress:
    """The address that `text` spells, in any form a resolver would take, or the name it is."""
    host = text.lower().removesuffix(".")
    if ":" in host:
        return unmapped(IPv6Address(host))
    labels = as_ascii(host).split(".")
    if NUMBER.fullmatch(labels[-1]):
        return _ipv4(labels)
    if len(host) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise ValueError("it is not a host name")
    return ".".join(labels)


def as_ascii(name: str) -> str:
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


def unmapped(address: IPAddress) -> IPAddress:
    """`::ffff:10.0.0.1` is 10.0.0.1: the system would connect to that."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_public(address: IPAddress) -> bool:
    address = unmapped(address)
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
