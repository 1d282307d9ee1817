"""What a document tries that has taken over the process that reads it.

Also a script: `python -m tests.hostile_child DATABASE SETTINGS OTHER_JOB OWN WORKER_PID` prints
what it could do, for comparison with a process that is not confined.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attack(database: str, settings: str, other: str, own: str, worker: int) -> dict[str, str]:
    """Each attempt, and how it ended: `done`, or the error."""
    listing = [sys.executable, "-I", "-S", "-c", f"print(open({database!r}, 'rb').read(1))"]
    attempts: dict[str, Callable[[], Any]] = {
        "read the database": lambda: Path(database).read_bytes(),
        "write the database": lambda: os.open(database, os.O_RDWR),
        "open the database to all": lambda: os.chmod(database, 0o777),
        "read the settings": lambda: Path(settings).read_bytes(),
        "read another job's file": lambda: Path(other).read_bytes(),
        "list another job's files": lambda: os.listdir(Path(other).parent),
        "link to the database": lambda: os.symlink(database, f"{own}/link"),
        "link the database": lambda: os.link(database, f"{own}/hard-link"),
        "write elsewhere": lambda: Path("/tmp/hostile-child").write_bytes(b""),
        "read the worker's environment": lambda: Path(f"/proc/{worker}/environ").read_bytes(),
        "read the worker's memory": lambda: os.open(f"/proc/{worker}/mem", os.O_RDONLY),
        "reach through the worker": lambda: os.listdir(f"/proc/{worker}/cwd"),
        "trace the worker": lambda: _trace(worker),
        "signal the worker": lambda: os.kill(worker, signal.SIGCONT),
        "signal any other process": lambda: _signal_any(),
        "limit the worker": lambda: _limit(worker),
        "open an internet socket": lambda: socket.socket().close(),
        "open a datagram socket": lambda: socket.socket(type=socket.SOCK_DGRAM).close(),
        "open an IPv6 socket": lambda: socket.socket(socket.AF_INET6).close(),
        "connect to a local socket": lambda: _connect(),
        "have a program read the database": lambda: subprocess.run(
            listing, check=True, capture_output=True
        ),
        "remove the database": lambda: os.unlink(database),
    }
    return {name: _outcome(attempt) for name, attempt in attempts.items()}


def allowed(own: str, source: str) -> str:
    """What it needs for its work: read the source, write to its directory, start a program."""
    Path(own, "result").write_bytes(Path(source).read_bytes())
    subprocess.run(["true"], check=True)
    return Path(own, "result").read_text()


def secrets() -> list[str]:
    """The variables that it has, also those that only the kernel still knows."""
    kernel = Path("/proc/self/environ").read_text().split("\0")
    return sorted({*os.environ, *(entry.partition("=")[0] for entry in kernel)})


def _outcome(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        return type(error).__name__
    return "done"


def _trace(pid: int) -> None:
    attach, detach = 16, 17
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(attach, pid, None, None) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(pid, 0x40000000)
    libc.ptrace(detach, pid, None, None)


def _signal_any() -> None:
    """Ask, with signal 0, whether any other process could be signalled."""
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid != os.getpid() and _outcome(lambda pid=pid: os.kill(pid, 0)) == "done":  # type: ignore[misc]
            return
    raise PermissionError


def _limit(pid: int) -> None:
    import resource

    resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE))


def _connect() -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("\0hostile-child")


if __name__ == "__main__":
    database, settings, other, own, worker = sys.argv[1:]
    print(json.dumps(attack(database, settings, other, own, int(worker)), indent=2))
