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
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import harness
from harness import BENCH, PEERS, Failed, last_line, log, output, recording_failure
from processes import SERVE, Client, Running, Server, running
from report import Cell, Chart, Result, Samples, Target, at_most

JOBS = "/api/jobs"
JOB = '{"job_type": "noop", "parameters": {"sent": 1}}'
SETTINGS = {"SECRETARY_HANDLERS": "secretary_handlers:register_on_loop"}
BARE = (sys.executable, str(PEERS / "bare_api.py"))
API_ONLY = Server("secretary", (*SERVE, "--no-worker"), SETTINGS)
WITH_WORKER = Server("secretary, with worker", SERVE, SETTINGS)
BARE_ROUTES = [
    Server("bare route, on the event loop", (*BARE, "direct")),
    Server("bare route, in a thread", (*BARE, "thread")),
]
SERVERS = [API_ONLY, WITH_WORKER, *BARE_ROUTES]
CONNECTIONS = (1, 16, 64)
LOADS = [*(f"{n} conn" for n in CONNECTIONS), "poll"]
HEALTH = "/api/health"
#: A route that waits for the result, and a request that it accepts.
WAITING = "/api/transformer/text"
WAITING_BODY = '{"text": "# Apples", "target_format": "html"}'
WARM_UP_REQUESTS = 50
#: Targets while requests wait: memory of each, threads in all, time of a health check.
WAITER_KB, MAX_THREADS, HEALTH_MS = 50, 32, 50
#: How many connections poll the status of a job.
POLLING = 16
#: How much longer than a bare route it may take to accept a job.
TARGET = 2.0
#: What wrk may take beyond the time it was given.
GRACE_S = 20
#: Open files in addition to the streams.
MORE_FILES = 200
STREAM_LIMIT_S = 60
SETTLE_S = 1.0


@dataclass(frozen=True)
class Plan:
    rounds: int = 3
    seconds: int = 3
    warm_up_s: int = 1
    streams: int = 2_000
    idle_s: float = 15  # every stream gets one heartbeat in 15 s
    waiters: int = 1_000


QUICK = Plan(rounds=1, seconds=1, warm_up_s=0, streams=500, idle_s=5)


def main(arguments: Sequence[str]) -> Result:
    options = harness.parser(__doc__).parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    if not harness.has_program("wrk"):
        sys.exit("wrk is required: apt-get install wrk")
    samples = Samples()
    with harness.benchmark("api", options, plan, "wrk") as (result, root):
        for number in range(plan.rounds):
            log(f"round {number + 1} of {plan.rounds}")
            for connections in CONNECTIONS:
                for one in SERVERS:
                    what = f"{one.name}, {connections} connections"
                    with recording_failure(result.failures, what), running(one, root) as server:
                        _measure(server, samples, one.name, connections, plan)
        _add_accepted(result, samples)
        _add_costs(result, samples)
        log(f"{plan.streams:,} streams")
        with recording_failure(result.failures, "streams"):
            _measure_streams(result, plan, root)
        log(f"{plan.waiters:,} waiting requests")
        waiting: dict[str, float] = {}
        with recording_failure(result.failures, "waiting requests"):
            waiting = _measure_waiting(result, plan, root)
        result.targets = [*_targets(samples), *_waiting_targets(plan, waiting)]
    return result


def _measure(server: Running, samples: Samples, row: str, connections: int, plan: Plan) -> None:
    post = {"BENCH_METHOD": "POST", "BENCH_BODY": JOB}
    if plan.warm_up_s:
        _wrk(server, JOBS, post, connections, plan.warm_up_s)
    load = f"{connections} conn"
    figures = _wrk(server, JOBS, post, connections, plan.seconds)
    samples.add(row, {f"{load}: {name}": figure for name, figure in figures.items()})
    if connections == POLLING:
        job_id = server.client().request("POST", JOBS, json.loads(JOB))["data"]["job_id"]
        path = f"{JOBS}/{job_id}"
        figures = _wrk(server, path, {"BENCH_METHOD": "GET"}, connections, plan.seconds)
        samples.add(row, {f"poll: {name}": figure for name, figure in figures.items()})
    if connections == CONNECTIONS[-1]:
        samples.add(row, {"memory MB": server.tree.memory_bytes() / 1e6})


