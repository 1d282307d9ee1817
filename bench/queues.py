"""Job queues under measurement: each row in an empty directory with its own broker and worker."""

import json
import shutil
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pymongo
from harness import PEERS, Failed, environment, last_line, log, output, recording_failure
from processes import Tree, child_environment
from pymongo.errors import PyMongoError
from report import Cell, Samples, Target, ahead

from tests.mongod import find_mongod
from tests.ports import free_ports

CLIENT_LIMIT_S = 90
START_LIMIT_S = 30
WARM_UP_JOBS = 20
SETTLE_S = 1.0
PROBE_GAP_MS = 20
CALLERS = 32
#: How long a killed worker has the machine for itself when it restarts.
RESTART_S = 3.0
REQUIREMENTS = ("celery[redis]", "dramatiq[redis]", "huey", "redis", "rq", "saq")
RECOVERY = "recovery s"
#: Redis with its default persistence, or syncing each write to disk before it answers.
REDIS: Mapping[str, tuple[str, ...]] = {
    "redis": (),
    "redis-fsync": ("--appendonly", "yes", "--appendfsync", "always"),
}
MONGOD = ("--replSet", "bench", "--setParameter", "shutdownTimeoutMillisForSignaledShutdown=0")


@dataclass(frozen=True)
class Adapter:
    """One row: a module in peers/ that `verbs.py` runs under this Python."""

    name: str
    module: str
    python: Path = Path(sys.executable)
    #: The row's broker or database: "mongodb" or a key of REDIS.
    service: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        return self.name.startswith("secretary")

    def command(self, verb: str, *arguments: int) -> list[str]:
        verbs = str(PEERS / "verbs.py")
        return [str(self.python), verbs, self.module, verb, *map(str, arguments)]


#: Only the database; the benchmarks start their own processes on it.
MONGODB = Adapter("mongodb", "secretary_peer", service="mongodb")


def peers_python() -> Path:
    return environment("peers", REQUIREMENTS)


class Record(NamedTuple):
    sent_ns: int
    started_ns: int


@contextmanager
def open_testbed(adapter: Adapter, root: Path) -> Iterator["Testbed"]:
    directory = Path(tempfile.mkdtemp(prefix=f"{adapter.name}-", dir=root))
    testbed = Testbed(adapter, directory)
    try:
        if adapter.service:
            testbed.start_service()
        yield testbed
    finally:
        testbed.kill_worker()
        if testbed.service:
            testbed.service.kill()
        shutil.rmtree(directory, ignore_errors=True)


