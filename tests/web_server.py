"""A web server on loopback with scripted responses, byte by byte if necessary."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class WebRequest:
    """A request as it was received."""

    target: str
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(
        self, body: bytes = b"", *, status: str = "200 OK", headers: dict[str, str] | None = None
    ) -> None:
        """A complete response; any header can be replaced, or omitted with an empty value."""
        fields = {"Content-Length": str(len(body)), **(headers or {})}
        lines = [f"{name}: {value}\r\n" for name, value in fields.items() if value]
        await self.send(f"HTTP/1.1 {status}\r\n{''.join(lines)}\r\n".encode() + body)

    async def body(self) -> bytes:
        return await self.reader.readexactly(int(self.headers.get("content-length", "0")))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def redirect(self, location: str, status: str = "302 Found") -> None:
        await self.answer(status=status, headers={"Location": location})


Answer = Callable[[WebRequest], Awaitable[None]]


@dataclass
class Web:
    port: int = 0
    scheme: str = "http"
    requests: list[WebRequest] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Web]:
    web = Web(scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                incoming = _read(await reader.readuntil(b"\r\n\r\n"), reader, writer)
                web.requests.append(incoming)
                await answer(incoming)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        web.connections += 1
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        # Here, because a task that is cancelled before its first step closes nothing.
        task.add_done_callback(lambda _: writer.close())

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    web.port = server.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _read(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> WebRequest:
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines if line)
    headers = {name.lower(): value.strip() for name, _, value in fields}
    return WebRequest(first.split(" ")[1], headers, reader, writer)
