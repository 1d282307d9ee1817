"""Programs under measurement: started in a session of their own, measured and killed as a tree."""

import contextlib
import http.client
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from harness import PEERS, Failed

KILL_LIMIT_S = 10
START_LIMIT_S, RESPONSE_LIMIT_S = 30, 60
K = TypeVar("K")
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

    def client(self) -> "Client":
        return Client(self.url)


class Client:
    """One persistent connection; cheaper than httpx, which takes a millisecond per request."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(
            urlsplit(url).netloc, timeout=RESPONSE_LIMIT_S
        )

    def fetch(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": "application/json", **(headers or {})}
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status >= 300:
            raise Failed(f"{path}: {response.status} {content[:300]!r}")
        return content

    def request(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.fetch(method, path, body))


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


class _Process(NamedTuple):
    pid: int
    name: str
    parent: int
    session: int
    ticks: int
    threads: int


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
        self.leader = self._leader.pid

    def running(self) -> bool:
        return self._leader.poll() is None

    def cpu_seconds(self) -> float:
        """Of all processes, including children that have already exited."""
        return sum(process.ticks for process in self._members()) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Proportional set size: memory shared by several processes is counted once."""
        return 1024 * sum(proc_kilobytes(p.pid, "smaps_rollup", "Pss:") for p in self._members())

    def peak_bytes(self) -> dict[tuple[int, str], int]:
        """Peak resident memory by process id and name; a new program starts as a copy of its
        parent, under the parent's name."""
        members = self._members()
        return {(p.pid, p.name): proc_kilobytes(p.pid, "status", "VmHWM:") * 1024 for p in members}

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

    def _members(self) -> Iterator[_Process]:
        processes = {process.pid: process for process in _processes()}
        for process in processes.values():
            ancestor: _Process | None = process
            # A child may have left the session or lost its parent, but not both.
            while ancestor and self.leader not in (ancestor.pid, ancestor.session):
                ancestor = processes.get(ancestor.parent)
            if ancestor:
                yield process


def _processes() -> Iterator[_Process]:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            start, _, rest = entry.read_text().rpartition(")")
            state, *fields = rest.split()
            if state not in "ZX":
                parent, _, session, *_ = numbers = [int(number) for number in fields]
                pid, name, ticks = int(entry.parent.name), start.partition("(")[2], numbers[10:14]
                yield _Process(pid, name, parent, session, sum(ticks), threads=numbers[16])


def proc_kilobytes(pid: int, file: str, name: str) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0


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


def keep_highest(peaks: dict[K, float], sizes: Mapping[K, float]) -> None:
    peaks |= {key: max(size, peaks.get(key, 0)) for key, size in sizes.items()}


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds, with those of child processes that have ended."""
    before, started = _cpu_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - started, _cpu_seconds() - before


def _cpu_seconds() -> float:
    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(sum(resource.getrusage(who)[:2]) for who in both)
