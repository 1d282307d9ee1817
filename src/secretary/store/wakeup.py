"""Tells waiting tasks, in this process and in others on the machine, that there is news."""

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from uuid import uuid4


class WakeUp:
    """A number that grows with all news, and datagram sockets through which processes poke
    each other. A lost poke costs only time: who waits also looks again by itself."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._generation = 0
        self._news = asyncio.Event()
        self._socket: socket.socket | None = None
        self._name = f"{uuid4().hex[:12]}.sock"
        self._poking = False
        self._loop: asyncio.AbstractEventLoop

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._directory.mkdir(exist_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            sock.bind(_address(self._directory / self._name))
        except OSError:
            # A file system without sockets, or too long a path: who waits polls.
            sock.close()
            return
        self._socket = sock
        self._loop.add_reader(sock, self._heard)

    def close(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            (self._directory / self._name).unlink(missing_ok=True)
            self._socket = None

    async def wait(self, since: int, *, seconds: float) -> int:
        if self._generation == since:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), seconds)
        return self._generation

    def tell(self) -> None:
        """Wake everybody who waits here or in another process."""
        self._wake()
        if self._socket is not None and not self._poking:
            self._poking = True
            self._loop.call_soon(self._poke_others)

    def _poke_others(self) -> None:
        """Once for all the news of one turn of the loop."""
        self._poking = False
        if self._socket is None:
            return
        for entry in os.scandir(self._directory):
            if entry.name != self._name:
                self._poke(Path(entry.path))

    def _poke(self, path: Path) -> None:
        assert self._socket is not None
        try:
            self._socket.sendto(b"", _address(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)  # its process died
        except OSError:
            pass  # its buffer is full, so it is awake; or it has just gone

    def _heard(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
        self._wake()

    def _wake(self) -> None:
        self._generation += 1
        self._news.set()
        self._news = asyncio.Event()


def _address(path: Path) -> str:
    # The address of a socket is short (108 bytes); a path relative to here may be shorter.
    return min(str(path), os.path.relpath(path), key=len)
