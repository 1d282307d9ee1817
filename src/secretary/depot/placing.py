"""Writes what comes out of a depot to disk."""

import os
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


class Arrival:
    """A file on its way to its place. It is there when all of it is, and never half."""

    def __init__(self, target: Path, made_at: float) -> None:
        self._target = target
        self._made_at = made_at
        self._unfinished = target.with_name(f".{uuid4().hex}")
        target.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = self._unfinished.open("xb")
        self.size = 0

    def write(self, piece: bytes | memoryview) -> None:
        self.size += self._file.write(piece)

    def finish(self) -> None:
        self._file.close()
        os.utime(self._unfinished, (self._made_at, self._made_at))
        self._unfinished.replace(self._target)

    def give_up(self) -> None:
        self._file.close()
        self._unfinished.unlink(missing_ok=True)
