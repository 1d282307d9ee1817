import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from secretary.core.errors import InvalidSettings
from secretary.serve import MAX_HEAD_BYTES, MAX_PIPELINED, Connection, HttpServer, listen

Ask = Callable[[bytes], Awaitable[bytes]]
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def echo_size(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await PlainTextResponse(f"{len(body)} bytes")(scope, receive, send)


@asynccontextmanager
async def running(
    app: ASGIApp = echo_size, connection: type[Connection] = Connection
) -> AsyncIterator[Ask]:
    """A server, and a function that sends it bytes and returns its first response."""
    with listen("127.0.0.1", 0, loopback_only=True) as listener:
        ready = asyncio.Event()
        server = HttpServer(app, listener, lambda url: ready.set(), connection=connection)
        serving = asyncio.create_task(server.run_until_stopped())
        await asyncio.wait_for(ready.wait(), 10)

        async def ask(data: bytes) -> bytes:
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(data)
            async with asyncio.timeout(10):
                answer = await reader.readuntil(b"\r\n\r\n")
                size = int(answer.partition(b"content-length: ")[2].split(b"\r\n")[0])
                answer += await reader.readexactly(size)
            writer.transport.abort()
            return answer

        yield ask
        server.stop(now=True)
        await serving


def test_an_answer_does_not_wait_until_its_first_packet_is_acknowledged() -> None:
    with (
        listen("127.0.0.1", 0, loopback_only=True) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    "beginning",
    [
        b"GET /",
        b"GET / HTTP/1.1\r\nX-Long: ",
        CHUNKED + b"1\r\na\r\n0\r\nX-Trailer: ",
    ],
    ids=["line", "header", "trailer"],
)
async def test_a_head_without_an_end_is_refused(beginning: bytes) -> None:
    async with running() as ask:
        answer = await ask(beginning + b"a" * (4 * MAX_HEAD_BYTES))
    assert answer.startswith(b"HTTP/1.1 431 ")


async def test_a_head_may_have_64_kib_and_not_one_byte_more() -> None:
    async with running() as ask:
        for size, status in ((65_536, b"200 OK"), (65_537, b"431 Request Header Fields Too Large")):
            start = b"GET /path HTTP/1.1\r\nHost: localhost\r\nX-Long: "
            head = start + b"a" * (size - len(start) - 4) + b"\r\n\r\n"
            assert len(head) == size
            answer = await ask(head)
            assert answer.startswith(b"HTTP/1.1 " + status)
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "HEADERS_TOO_LARGE"


async def test_many_pipelined_requests_are_answered_in_order_a_few_at_a_time() -> None:
    waiting: list[int] = []

    class Observed(Connection):
        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            waiting.append(len(self.pipeline))

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(scope["path"])(scope, receive, send)

    count = 5000
    requests = [b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(count)]
    requests[100] = b"POST /100 HTTP/1.1\r\nContent-Length: 40\r\n\r\n" + b"\r\n" * 20
    requests[-1] = requests[-1].replace(b"Host: x", b"Connection: close")
    with listen("127.0.0.1", 0, loopback_only=True) as listener:
        ready = asyncio.Event()
        server = HttpServer(echo, listener, lambda url: ready.set(), connection=Observed)
        serving = asyncio.create_task(server.run_until_stopped())
        await asyncio.wait_for(ready.wait(), 10)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"".join(requests))
        answers = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        server.stop(now=True)
        await serving
    paths = [int(path) for path in re.findall(rb"\r\n\r\n/(\d+)", answers)]
    assert paths == list(range(count))
    assert len(waiting) == count and max(waiting) <= MAX_PIPELINED


async def test_an_invalid_request_does_not_replace_the_response_to_the_one_before() -> None:
    release = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await release.wait()
        await PlainTextResponse("first")(scope, receive, send)

    async with running(slow) as ask:
        invalid = b"GET /" + b"a" * (2 * MAX_HEAD_BYTES)
        asked = asyncio.ensure_future(ask(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + invalid))
        done, _ = await asyncio.wait({asked}, timeout=0.05)
        assert not done
        release.set()
        answer = await asked
    assert answer.startswith(b"HTTP/1.1 200 OK") and answer.endswith(b"first")
    assert b"connection: close" in answer


async def test_a_body_may_be_larger_than_a_head_and_come_in_pieces_of_any_size() -> None:
    size = 20 * MAX_HEAD_BYTES
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
    pieces = (f"{MAX_HEAD_BYTES:x}\r\n".encode() + b"a" * MAX_HEAD_BYTES + b"\r\n") * 20
    async with running() as ask:
        for request in (head + b"a" * size, CHUNKED + pieces + b"0\r\n\r\n"):
            assert (await ask(request)).endswith(f"{size} bytes".encode())


def test_the_setting_is_named_whose_address_others_could_reach() -> None:
    with pytest.raises(InvalidSettings, match=r"^generic_worker\.metrics_host: 0\.0\.0\.0 can be"):
        listen("0.0.0.0", 0, loopback_only=True, setting="generic_worker.metrics_host")
