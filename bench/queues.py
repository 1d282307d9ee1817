"""Job queues under measurement: each row in an empty directory with its own broker and worker."""

import json
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from harness import PEERS, Failed, environment, log, recording_failure
from processes import Tree, child_environment
from report import Cell, Target, ahead

CLIENT_LIMIT_S = 90
START_LIMIT_S = 30
WARM_UP_JOBS = 20
SETTLE_S = 1.0
PROBE_GAP_MS = 20
CALLERS = 32
#: How long a killed worker has the machine for itself when it restarts.
RESTART_S = 3.0
REQUIREMENTS = ("celery[redis]", "dramatiq[redis]", "huey", "redis", "rq", "saq")


@dataclass(frozen=True)
class Adapter:
    """One row: a module in peers/ that `verbs.py` runs under this Python."""

    name: str
    module: str
    python: Path = Path(sys.executable)
    #: Arguments of `peers/services.py`, which starts the row's broker or database.
    service: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

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


@dataclass(frozen=True)
class About:
    version: str = "?"
    runs_as: str = "?"
    durable: bool = False
    #: Whether the row has figures that no other row has.
    extra: bool = False


@dataclass(frozen=True)
class Killed:
    #: On the monotonic clock.
    at: float
    job: int


@contextmanager
def open_testbed(adapter: Adapter, root: Path) -> Iterator["Testbed"]:
    directory = Path(tempfile.mkdtemp(prefix=f"{adapter.name}-", dir=root))
    testbed = Testbed(adapter, directory)
    try:
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
        self.service: Tree | None = None
        self.worker: Tree | None = None

    @property
    def url(self) -> str:
        """Of the service."""
        return self._env["BENCH_URL"]

    def start_service(self) -> None:
        if not self._adapter.service:
            return
        log = self.directory / "service.log"
        script = str(PEERS / "services.py")
        service = self.service = self._start([sys.executable, script, self._adapter.service], log)
        self.wait(
            lambda: '"url"' in _last_line(log.read_text()) or not service.running(),
            "its service to respond",
        )
        self._env["BENCH_URL"] = _last_json(log.read_text())["url"]

    def start_worker(self) -> None:
        self.worker = self._start(self._adapter.command("worker"), self.directory / "worker.log")

    def kill_worker(self) -> None:
        if self.worker:
            self.worker.kill()
        self.worker = None

    def client(
        self, verb: str, *arguments: int, limit_s: float = CLIENT_LIMIT_S
    ) -> Mapping[str, Any]:
        command = self._adapter.command(verb, *arguments)
        try:
            done = subprocess.run(
                command, cwd=self.directory, env=self._env, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=limit_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(f"{verb} took more than {limit_s:.0f} s") from None
        if done.returncode:
            raise Failed(f"{verb} exited with {done.returncode}: {_last_line(done.stderr)}")
        return _last_json(done.stdout)

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
                raise Failed(f"the worker exited: {_last_line(log)}")
            if time.monotonic() > deadline:
                raise Failed(f"waited {limit_s:.0f} s for {what}")
            time.sleep(0.02)

    def wait_for_starts(self, count: int, limit_s: float = START_LIMIT_S) -> None:
        self.wait(lambda: self.started() >= count, f"{count} jobs to start", limit_s)

    def cpu_seconds(self) -> tuple[float, float]:
        """Of the worker and of the service."""
        trees = self.worker, self.service
        worker, service = (tree.cpu_seconds() if tree else 0.0 for tree in trees)
        return worker, service

    def _start(self, command: list[str], output: Path) -> Tree:
        return Tree(command, directory=self.directory, env=self._env, output=output)


def enqueue_rate(testbed: Testbed, jobs: int, *, callers: int = 1) -> float:
    answer = testbed.client("enqueue", jobs, callers)
    return float(answer["jobs"] / answer["seconds"])


def drain_rate(testbed: Testbed, jobs: int, *, window_s: float) -> float:
    """Jobs per second from the first start to the last, or to the end of the window."""
    testbed.start_worker()
    testbed.wait_for_starts(1)
    deadline = time.monotonic() + window_s
    while testbed.started() < jobs and time.monotonic() < deadline:
        time.sleep(0.05)
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


def idle_cpu(testbeds: Sequence[Testbed], *, seconds: float) -> list[tuple[float, float | None]]:
    """Percent of one core of each worker and its service, all measured at the same time."""
    started, before = time.monotonic(), [testbed.cpu_seconds() for testbed in testbeds]
    time.sleep(seconds)
    percent = 100 / (time.monotonic() - started)
    usages: list[tuple[float, float | None]] = []
    for testbed, (worker_before, service_before) in zip(testbeds, before, strict=True):
        worker, service = testbed.cpu_seconds()
        of_service = (service - service_before) * percent if testbed.service else None
        usages.append(((worker - worker_before) * percent, of_service))
    return usages


def kill_in_mid_job(testbed: Testbed) -> Killed:
    """Kills the worker one second into a job and restarts it at once with the same command."""
    before = testbed.started()
    testbed.client("hold")
    testbed.wait_for_starts(before + 1)
    time.sleep(1)
    killed = Killed(time.monotonic(), testbed.records()[-1].sent_ns)
    testbed.kill_worker()
    testbed.start_worker()
    wait_for_recovery([(testbed, killed)], cap_s=RESTART_S)
    return killed


def recovered_after(testbed: Testbed, killed: Killed) -> float | None:
    """Seconds from the kill to the next start of the job."""
    starts = [
        record.started_ns / 1e9 for record in testbed.records() if record.sent_ns == killed.job
    ]
    return next((start - killed.at for start in starts if start > killed.at), None)


def wait_for_recovery(cases: Sequence[tuple[Testbed, Killed]], *, cap_s: float) -> None:
    """Until every job has started again or its time is up."""
    while any(
        recovered_after(testbed, killed) is None and time.monotonic() - killed.at < cap_s
        for testbed, killed in cases
    ):
        time.sleep(0.05)


@dataclass
class Row:
    """What was measured of one queue; a missing figure has failed."""

    adapter: Adapter
    about: About = About()
    enqueue_rates: list[float] = field(default_factory=list)
    concurrent_enqueue_rates: list[float] = field(default_factory=list)
    drain_rates: list[float] = field(default_factory=list)
    sustained_rates: list[float] = field(default_factory=list)
    latencies: list[tuple[float, float]] = field(default_factory=list)
    idle_cpu: tuple[float | None, float | None] = (None, None)
    #: Seconds until the killed job ran again; the cap if it did not.
    recovery_s: float | None = None
    recovered: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.adapter.name

    @property
    def ours(self) -> bool:
        return self.name.startswith("secretary")

    def recovery_cell(self) -> Cell:
        lost = self.recovery_s is not None and not self.recovered
        return f"> {self.recovery_s:g}" if lost else self.recovery_s


@contextmanager
def idle_workers(
    rows: Sequence[Row], root: Path, failures: list[str]
) -> Iterator[list[tuple[Row, Testbed]]]:
    """All rows at once, for measurements that are mostly waiting."""
    with ExitStack() as stack:
        idle = []
        for row in rows:
            log(f"idle worker: {row.name}")
            with recording_failure(failures, row.name):
                testbed = stack.enter_context(open_testbed(row.adapter, root))
                warm_up(testbed)
                idle.append((row, testbed))
        yield idle


def measure_recovery(
    idle: Sequence[tuple[Row, Testbed]], cap_s: float, failures: list[str]
) -> None:
    killed: list[tuple[Row, Testbed, Killed]] = []
    for row, testbed in idle:
        log(f"kill -9: {row.name}")
        with recording_failure(failures, row.name):
            killed.append((row, testbed, kill_in_mid_job(testbed)))
    wait_for_recovery([(testbed, kill) for _, testbed, kill in killed], cap_s=cap_s)
    for row, testbed, kill in killed:
        seconds = recovered_after(testbed, kill)
        row.recovered = seconds is not None and seconds <= cap_s
        row.recovery_s = seconds if row.recovered else cap_s


def recovery_target(name: str, row: Row, peers: Sequence[Row], target: str) -> Target:
    """A peer that did not recover counts with the cap."""
    seconds = row.recovery_s if row.recovered else None
    times = {peer.name: peer.recovery_s for peer in peers}
    result = ahead(name, seconds, times, "s", target=target, lower_is_better=True)
    if result.peer and not any(peer.recovered for peer in peers):
        result.peer = f"none within {max(peer.recovery_s or 0 for peer in peers):g} s"
    return result


def descriptions(rows: Sequence[Row]) -> str:
    return "\n".join(f"- {row.name}: {row.about.runs_as}" for row in rows)


def peer_versions(rows: Sequence[Row]) -> dict[str, str]:
    """Some peers have two rows, with one store each: "huey-redis"."""
    return {row.name.split("-")[0]: row.about.version for row in rows if not row.ours}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


def _last_json(text: str) -> Mapping[str, Any]:
    try:
        answer: Mapping[str, Any] = json.loads(_last_line(text))
    except ValueError:
        raise Failed(f"not JSON: {_last_line(text)}") from None
    return answer
