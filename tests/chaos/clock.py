"""A wall clock that can be set, shared by all processes of a run as if they were on one machine.

The machine's own clock is not changed. Every Python process of the run, including sandboxes, reads
the time through `time.time`, `time.time_ns` and `utc_now`, which add the offset in a file. So clock
steps are real to the product, while the kernel (file times), the MongoDB server and the monotonic
clock are not affected, as on a machine whose clock is wrong."""

import mmap
import os
import struct
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

#: Names the file, in the environment of all processes of the run.
VARIABLE = "CHAOS_CLOCK"

_SHIFT = struct.Struct("d")


class Clock:
    """Sets the clock; the process that steps it does not use it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.shift = 0.0
        #: The sum of all steps back: the times of one job may be out of order by this much.
        self.went_back = 0.0
        self._write()

    def step(self, seconds: float) -> None:
        self.shift += seconds
        self.went_back += max(-seconds, 0.0)
        self._write()

    def _write(self) -> None:
        """In place: other processes have the file mapped."""
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT)
        try:
            os.pwrite(descriptor, _SHIFT.pack(self.shift), 0)
        finally:
            os.close(descriptor)


def follow() -> None:
    """Make this process use the clock of its run, if it has one."""
    file = os.environ.get(VARIABLE)
    if file is None:
        return
    descriptor = os.open(file, os.O_RDONLY)
    shown = mmap.mmap(descriptor, _SHIFT.size, prot=mmap.PROT_READ)
    os.close(descriptor)
    seconds, nanoseconds = time.time, time.time_ns

    def shift() -> float:
        value: float = _SHIFT.unpack(shown[: _SHIFT.size])[0]
        return value

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=shift())

    time.time = lambda: seconds() + shift()
    time.time_ns = lambda: nanoseconds() + int(shift() * 1e9)
    # Imported late: everything it imports has to see the patched time.
    from secretary.core import job

    vars(job)["datetime"] = Shifted
