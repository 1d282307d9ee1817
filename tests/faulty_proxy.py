"""A proxy in front of the service that fails where a test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

PIECE = 64 * 1024


@dataclass
class Fault:
    """What happens to the next `times` requests that have this text in their head."""

    where: bytes
    #: The connection breaks after this many bytes of the request.
    request_bytes: int | None = None
    #: The service gets the request, but only this many bytes of its response come back.
    answer_bytes: int | None = None
    #: The proxy responds with this, and the service gets nothing.
    reply: bytes | None = None
    times: int = 1


@dataclass
class FaultyProxy:
    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    #: The request lines of all requests.
    requests: list[bytes] = field(default_factory=list)
    #: What has come back so far.
    answers: bytearray = field(default_factory=bytearray)
    connections: set[asyncio.Task[None]] = field(default_factory=set)

    async def cut(self) -> None:
        """Break all open connections."""
        broken = list(self.connections)
        for connection in broken:
            connection.cancel()
        await asyncio.gather(*broken, return_exceptions=True)

    def fault_of(self, piece: bytes) -> Fault | None:
        if not piece.startswith((b"GET ", b"POST ", b"DELETE ")):
            return None
        self.requests.append(piece.partition(b"\r\n")[0])
        for fault in self.faults:
            if fault.times and fault.where in piece:
                fault.times -= 1
                return fault
        return None


def reply(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def breaking(url: str, *faults: Fault) -> AsyncIterator[FaultyProxy]:
    """A proxy in front of the service at this URL."""
    way = FaultyProxy(faults=list(faults))
    target = urlsplit(url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        service = await asyncio.open_connection(target.hostname, target.port)
        with suppress(ConnectionError):
            await _Connection(way, (reader, writer), service).forward()

    def started(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        way.connections.add(task)
        task.add_done_callback(way.connections.discard)
        # Here, because a task that is cancelled before its first step closes nothing.
        task.add_done_callback(lambda _: writer.transport.abort())

    server = await asyncio.start_server(started, "127.0.0.1", 0)
    way.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield way
    finally:
        server.close()
        await way.cut()


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    def __init__(self, way: FaultyProxy, client: Ends, service: Ends) -> None:
        self._way = way
        self._from_client, self._to_client = client
        self._from_service, self._to_service = service
        self._request_left: int | None = None
        self._answer_left: int | None = None

    async def forward(self) -> None:
        """Forward in both directions until one of them ends or has to break."""
        both = [asyncio.create_task(self._requests()), asyncio.create_task(self._answers())]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            self._to_service.transport.abort()

    async def _requests(self) -> None:
        while piece := await self._from_client.read(PIECE):
            fault = self._way.fault_of(piece)
            if fault is not None and fault.reply is not None:
                self._to_client.write(fault.reply)
                await self._to_client.drain()
                while await self._from_client.read(PIECE):
                    pass  # the rest of the request: unread data would reset the connection
                return
            if fault is not None:
                self._request_left, self._answer_left = fault.request_bytes, fault.answer_bytes
            if self._request_left is not None:
                piece = piece[: self._request_left]
                self._request_left -= len(piece)
            self._to_service.write(piece)
            await self._to_service.drain()
            if self._request_left == 0:
                return

    async def _answers(self) -> None:
        while piece := await self._from_service.read(PIECE):
            if self._answer_left is not None:
                piece = piece[: self._answer_left]
                self._answer_left -= len(piece)
            self._to_client.write(piece)
            await self._to_client.drain()
            self._way.answers += piece
            if self._answer_left == 0:
                return