class Testbed:
    """The directory, service and worker of one measurement of one row."""

    def __init__(self, adapter: Adapter, directory: Path) -> None:
        self._adapter = adapter
        self.directory = directory
        self._env = {**child_environment(directory), **adapter.settings}
        self._records = directory / "records"
        self.url = ""
        self.service: Tree | None = None
        self.worker: Tree | None = None

    def start_service(self) -> None:
        (port,) = free_ports(1)
        listen, name = ["--port", str(port)], self._adapter.service
        if name == "mongodb":
            (self.directory / "mongo").mkdir()
            sockets = ["--unixSocketPrefix", str(self.directory)]
            options = [*listen, "--bind_ip", "127.0.0.1", "--dbpath", "mongo", *sockets, *MONGOD]
            self.service = self._start([str(find_mongod()), *options], "service.log")
            self.url = f"mongodb://127.0.0.1:{port}/bench?replicaSet=bench"
            self.wait(lambda: _is_primary(port), "mongod")
        else:
            command = ["redis-server", *listen, "--bind", "127.0.0.1", *REDIS[name]]
            self.service = self._start(command, "service.log")
            self.url = f"redis://127.0.0.1:{port}/0"
            self.wait(lambda: _responds(port), "Redis")
        self._env["BENCH_URL"] = self.url

    def start_worker(self) -> None:
        self.worker = self._start(self._adapter.command("worker"), "worker.log")

    def kill_worker(self) -> None:
        if self.worker:
            self.worker.kill()
        self.worker = None

    def client(
        self, verb: str, *arguments: int, limit_s: float = CLIENT_LIMIT_S
    ) -> Mapping[str, Any]:
        command = self._adapter.command(verb, *arguments)
        text = output(verb, command, limit_s=limit_s, env=self._env, cwd=self.directory)
        answer: Mapping[str, Any] = json.loads(last_line(text))
        return answer

    def records(self) -> list[Record]:
        data = self._records.read_bytes() if self._records.exists() else b""
        return [Record(*fields) for fields in struct.iter_unpack("<qq", data)]

    def started(self) -> int:
        """How many jobs have started; costs one stat."""
        return self._records.stat().st_size // 16 if self._records.exists() else 0

    def wait(
        self, condition: Callable[[], bool], what: str, limit_s: float = START_LIMIT_S
    ) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if self.worker and not self.worker.running():
                log = (self.directory / "worker.log").read_text(errors="replace")
                raise Failed(f"the worker exited: {last_line(log)}")
            if time.monotonic() > deadline:
                raise Failed(f"waited {limit_s:.0f} s for {what}")
            time.sleep(0.02)

    def wait_for_starts(self, count: int, limit_s: float = START_LIMIT_S) -> None:
        self.wait(lambda: self.started() >= count, f"{count} jobs to start", limit_s)

    def wait_at_most(self, count: int, window_s: float) -> None:
        """Until this many jobs have started, or the time is up."""
        deadline = time.monotonic() + window_s
        while self.started() < count and time.monotonic() < deadline:
            time.sleep(0.02)

    def cpu_seconds(self) -> tuple[float, float]:
        """Of the worker and of the service."""
        trees = self.worker, self.service
        worker, service = (tree.cpu_seconds() if tree else 0.0 for tree in trees)
        return worker, service

    def _start(self, command: list[str], log: str) -> Tree:
        output = self.directory / log
        return Tree(command, directory=self.directory, env=self._env, output=output)


def _responds(port: int) -> bool:
    with (
        suppress(OSError),  # it is still starting
        socket.create_connection(("127.0.0.1", port), timeout=1) as connection,
    ):
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(b"+PONG")
    return False


def _is_primary(port: int) -> bool:
    address = f"127.0.0.1:{port}"
    direct = f"mongodb://{address}/?directConnection=true"
    with (
        suppress(PyMongoError),  # it is still starting
        pymongo.MongoClient[dict[str, object]](direct, serverSelectionTimeoutMS=200) as client,
    ):
        hello = client.admin.command("hello")
        if not hello.get("setName"):
            members = [{"_id": 0, "host": address}]
            client.admin.command("replSetInitiate", {"_id": "bench", "members": members})
        return bool(hello.get("isWritablePrimary"))
    return False


def enqueue_rate(testbed: Testbed, jobs: int, *, callers: int = 1) -> float:
    answer = testbed.client("enqueue", jobs, callers)
    return float(answer["jobs"] / answer["seconds"])


def drain_rate(testbed: Testbed, jobs: int, *, window_s: float) -> float:
    """Jobs per second from the first start to the last, or to the end of the window."""
    testbed.start_worker()
    testbed.wait_for_starts(1)
    testbed.wait_at_most(jobs, window_s)
    testbed.kill_worker()
    starts = {record.sent_ns: record.started_ns for record in testbed.records()}
    if len(starts) < 2:
        raise Failed(f"one job started in {window_s:.0f} s")
    return (len(starts) - 1) / (max(starts.values()) - min(starts.values())) * 1e9


def start_latency(testbed: Testbed, jobs: int) -> tuple[float, float]:
    """p50 and p95 in ms, from the client's call to the job's first line; the worker is idle."""
    warm_up(testbed)
    testbed.client("probe", jobs, PROBE_GAP_MS)
    testbed.wait_for_starts(WARM_UP_JOBS + jobs)
    probes = testbed.records()[WARM_UP_JOBS:]
    delays = [(record.started_ns - record.sent_ns) / 1e6 for record in probes]
    return statistics.median(delays), statistics.quantiles(delays, n=20)[-1]


