"""Tells waiting tasks, in this process and in others on the machine, that there is news."""

import asyncio
import contextlib
import os
import socket
import time
from pathlib import Path
from uuid import uuid4

from ..news import News

#: A directory that changed this recently may change again without a new time of change.
SETTLED_SECONDS = 0.1


class WakeUp(News):
    """Datagram sockets through which processes poke each other. A lost poke costs only time:
    who waits also looks again by itself."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self._socket: socket.socket | None = None
        self._name = f"{uuid4().hex[:12]}.sock"
        self._poking = False
        self._others: list[str] = []
        self._others_at = 0
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

    def tell(self) -> None:
        """Wake everybody who waits here or in another process."""
        super().tell()
        if self._socket is not None and not self._poking:
            self._poking = True
            self._loop.call_soon(self._poke_others)

    def _poke_others(self) -> None:
        """Once for all the news of one turn of the loop."""
        self._poking = False
        if self._socket is None:
            return
        changed_at = os.stat(self._directory).st_mtime_ns
        if changed_at != self._others_at:
            self._others = [
                _address(Path(entry.path))
                for entry in os.scandir(self._directory)
                if entry.name != self._name
            ]
            settled = time.time_ns() - changed_at > SETTLED_SECONDS * 1e9
            self._others_at = changed_at if settled else 0
        for address in self._others:
            self._poke(address)

    def _poke(self, address: str) -> None:
        assert self._socket is not None
        try:
            self._socket.sendto(b"", address)
        except ConnectionRefusedError:
            Path(address).unlink(missing_ok=True)  # its process died
        except OSError:
            pass  # its buffer is full, so it is awake; or it has just gone

    def _heard(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
        super().tell()


def _address(path: Path) -> str:
    # The address of a socket is short (108 bytes); a path relative to here may be shorter.
    return min(str(path), os.path.relpath(path), key=len)
