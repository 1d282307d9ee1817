"""What a sandbox process prints."""

import asyncio
import os

_TAIL_BYTES = 2048


class Output:
    """What a process prints: read so that it never blocks, and but for its last words forgotten."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._tail = b""

    def open(self) -> int:
        """The descriptor to write to."""
        self._descriptor, writing = os.pipe()
        os.set_blocking(self._descriptor, False)
        asyncio.get_running_loop().add_reader(self._descriptor, self._follow)
        return writing

    @property
    def tail(self) -> str:
        return self._tail.decode(errors="replace")

    def forget(self) -> None:
        self._read()
        self._tail = b""

    def close(self) -> None:
        self._read()
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _follow(self) -> None:
        if not self._read():
            self.close()

    def _read(self) -> bool:
        """Whether there may be more to come."""
        if self._descriptor is None:
            return False
        try:
            data = os.read(self._descriptor, 65536)  # as much as a pipe holds
        except BlockingIOError:
            return True
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        return data != b""