def _wrk(
    server: Running, path: str, request: dict[str, str], connections: int, seconds: int
) -> dict[str, float]:
    cpu_before = server.tree.cpu_seconds()
    # One thread: server and wrk have a core each on a machine with two.
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(BENCH / "wrk.lua")]
    command.append(server.url + path)
    printed = output("wrk", command, limit_s=seconds + GRACE_S, env=os.environ | request)
    counted = json.loads(last_line(printed))
    requests, errors = counted["requests"], counted["errors"]
    if errors or not requests:
        raise Failed(f"{errors} of {requests} requests failed")
    cpu_us = (server.tree.cpu_seconds() - cpu_before) / requests * 1e6
    times = {"p50 ms": counted["p50_ms"], "p99 ms": counted["p99_ms"], "CPU µs": cpu_us}
    return {"per s": requests / counted["seconds"], **times}


def _add_accepted(result: Result, samples: Samples) -> None:
    keys = [f"{n} conn: {name}" for n in CONNECTIONS for name in ("per s", "p50 ms", "p99 ms")]
    keys += ["poll: per s", "memory MB"]
    head = [t for n in CONNECTIONS for t in (f"{n} conn: accepted/s", "p50 ms", "p99 ms")]
    chart = Chart(
        "accepted", "Jobs accepted per second", "jobs/s", [1, 4, 7],
        [f"{n} connection{'s' if n > 1 else ''}" for n in CONNECTIONS],
    )  # fmt: skip
    lines = [samples.line(server.name, keys) for server in SERVERS]
    result.add("", ["", *head, "polls/s", "memory MB"], lines, chart)


def _add_costs(result: Result, samples: Samples) -> None:
    head = ["", *(f"CPU µs, {load}" for load in LOADS), *(f"x bare, {load}" for load in LOADS)]
    lines: list[list[Cell]] = []
    for server in SERVERS:
        cpu = samples.line(server.name, [f"{load}: CPU µs" for load in LOADS])
        bare = server in BARE_ROUTES
        lines.append([*cpu, *("" if bare else _times_bare(samples, server, n) for n in LOADS)])
    result.add("Cost of a request", head, lines)


def _times_bare(samples: Samples, server: Server, load: str) -> float | None:
    """How much longer it takes than the faster bare route, round by round."""
    rates = [samples[one.name, f"{load}: per s"] for one in (server, *BARE_ROUTES)]
    ratios = [max(bare) / ours for ours, *bare in zip(*rates, strict=False)]
    return statistics.median(ratios) if ratios else None


def _targets(samples: Samples) -> Iterator[Target]:
    peer = "the faster bare route"
    for number, load in zip(CONNECTIONS, LOADS, strict=False):
        name = f"accept a job, {number} connection{'s' if number != 1 else ''}, x bare route"
        yield at_most(name, TARGET, _times_bare(samples, API_ONLY, load), peer=peer)
    yield at_most("poll, x bare route", None, _times_bare(samples, API_ONLY, "poll"), peer=peer)
    ratios = [_times_bare(samples, WITH_WORKER, load) for load in LOADS]
    worst = max((ratio for ratio in ratios if ratio), default=None)
    yield at_most("the worst of these with the worker, x bare route", None, worst, peer=peer)


def _measure_streams(result: Result, plan: Plan, root: Path) -> None:
    """Many open event streams: what they cost, and when all have received the final event."""
    count = plan.streams
    _allow_connections(count)
    with running(API_ONLY, root) as server:
        jobs = {"jobs": [json.loads(JOB)] * count}
        batch = server.client().request("POST", "/api/batches", jobs)["data"]
        try:
            figures = asyncio.run(_stream_figures(server, batch, plan.idle_s))
        except TimeoutError:
            raise Failed(f"{count} streams did not respond within {STREAM_LIMIT_S} s") from None
    result.add("Event streams", ["open streams", *figures], [[count, *figures.values()]])


