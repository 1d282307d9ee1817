"""A client that sends malformed requests, byte by byte."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from ..http_servers import answering

SECONDS = 10.0


@dataclass(frozen=True)
class Answer:
    """`status` is 0 if the server closed the connection without a response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    with socket.create_connection((parts.hostname, parts.port or 80), SECONDS) as connection:
        yield connection


def send(url: str, data: bytes, *, seconds: float = SECONDS) -> list[Answer]:
    """All responses on one connection until the server closes it or stops sending."""
    with connected(url) as connection:
        with suppress(OSError):  # the server may close the connection while we send
            connection.sendall(data)
        connection.settimeout(seconds)
        return answers(received(connection))


def received(connection: socket.socket) -> bytes:
    """Everything until the connection is closed."""
    data = bytearray()
    with suppress(ConnectionResetError, TimeoutError):
        while piece := connection.recv(65536):
            data += piece
    return bytes(data)


def answers(data: bytes) -> list[Answer]:
    parsed = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        size = int(headers.get("content-length", len(rest)))
        parsed.append(Answer(int(first.split(" ")[1]), headers, rest[:size]))
        data = rest[size:]
    return parsed


def ask(
    url: str,
    target: str | bytes,
    *,
    method: str = "GET",
    headers: list[tuple[str, str]] | None = None,
    body: bytes = b"",
) -> Answer:
    """A request whose target and headers are sent as they are."""
    raw = target if isinstance(target, bytes) else target.encode()
    lines = [("Host", urlsplit(url).netloc), ("Connection", "close"), *(headers or [])]
    if not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in lines):
        lines.append(("Content-Length", str(len(body))))
    given = {name.lower() for name, _ in headers or []}
    if "host" in given:
        lines = lines[1:]
    head = b"".join(f"{name}: {value}\r\n".encode() for name, value in lines)
    request = method.encode() + b" " + raw + b" HTTP/1.1\r\n" + head + b"\r\n" + body
    replies = send(url, request)
    return replies[0] if replies else Answer(0, {}, b"")


@dataclass
class Listener:
    """A server on loopback that records its clients and can redirect them."""

    url: str = ""
    #: Includes clients whose requests we cannot parse, such as TLS.
    connections: int = 0
    requests: list[str] = field(default_factory=list)
    location: str | None = None

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0


@contextmanager
def listening() -> Iterator[Listener]:
    listener = Listener()

    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            listener.connections += 1
            super().setup()

        def do_GET(self) -> None:
            listener.requests.append(self.path)
            self.send_response(302 if listener.location else 200)
            if listener.location:
                self.send_header("Location", listener.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with answering(Handler) as listener.url:
        yield listener
