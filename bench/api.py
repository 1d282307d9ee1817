"""The HTTP API next to a bare FastAPI route that writes one row.

    python bench/api.py [--quick] [--json FILE]

Rows take turns, round after round; each measurement has a server of its own in an empty directory.
The load comes from wrk over loopback.
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import harness
from harness import PEERS, Failed, log, recording_failure
from processes import SERVE, Running, Server, running
from report import Cell, Chart, Result, Table, Target, at_most, spread

JOBS = "/api/jobs"
JOB = '{"job_type": "noop", "parameters": {"sent": 1}}'
SETTINGS = {"SECRETARY_HANDLERS": "secretary_handlers:register_on_loop"}
BARE = (sys.executable, str(PEERS / "bare_api.py"))
API_ONLY = Server("secretary", (*SERVE, "--no-worker"), SETTINGS)
SERVERS = [
    API_ONLY,
    Server("secretary, with worker", SERVE, SETTINGS),
    Server("bare route, on the event loop", (*BARE, "direct")),
    Server("bare route, in a thread", (*BARE, "thread")),
]
CONNECTIONS = (1, 16, 64)
#: How many connections poll the status of a job.
POLLING = 16
#: How much longer than a bare route it may take to accept a job.
TARGET = 2.0
SCRIPT = Path(__file__).resolve().parent / "wrk.lua"
#: What wrk may take beyond the time it was given.
GRACE_S = 20
#: Open files in addition to the streams.
MORE_FILES = 200
STREAM_LIMIT_S = 60
SETTLE_S = 1.0
NOTES = """\
Medians of {rounds} rounds of {seconds} s. Accepted: `POST /api/jobs`, answered with 202 after \
fsync. Polls: `GET /api/jobs/{{id}}` over 16 connections. Memory: of all processes, at the end. \
With worker: the same process runs the jobs, which do nothing. Bare route: FastAPI, pydantic and \
one INSERT into SQLite with the same durability."""
COST_NOTES = (
    "CPU of the server per request; x bare: time over the faster bare route, round by round."
)


@dataclass(frozen=True)
class Plan:
    rounds: int = 3
    seconds: int = 3
    warm_up_s: int = 1
    streams: int = 2_000
    idle_s: float = 15  # every stream gets one heartbeat in 15 s


QUICK = Plan(rounds=1, seconds=1, warm_up_s=0, streams=500, idle_s=5)


@dataclass(frozen=True)
class Load:
    per_s: float
    p50_ms: float
    p99_ms: float
    #: CPU time of all processes of the server per request.
    cpu_us: float


@dataclass
class Row:
    server: Server
    #: By connections, or "polls".
    loads: dict[int | str, list[Load]] = field(
        default_factory=lambda: {key: [] for key in (*CONNECTIONS, "polls")}
    )
    memory_mb: list[float] = field(default_factory=list)

    @property
    def bare(self) -> bool:
        return self.server.name.startswith("bare")

    def spread(self, key: int | str, figure: str) -> Cell:
        return spread([getattr(load, figure) for load in self.loads[key]])


def main(arguments: Sequence[str]) -> Result:
    options = harness.parser(__doc__).parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    if not harness.has_program("wrk"):
        sys.exit("wrk is required: apt-get install wrk")
    rows = [Row(server) for server in SERVERS]
    with harness.benchmark("api", options, plan, "wrk") as (result, root):
        for number in range(plan.rounds):
            log(f"round {number + 1} of {plan.rounds}")
            for connections in CONNECTIONS:
                for row in rows:
                    what = f"{row.server.name}, {connections} connections"
                    with (
                        recording_failure(result.failures, what),
                        running(row.server, root) as server,
                    ):
                        _measure(server, row, connections, plan)
        head = [f"{n} conn: accepted/s|p50 ms|p99 ms".split("|") for n in CONNECTIONS]
        columns = [title for titles in head for title in titles]
        chart = Chart(
            "accepted", "Jobs accepted per second", "jobs/s", [1, 4, 7],
            [f"{n} connection{'s' if n > 1 else ''}" for n in CONNECTIONS],
        )  # fmt: skip
        result.tables = [
            Table(
                ["", *columns, "polls/s", "memory MB"], [_cells(row) for row in rows],
                notes=NOTES.format(**result.plan), charts=[chart],
            ),
            _costs(rows),
        ]  # fmt: skip
        log(f"{plan.streams:,} streams")
        with recording_failure(result.failures, "streams"):
            result.tables.append(measure_streams(plan.streams, idle_s=plan.idle_s, root=root))
        result.targets = list(_targets(rows))
    return result


def _measure(server: Running, row: Row, connections: int, plan: Plan) -> None:
    post = {"BENCH_METHOD": "POST", "BENCH_BODY": JOB}
    if plan.warm_up_s:
        _wrk(server, JOBS, post, connections, plan.warm_up_s)
    row.loads[connections].append(_wrk(server, JOBS, post, connections, plan.seconds))
    if connections == POLLING:
        job_id = server.post(JOBS, json.loads(JOB))["data"]["job_id"]
        get = {"BENCH_METHOD": "GET"}
        row.loads["polls"].append(_wrk(server, f"{JOBS}/{job_id}", get, connections, plan.seconds))
    if connections == CONNECTIONS[-1]:
        row.memory_mb.append(server.tree.memory_bytes() / 1e6)


def _wrk(
    server: Running, path: str, request: dict[str, str], connections: int, seconds: int
) -> Load:
    cpu_before, limit_s = server.tree.cpu_seconds(), seconds + GRACE_S
    # One thread: server and wrk have a core each on a machine with two.
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(SCRIPT)]
    command.append(server.url + path)
    env = os.environ | request
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise Failed(f"wrk took more than {limit_s} s") from None
    if done.returncode:
        raise Failed(f"wrk exited with {done.returncode}: {done.stderr.strip()}")
    counted = json.loads(done.stdout.strip().splitlines()[-1])
    requests, errors = counted["requests"], counted["errors"]
    if errors or not requests:
        raise Failed(f"{errors} of {requests} requests failed")
    cpu_us = (server.tree.cpu_seconds() - cpu_before) / requests * 1e6
    return Load(requests / counted["seconds"], counted["p50_ms"], counted["p99_ms"], cpu_us)


def _cells(row: Row) -> list[Cell]:
    figures = ("per_s", "p50_ms", "p99_ms")
    loads = [row.spread(n, figure) for n in CONNECTIONS for figure in figures]
    return [row.server.name, *loads, row.spread("polls", "per_s"), spread(row.memory_mb)]


def _costs(rows: Sequence[Row]) -> Table:
    names = [*(f"{n} conn" for n in CONNECTIONS), "poll"]
    head = ["", *(f"CPU µs, {name}" for name in names), *(f"x bare, {name}" for name in names)]
    lines: list[list[Cell]] = []
    for row in rows:
        ratios: list[Cell] = ["" if row.bare else ratio for _, ratio in _times_bare(row, rows)]
        cpu = [row.spread(key, "cpu_us") for key in row.loads]
        lines.append([row.server.name, *cpu, *ratios])
    return Table(head, lines, "Cost of a request", COST_NOTES)


def _times_bare(row: Row, rows: Sequence[Row]) -> Iterator[tuple[int | str, float | None]]:
    """How much longer it takes than the faster bare route, round by round."""
    bare = [other for other in rows if other.bare]
    for key, loads in row.loads.items():
        rounds = list(zip(loads, *(other.loads[key] for other in bare), strict=False))
        ratios = [max(b.per_s for b in others) / own.per_s for own, *others in rounds]
        yield key, statistics.median(ratios) if ratios else None


def _targets(rows: Sequence[Row]) -> Iterator[Target]:
    ours, with_worker, *_ = rows
    peer = "the faster bare route"
    for key, ratio in _times_bare(ours, rows):
        if key == "polls":
            yield at_most("poll, x bare route", None, ratio, peer=peer)
        else:
            name = f"accept a job, {key} connection{'s' if key != 1 else ''}, x bare route"
            yield at_most(name, TARGET, ratio, peer=peer)
    worst = max((ratio for _, ratio in _times_bare(with_worker, rows) if ratio), default=None)
    yield at_most("the worst of these with the worker, x bare route", None, worst, peer=peer)


def measure_streams(count: int, *, idle_s: float, root: Path) -> Table:
    """Many open event streams: what they cost, and when all have received the final event."""
    _allow_files(count + MORE_FILES)
    with running(API_ONLY, root) as server:
        batch = server.post("/api/batches", {"jobs": [json.loads(JOB)] * count})["data"]
        figures = asyncio.run(_measure_streams(server, batch, idle_s))
    return Table(["open streams", *figures], [[count, *figures.values()]], "Event streams")


async def _measure_streams(
    server: Running, batch: dict[str, Any], idle_s: float
) -> dict[str, float]:
    tree, job_ids = server.tree, batch["job_ids"]
    memory = tree.memory_bytes()
    events = _Events(len(job_ids))
    started = time.monotonic()
    host, _, port = urlsplit(server.url).netloc.partition(":")
    for job_id in job_ids:
        request = f"GET /api/jobs/{job_id}/stream HTTP/1.1\r\nHost: {host}\r\n\r\n"
        stream = partial(_Stream, request.encode(), events)
        await asyncio.get_running_loop().create_connection(stream, host, int(port))
    await events.wait(0, "have started")
    opened_s = time.monotonic() - started
    await asyncio.sleep(SETTLE_S)
    grown, threads = tree.memory_bytes() - memory, tree.threads()
    cpu, since = tree.cpu_seconds(), time.monotonic()
    await asyncio.sleep(idle_s)
    idle = (tree.cpu_seconds() - cpu) / (time.monotonic() - since)
    started = time.monotonic()
    await asyncio.to_thread(server.post, f"/api/batches/{batch['batch_id']}/cancel", {})
    await events.wait(1, "have ended")
    return {
        "kB each": grown / len(job_ids) / 1024,
        "threads": threads,
        "idle CPU %": idle * 100,
        "opened in s": opened_s,
        "final event received by all, s": time.monotonic() - started,
    }


class _Events:
    """Counts the streams that have received the first and the final event."""

    def __init__(self, count: int) -> None:
        self._missing = [count, count]
        self._complete = asyncio.Event(), asyncio.Event()

    def received(self, number: int) -> None:
        self._missing[number] -= 1
        if not self._missing[number]:
            self._complete[number].set()

    async def wait(self, number: int, what: str) -> None:
        try:
            await asyncio.wait_for(self._complete[number].wait(), STREAM_LIMIT_S)
        except TimeoutError:
            missing = self._missing[number]
            raise Failed(f"after {STREAM_LIMIT_S} s, all but {missing} streams {what}") from None


class _Stream(asyncio.Protocol):
    AWAITED = (b"event: pending", b"event: cancelled")

    def __init__(self, request: bytes, events: _Events) -> None:
        self._request, self._events = request, events
        self._unread, self._number = b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while self._number < 2 and self.AWAITED[self._number] in self._unread:
            self._unread = self._unread.partition(self.AWAITED[self._number])[2]
            self._events.received(self._number)
            self._number += 1


def _allow_files(count: int) -> None:
    """For this process and for the servers it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise Failed(f"{count} open files are needed, the limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


if __name__ == "__main__":
    harness.run(main)
