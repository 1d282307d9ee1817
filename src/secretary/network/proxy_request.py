"""What a program may ask of a proxy, read so strictly that nobody can read it otherwise."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

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
