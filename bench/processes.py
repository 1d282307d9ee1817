"""Programs under measurement: started in a session of their own, measured and killed as a tree."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import PEERS, Failed

KILL_LIMIT_S = 10
START_LIMIT_S = RESPONSE_LIMIT_S = 30
SERVE = (sys.executable, "-m", "secretary", "serve", "--port", "0", "--data-dir", "data")


@dataclass(frozen=True)
class Server:
    name: str
    command: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Running:
    url: str
    tree: "Tree"
    directory: Path

    def post(self, path: str, body: Any) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=RESPONSE_LIMIT_S) as response:
            document: dict[str, Any] = json.load(response)
        return document


@contextmanager
def running(server: Server, root: Path) -> Iterator[Running]:
    """An HTTP server in an empty directory."""
    directory = Path(tempfile.mkdtemp(prefix="server-", dir=root))
    env, log = {**child_environment(directory), **server.settings}, directory / "server.log"
    tree = Tree(server.command, directory=directory, env=env, output=log)
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while not (line := re.search(r"listens on (http://\S+)", log.read_text())):
            if time.monotonic() > deadline or not tree.running():
                raise Failed(f"the server did not start: {log.read_text().strip()[-200:]}")
            time.sleep(0.02)
        yield Running(line[1], tree, directory)
    finally:
        tree.kill()
        shutil.rmtree(directory, ignore_errors=True)


def child_environment(directory: Path) -> dict[str, str]:
    """Ours, without settings and databases of a service that the caller may have."""
    foreign = ("SECRETARY_", "MONGODB_URI", "BENCH_")
    env = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    paths = [str(Path(p).resolve()) for p in env.get("PYTHONPATH", "").split(os.pathsep) if p]
    path = os.pathsep.join([str(PEERS), *paths])
    return env | {"BENCH_DIR": str(directory), "PYTHONPATH": path}


class Tree:
    """A process and everything it started."""

    def __init__(
        self, command: Sequence[str], *, directory: Path, env: Mapping[str, str], output: Path
    ) -> None:
        with output.open("ab") as out:
            self._leader = subprocess.Popen(
                command, cwd=directory, env=env, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    @property
    def leader(self) -> int:
        return self._leader.pid

    def running(self) -> bool:
        return self._leader.poll() is None

    def cpu_seconds(self) -> float:
        """Of all processes, including children that have already exited."""
        return sum(process.ticks for process in self._members()) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Proportional set size: memory shared by several processes is counted once."""
        return (
            sum(proc_kilobytes(each.pid, "smaps_rollup", "Pss:") for each in self._members()) * 1024
        )

    def peak_bytes(self) -> dict[tuple[int, str], int]:
        """Peak resident memory by process id and name; a new program starts as a copy of its
        parent, under the parent's name."""
        return {
            (each.pid, each.name): proc_kilobytes(each.pid, "status", "VmHWM:") * 1024
            for each in self._members()
        }

    def threads(self) -> int:
        return sum(process.threads for process in self._members())

    def kill(self) -> None:
        """SIGKILL for all processes, repeated until none is left."""
        deadline = time.monotonic() + KILL_LIMIT_S
        while members := list(self._members()):
            for process in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            self._leader.poll()
            if time.monotonic() > deadline:
                raise TimeoutError(f"could not kill {[process.pid for process in members]}")
            time.sleep(0.005)
        self._leader.wait(KILL_LIMIT_S)

    def _members(self) -> Iterator["_Process"]:
        processes = {process.pid: process for process in _processes()}
        for process in processes.values():
            ancestor: _Process | None = process
            # A child may have left the session or lost its parent, but not both.
            while ancestor and self._leader.pid not in (ancestor.pid, ancestor.session):
                ancestor = processes.get(ancestor.parent)
            if ancestor:
                yield process


@contextmanager
def sampling(sample: Callable[[], None], every_s: float) -> Iterator[None]:
    """Calls `sample` repeatedly in a thread, and once more at the end."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            sample()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        sample()


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
            start, _, rest = entry.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, *fields = rest.split()
        if state not in "ZX":
            numbers = [int(number) for number in fields]
            name, ticks = start.partition("(")[2], sum(numbers[10:14])
            pid = int(entry.parent.name)
            yield _Process(pid, name, numbers[0], numbers[2], ticks, threads=numbers[16])


def proc_kilobytes(pid: int, file: str, name: str) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0
