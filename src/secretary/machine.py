"""Which boot of which machine this is, and whether a process of it still lives."""

import os
import time
from pathlib import Path

from . import processes


def boot_id() -> str:
    """Which start of the machine this is: its monotonic clock counts from there."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not Linux
        return f"boot-{round(time.time() - time.monotonic(), -1):.0f}"


def birth(pid: int) -> str:
    """Names a process for ever: where its pid counts, and when it started."""
    return f"{_here()}/{processes.start_time(pid)}"


def has_died(pid: int, birth: str) -> bool:
    """Whether that process is known to be gone. Of other machines nothing is known."""
    where, _, started = birth.rpartition("/")
    if where == _here() and started.isdigit():
        return not processes.is_alive(pid, int(started))
    return False


def _here() -> str:
    """Pids count within a process namespace (a container has its own) of one boot."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = "?"
    return f"{boot_id()}/{namespace}"
