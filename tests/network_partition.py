"""A network link to a server that can be cut: data in transit is held back, with no notice."""

import asyncio
from contextlib import suppress


class NetworkLink:
    def __init__(self, port: int) -> None:
        self._to = port
        self._whole = asyncio.Event()
        self._whole.set()
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> "NetworkLink":
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def cut(self) -> None:
        self._whole.clear()

    def restore(self) -> None:
        self._whole.set()

    def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._forward(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        # Here, because a task that is cancelled before its first step closes nothing.
        task.add_done_callback(lambda _: writer.close())

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            upstream_reader, back = await asyncio.open_connection("127.0.0.1", self._to)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._carry(reader, back))
                    group.create_task(self._carry(upstream_reader, writer))
            except* OSError:
                pass
            finally:
                back.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._whole.wait()
            writer.write(data)
            await writer.drain()
        writer.close()
