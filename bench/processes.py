"""Programs under measurement: started in a session of their own, counted and killed as a tree."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GONE_WITHIN_S = 10


class Tree:
    def __init__(
        self, command: Sequence[str], *, directory: Path, env: Mapping[str, str], output: Path
    ) -> None:
        with output.open("ab") as out:
            self._leader = subprocess.Popen(
                command,
                cwd=directory,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def running(self) -> bool:
        return self._leader.poll() is None

    def cpu_seconds(self) -> float:
        """Spent so far by all processes of the tree and by their children already gone."""
        return sum(process.ticks for process in self._members()) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Of all processes of the tree; what some share is counted once."""
        return sum(_memory_bytes(process.pid) for process in self._members())

    def peak_bytes(self) -> dict[int, int]:
        """The most memory that each process of the tree, by its id, has had at once."""
        return {process.pid: _peak_bytes(process.pid) for process in self._members()}

    def named_peaks(self) -> dict[tuple[int, str], int]:
        """The same by id and name: a program that is started begins as a copy of who starts it."""
        return {(each.pid, each.name): _peak_bytes(each.pid) for each in self._members()}

    @property
    def leader(self) -> int:
        return self._leader.pid

    def threads(self) -> int:
        return sum(process.threads for process in self._members())

    def kill(self) -> None:
        """SIGKILL to every process of the tree, again until none is left."""
        deadline = time.monotonic() + GONE_WITHIN_S
        while members := list(self._members()):
            for process in members:
                _kill(process.pid)
            self._leader.poll()
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes {[process.pid for process in members]} do not die")
            time.sleep(0.005)
        self._leader.wait(GONE_WITHIN_S)

    def _members(self) -> Iterator["_Process"]:
        processes = {process.pid: process for process in _processes()}
        for process in processes.values():
            ancestor: _Process | None = process
            # A child may have left the process group, but not the session and the parent at once.
            while ancestor and self._leader.pid not in (ancestor.pid, ancestor.session):
                ancestor = processes.get(ancestor.parent)
            if ancestor:
                yield process


@contextmanager
def watching(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """Looks again and again meanwhile, and once more at the end."""
    over = threading.Event()

    def keep_looking() -> None:
        while not over.wait(every_s):
            look()

    thread = threading.Thread(target=keep_looking)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        look()


@dataclass(frozen=True)
class _Process:
    pid: int
    name: str
    parent: int
    session: int
    ticks: int
    threads: int


def _processes() -> Iterator[_Process]:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            begin, _, rest = entry.read_text().rpartition(")")
            state, *fields = rest.split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in "ZX":
            yield _Process(
                int(entry.parent.name),
                name=begin.partition("(")[2],
                parent=int(fields[0]),
                session=int(fields[2]),
                ticks=sum(map(int, fields[10:14])),
                threads=int(fields[16]),
            )


def _memory_bytes(pid: int) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _peak_bytes(pid: int) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
