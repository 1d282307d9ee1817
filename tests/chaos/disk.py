"""A separate disk that can be filled up."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE = "600m"
BLOCK = 4096
#: Removing a file frees space, so the disk is filled up again at this interval.
AGAIN = 0.1


class Disk:
    def __init__(self, root: Path, *, is_own: bool) -> None:
        self.root = root
        #: Otherwise it is the machine's own disk, which must not be filled.
        self.is_own = is_own
        self._ballast = root / "ballast"

    @contextmanager
    def filled(self) -> Iterator[None]:
        """Leave no free space meanwhile."""
        self._take_all()
        try:
            yield
        finally:
            self._ballast.unlink()

    async def fill(self, seconds: float) -> None:
        """Leave no free space for this long."""
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
                except OSError:  # another process was faster
                    size //= 2


@contextmanager
def small_disk(directory: Path, size: str = SIZE) -> Iterator[Disk]:
    """A tmpfs, which only root can mount; for other users just a directory."""
    point = directory / "disk"
    point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(point)]
    try:
        mounted = subprocess.run(mount, capture_output=True, timeout=20).returncode == 0
    except OSError:
        mounted = False
    try:
        yield Disk(point, is_own=mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(point)], check=True, timeout=20)