def _allow_connections(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + MORE_FILES:  # the servers inherit the limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + MORE_FILES, hard), hard))


async def _stream_figures(
    server: Running, batch: dict[str, Any], idle_s: float
) -> dict[str, float]:
    tree, memory, started = server.tree, server.tree.memory_bytes(), time.monotonic()
    host, _, port = urlsplit(server.url).netloc.partition(":")
    streams = []
    for job_id in batch["job_ids"]:
        stream, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {JOBS}/{job_id}/stream HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        streams.append((stream, writer))  # without its writer a connection is closed

    async def receive(event: bytes) -> None:
        async with asyncio.timeout(STREAM_LIMIT_S):
            await asyncio.gather(*(stream.readuntil(event) for stream, _ in streams))

    await receive(b"event: pending")
    opened_s = time.monotonic() - started
    await asyncio.sleep(SETTLE_S)
    grown, threads = tree.memory_bytes() - memory, tree.threads()
    cpu, since = tree.cpu_seconds(), time.monotonic()
    await asyncio.sleep(idle_s)
    idle = (tree.cpu_seconds() - cpu) / (time.monotonic() - since)
    started, path = time.monotonic(), f"/api/batches/{batch['batch_id']}/cancel"
    await asyncio.to_thread(server.client().request, "POST", path, {})
    await receive(b"event: error")  # how the stream of a cancelled job ends
    return {
        "kB each": grown / len(streams) / 1024,
        "threads": threads,
        "idle CPU %": idle * 100,
        "opened in s": opened_s,
        "final event received by all, s": time.monotonic() - started,
    }


def _measure_waiting(result: Result, plan: Plan, root: Path) -> dict[str, float]:
    """Many requests that wait for the results of their jobs: what they cost, and whether the
    service responds meanwhile. No worker runs, so the jobs end when they are cancelled."""
    _allow_connections(plan.waiters)
    with running(API_ONLY, root) as server:
        try:
            figures = asyncio.run(_waiting_figures(server, plan))
        except TimeoutError:
            text = f"{plan.waiters} waiting requests were not answered within {STREAM_LIMIT_S} s"
            raise Failed(text) from None
    line: list[Cell] = [plan.waiters, *figures.values()]
    result.add("Waiting requests", ["waiting requests", *figures], [line])
    return figures


async def _waiting_figures(server: Running, plan: Plan) -> dict[str, float]:
    client = server.client()
    for _ in range(WARM_UP_REQUESTS):  # so that the memory and threads they need are there
        await asyncio.to_thread(client.request, "GET", HEALTH)
        await asyncio.to_thread(client.request, "POST", JOBS, json.loads(JOB))
    tree, memory = server.tree, server.tree.memory_bytes()
    host, _, port = urlsplit(server.url).netloc.partition(":")
    head = f"POST {WAITING} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(WAITING_BODY)}\r\n\r\n{WAITING_BODY}".encode()
    connections = []
    for _ in range(plan.waiters):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request)
        connections.append((reader, writer))
    async with asyncio.timeout(STREAM_LIMIT_S):
        while await _pending(client) < plan.waiters + WARM_UP_REQUESTS:
            await asyncio.sleep(0.1)
    await asyncio.sleep(SETTLE_S)
    grown, threads = tree.memory_bytes() - memory, tree.threads()
    times = await asyncio.to_thread(_health_times, server, plan.idle_s)
    started = time.monotonic()
    await asyncio.to_thread(_cancel_all, client)
    async with asyncio.timeout(STREAM_LIMIT_S):
        heads = await asyncio.gather(*(reader.readuntil(b"\r\n") for reader, _ in connections))
    if {head.split()[1] for head in heads} != {b"409"}:
        raise Failed(f"a waiting request got {heads[0]!r}")
    return {
        "kB each": grown / plan.waiters / 1024,
        "threads": threads,
        "health p50 ms": statistics.median(times),
        "health p99 ms": statistics.quantiles(times, n=100)[98],
        "all answered in s": time.monotonic() - started,
    }


async def _pending(client: Client) -> int:
    health = await asyncio.to_thread(client.request, "GET", HEALTH)
    return int(health["data"]["jobs"]["pending"])


def _health_times(server: Running, seconds: float) -> list[float]:
    """How many milliseconds `GET /api/health` takes while another client submits jobs."""
    client, times, until = server.client(), [], time.monotonic() + seconds
    while time.monotonic() < until:
        client.request("POST", JOBS, json.loads(JOB))
        for _ in range(10):
            started = time.perf_counter()
            client.request("GET", HEALTH)
            times.append((time.perf_counter() - started) * 1000)
            time.sleep(0.005)
    return times


def _cancel_all(client: Client) -> None:
    cursor: str | None = ""
    while cursor is not None:
        body: dict[str, Any] = {"action": "cancel", "filter": {"status": ["pending"]}}
        if cursor:
            body["cursor"] = cursor
        cursor = client.request("POST", f"{JOBS}/bulk", body)["data"]["next_cursor"]


def _waiting_targets(plan: Plan, figures: dict[str, float]) -> Iterator[Target]:
    waiting = f"{plan.waiters:,} waiting requests"
    yield at_most(f"{waiting}: memory of each", WAITER_KB, figures.get("kB each"), "kB")
    yield at_most(f"{waiting}: threads", MAX_THREADS, figures.get("threads"))
    p99 = figures.get("health p99 ms")
    yield at_most(f"{waiting}: GET /api/health, p99", HEALTH_MS, p99, "ms")


if __name__ == "__main__":
    harness.run(main)