def warm_up(testbed: Testbed) -> None:
    """Leaves an idle worker that has already run some jobs."""
    testbed.client("enqueue", WARM_UP_JOBS)
    testbed.start_worker()
    testbed.wait_for_starts(WARM_UP_JOBS)
    time.sleep(SETTLE_S)


@contextmanager
def idle_workers(
    rows: Sequence[Adapter], root: Path, failures: list[str]
) -> Iterator[dict[str, Testbed]]:
    """All rows at once, for measurements that are mostly waiting."""
    with ExitStack() as stack:
        idle = {}
        for row in rows:
            log(f"idle worker: {row.name}")
            with recording_failure(failures, row.name):
                testbed = stack.enter_context(open_testbed(row, root))
                warm_up(testbed)
                idle[row.name] = testbed
        yield idle


def idle_cpu(idle: Mapping[str, Testbed], *, seconds: float) -> dict[str, tuple[float, float]]:
    """Percent of one core of each worker and its service, all measured at the same time."""
    started, before = time.monotonic(), {name: one.cpu_seconds() for name, one in idle.items()}
    time.sleep(seconds)
    percent = 100 / (time.monotonic() - started)
    usages: dict[str, tuple[float, float]] = {}
    for name, testbed in idle.items():
        worker, service = (b - a for a, b in zip(before[name], testbed.cpu_seconds(), strict=True))
        usages[name] = worker * percent, service * percent
    return usages


def measure_recovery(
    idle: Mapping[str, Testbed], cap_s: float, samples: Samples, failures: list[str]
) -> None:
    """Seconds from the kill of each worker to the next start of its job; at most the cap."""
    killed: dict[str, tuple[float, int]] = {}

    def recovered_after(name: str) -> float | None:
        at, job = killed[name]
        starts = [one.started_ns / 1e9 for one in idle[name].records() if one.sent_ns == job]
        return next((start - at for start in starts if start > at), None)

    def wait(names: Sequence[str], limit_s: float) -> None:
        while any(
            recovered_after(name) is None and time.monotonic() - killed[name][0] < limit_s
            for name in names
        ):
            time.sleep(0.05)

    for name, testbed in idle.items():
        log(f"kill -9: {name}")
        with recording_failure(failures, name):
            before = testbed.started()
            testbed.client("hold")
            testbed.wait_for_starts(before + 1)
            time.sleep(1)
            killed[name] = time.monotonic(), testbed.records()[-1].sent_ns
            testbed.kill_worker()
            testbed.start_worker()
            wait([name], RESTART_S)
    wait(list(killed), cap_s)
    for name in killed:
        seconds = recovered_after(name)
        samples[name, RECOVERY].append(cap_s if seconds is None else min(seconds, cap_s))


def recovery_cell(samples: Samples, row: str, cap_s: float) -> Cell:
    seconds = samples.median(row, RECOVERY)
    return f"> {cap_s:g}" if seconds == cap_s else seconds


def recovery_target(
    name: str, samples: Samples, row: str, peers: Sequence[str], cap_s: float, target: str
) -> Target:
    """A peer that did not recover counts with the cap."""
    seconds, times = samples.median(row, RECOVERY), samples.medians(peers, RECOVERY)
    seconds = None if seconds == cap_s else seconds
    result = ahead(name, seconds, times, "s", target=target, lower_is_better=True)
    if result.peer and all(time in (None, cap_s) for time in times.values()):
        result.peer = f"none within {cap_s:g} s"
    return result


def descriptions(about: Mapping[str, Mapping[str, Any]]) -> str:
    return "\n".join(f"- {name}: {row['runs_as']}" for name, row in about.items())


def peer_versions(
    rows: Sequence[Adapter], about: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Some peers have two rows, with one store each: "huey-redis"."""
    peers = [row.name for row in rows if not row.ours and row.name in about]
    return {name.split("-")[0]: about[name]["version"] for name in peers}
