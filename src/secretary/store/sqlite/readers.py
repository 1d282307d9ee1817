"""All reads of a process from its SQLite file, beside its writes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local
from typing import TypeVar

import apsw

from .connection import connect
from .errors import unavailable_error

T = TypeVar("T")

READ_THREADS = 2


class Readers:
    """Threads with a connection each, and one connection for the event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="sqlite-reader")
        self._connections = local()
        self._opened: list[apsw.Connection] = []
        self._on_loop: apsw.Connection

    def open(self) -> None:
        self._on_loop = connect(self._path, read_only=True)
        self._on_loop.set_busy_handler(None)

    def close(self) -> None:
        self._threads.shutdown()
        for connection in (self._on_loop, *self._opened):
            connection.close()

    async def call(self, work: Callable[[apsw.Connection], T]) -> T:
        def run() -> T:
            try:
                return work(self._connection())
            except apsw.Error as error:
                raise unavailable_error(error, self._path) from error

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    async def call_on_loop(self, work: Callable[[apsw.Connection], T]) -> T:
        """For one job by its id: a thread would take longer to be told of it."""
        try:
            return work(self._on_loop)
        except apsw.Error:  # busy, or in trouble: the thread may wait, and tells what it is
            return await self.call(work)

    def _connection(self) -> apsw.Connection:
        if not hasattr(self._connections, "db"):
            self._connections.db = connect(self._path, read_only=True)
            self._opened.append(self._connections.db)
        db: apsw.Connection = self._connections.db
        return db
