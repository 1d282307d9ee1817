"""A receiver of webhooks: records what arrives, in order, and answers as it is configured to.

It runs in threads of its own, so that tests of any kind can use it, and a test that blocks its
event loop does not slow it down.
"""

import asyncio
import json
import socket
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .http_servers import listening


@dataclass(frozen=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]


@dataclass(frozen=True)
class Reply:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    #: Reset the connection instead of responding.
    reset: bool = False
    #: Send the beginning of a response, then close the connection.
    cut: bool = False
    body: bytes = b"ok"


HANG = Reply(delay=60)
RESET = Reply(reset=True)
CUT = Reply(cut=True)
OK = Reply()


class Receiver:
    def __init__(self, port: int = 0) -> None:
        self.received: list[Received] = []
        #: Called with each request before it is answered.
        self.on_request: Callable[[Received], None] = lambda received: None
        self._replies: dict[str, deque[Reply]] = defaultdict(lambda: deque([OK]))
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(self, port)

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def url(self, path: str = "/hook") -> str:
        return f"http://{self.host}{path}"

    def answer(self, *replies: Reply | int, path: str = "/hook") -> None:
        """Respond to the next requests to a path like this; the last reply is then repeated."""
        with self._lock:
            self._replies[path] = deque(
                Reply(status=reply) if isinstance(reply, int) else reply for reply in replies
            )

    def to(self, path: str) -> list[Received]:
        return [request for request in self.received if request.path == path]

    def phases(self, path: str = "/hook") -> list[str]:
        return [request.json["phase"] for request in self.to(path)]

    async def wait_for(
        self, count: int = 1, *, path: str = "/hook", seconds: float = 10
    ) -> list[Received]:
        deadline = time.monotonic() + seconds
        while len(received := self.to(path)) < count:
            assert time.monotonic() < deadline, f"{len(received)} of {count} requests to {path}"
            await asyncio.sleep(0.005)
        return received

    def take(self, received: Received) -> Reply:
        with self._lock:
            self.received.append(received)
            replies = self._replies[received.path]
            reply = replies.popleft() if len(replies) > 1 else replies[0]
        self.on_request(received)
        self._closing.wait(reply.delay)
        return reply

    @contextmanager
    def running(self) -> Iterator["Receiver"]:
        with listening(self._server):
            try:
                yield self
            finally:
                self._closing.set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, receiver: Receiver, port: int) -> None:
        self.receiver = receiver
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A sender that hangs up is not an error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(length)
        if len(body) < length:  # the sender gave up midway: no request
            self.close_connection = True
            return
        reply = self.server.receiver.take(Received(self.path, headers, body, time.monotonic()))
        if reply.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if reply.cut:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Ty")
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
