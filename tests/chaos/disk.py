"""A disk of one's own that can be filled up."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE = "600m"
BLOCK = 4096
#: Whoever removes a file makes room; it is taken again so often.
AGAIN = 0.1


class Disk:
    def __init__(self, root: Path, *, is_own: bool) -> None:
        self.root = root
        #: Else it is the machine's, which is not ours to fill.
        self.is_own = is_own
        self._ballast = root / "ballast"

    async def fill(self, seconds: float) -> None:
        """No byte is left on it for so long."""
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                await asyncio.to_thread(self._take_all)
                await asyncio.sleep(AGAIN)
        finally:
            self._ballast.unlink(missing_ok=True)

    def _take_all(self) -> None:
        with self._ballast.open("ab") as ballast:
            usage = os.statvfs(self.root)
            size = usage.f_bavail * usage.f_bsize
            while size >= BLOCK:
                try:
                    os.posix_fallocate(ballast.fileno(), ballast.seek(0, os.SEEK_END), size)
                except OSError:  # others were quicker
                    size //= 2


@contextmanager
def small_disk(directory: Path) -> Iterator[Disk]:
    """A file system in memory, which only root can make; for others just a directory."""
    point = directory / "disk"
    point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(point)]
    try:
        mounted = subprocess.run(mount, capture_output=True, timeout=20).returncode == 0
    except OSError:
        mounted = False
    try:
        yield Disk(point, is_own=mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(point)], check=True, timeout=20)
