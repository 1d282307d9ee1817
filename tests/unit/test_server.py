import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from secretary.core.errors import InvalidSettings
from secretary.serve import MAX_HEAD_BYTES, HttpServer, listen

Ask = Callable[[bytes], Awaitable[bytes]]
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def echo_size(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await PlainTextResponse(f"{len(body)} bytes")(scope, receive, send)


@asynccontextmanager
async def running() -> AsyncIterator[Ask]:
    """A server, and a function that sends it bytes and returns its response."""
    with listen("127.0.0.1", 0, loopback_only=True) as listener:
        ready = asyncio.Event()
        server = HttpServer(echo_size, listener, lambda url: ready.set())
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
    assert answer.startswith(b"HTTP/1.1 400 ")


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
