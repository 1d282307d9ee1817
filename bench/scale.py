"""Many worker processes on MongoDB, next to Celery and RQ on Redis with fsync.

    python bench/scale.py [--quick] [--only workers,wakeup,documents,durable,costs] [--json FILE]

Every measurement starts in an empty directory with its own mongod (a replica set of one) or Redis;
rows take turns, round after round.
"""

import asyncio
import statistics
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import harness
import httpx
import queues
import seeding
import store_costs
from corpus.files import plain_pages, scan, variant
from harness import Failed, log, recording_failure
from processes import SERVE, Server, Tree, child_environment, running
from queues import CALLERS, MONGODB, Adapter, Testbed, open_testbed
from report import Cell, Chart, Result, Samples, ahead, at_least

from secretary.core.job import Job

WORKERS = (1, 2, 4, 8)
#: Slots for jobs that do nothing, and for jobs that wait 0.1 s.
SLOTS = {"noop": 32, "rest": 8}
LABELS = {"noop": "no-op", "rest": "0.1 s wait"}
FILL_CALLERS = 64
READY_LIMIT_S = 60
#: After this time all workers are busy, and counting starts.
RAMP_S = 2.0
GAP_S, SETTLE_S = 0.02, 2.0
UPLOADS, POLL_S, DOCUMENTS_LIMIT_S = 2, 0.25, 300
#: Files that are processed before the clock starts.
WARM_UP_FILES = 4
SUSTAINED_LIMIT_S = 120
#: How many times as many documents two workers should process as one.
DOCUMENTS_TARGET = 1.8
DURABLE_TARGET = "ahead of Celery and RQ"
DURABLE_COLUMNS = ["enqueues/s", "jobs/s", "sustained jobs/s"]
#: Child processes are not used here, but each takes memory.
ON_LOOP = {"BENCH_HANDLERS": "register_on_loop", "SECRETARY_GENERIC_WORKER__PROCESSES": "1"}
WORKERS_HEAD = ["jobs/s", "claim p50 ms", "p99 ms", "jobs per claim", "workers CPU ms"]
WORKERS_HEAD += ["mongod CPU ms"]
DOCUMENTS_HEAD = ["1 worker", "2 workers", "ratio", "workers CPU s", "API and mongod CPU s"]


@dataclass(frozen=True)
class Plan:
    rounds: int = 2
    window_s: float = 5
    jobs: int = 20_000
    probes: int = 200
    scans: int = 8
    texts: int = 24
    durable_jobs: int = 4_000
    recovery_cap_s: float = 60
    cost_jobs: int = 1_024


QUICK = Plan(
    rounds=1, window_s=2, jobs=6_000, probes=40, scans=4, texts=6, durable_jobs=500,
    recovery_cap_s=15, cost_jobs=128,
)  # fmt: skip


def main(arguments: Sequence[str]) -> Result:
    parser = harness.parser(__doc__, PARTS)
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    plan = replace(plan, rounds=options.rounds or plan.rounds)
    with harness.benchmark("scale", options, plan, "mongod", "redis-server") as (result, root):
        harness.measure_parts(PARTS, options.only, result, plan, root)
    return result


def _measure_workers(result: Result, plan: Plan, root: Path) -> None:
    samples, rows = Samples(), dict[str, None]()
    for number in range(plan.rounds):
        for job_type in SLOTS:
            for workers in WORKERS:
                log(f"round {number + 1}: {job_type}, {workers} workers")
                rows[row := f"{LABELS[job_type]}, {workers}"] = None
                figures = _throughput(root, workers, job_type, plan)
                samples.add(row, dict(zip(WORKERS_HEAD, figures, strict=True)))
    lines = [samples.line(row, WORKERS_HEAD) for row in rows]
    chart = Chart(
        "workers", "Throughput by worker processes", "jobs/s", [1],
        kind="lines", axis="worker processes",
    )  # fmt: skip
    result.add("Worker processes", ["jobs, workers", *WORKERS_HEAD], lines, chart)


def _fleet(workers: int, slots: int, *, barrier: bool = False) -> Adapter:
    settings = ON_LOOP | {"BENCH_WORKERS": str(workers), "BENCH_SLOTS": str(slots)}
    settings |= {"BENCH_BARRIER": "1"} if barrier else {}
    return Adapter("fleet", "secretary_peer", service="mongodb", settings=settings)


def _throughput(root: Path, workers: int, job_type: str, plan: Plan) -> tuple[float, ...]:
    """Of jobs that are waiting when all workers start at once; in the order of the table."""
    with open_testbed(_fleet(workers, SLOTS[job_type], barrier=True), root) as testbed:
        asyncio.run(_fill(testbed.url, job_type, plan.jobs))
        testbed.start_worker()
        ready = testbed.directory.glob
        testbed.wait(lambda: len(list(ready("ready-*"))) == workers, "the workers", READY_LIMIT_S)
        (testbed.directory / "go").touch()
        testbed.wait_for_starts(1)
        time.sleep(RAMP_S)
        start_ns, before = time.monotonic_ns(), testbed.cpu_seconds()
        testbed.wait_at_most(plan.jobs, plan.window_s)
        end_ns, after = time.monotonic_ns(), testbed.cpu_seconds()
        testbed.kill_worker()
        during = range(start_ns, end_ns)
        data = (testbed.directory / "claims").read_bytes()
        claims = [
            (took / 1e6, count)
            for at, took, count in struct.iter_unpack("<qqq", data)
            if at in during
        ]
        jobs = sum(record.started_ns in during for record in testbed.records())
    if jobs < 10 or len(claims) < 2:
        raise Failed(f"{jobs} jobs and {len(claims)} claims; are there too few jobs?")
    times = [took for took, _ in claims]
    cpu_ms = [(b - a) / jobs * 1000 for a, b in zip(before, after, strict=True)]
    per_claim = statistics.mean(count for _, count in claims)
    rate = jobs / (end_ns - start_ns) * 1e9
    return (rate, statistics.median(times), _p99(times), per_claim, *cpu_ms)


async def _fill(url: str, job_type: str, jobs: int) -> None:
    numbers = iter(range(jobs))
    async with seeding.opened(url) as store:

        async def add() -> None:
            for number in numbers:
                await store.add([Job(job_type=job_type, parameters={"sent": number})])

        await asyncio.gather(*(add() for _ in range(FILL_CALLERS)))


def _measure_wake_up(result: Result, plan: Plan, root: Path) -> None:
    lines: list[list[Cell]] = [[str(n), *_wake_up(root, n, plan.probes)] for n in WORKERS]
    head = ["workers", "from acceptance p50 ms", "p99 ms", "from the call p50 ms", "p99 ms"]
    result.add("Start latency", [*head, "mongod CPU ms per job"], lines)


def _wake_up(root: Path, workers: int, jobs: int) -> tuple[float, ...]:
    """Latencies of idle workers, one job after the other from another process."""
    with open_testbed(_fleet(workers, slots=4), root) as testbed:
        asyncio.run(_fill(testbed.url, "noop", 20))
        testbed.start_worker()
        testbed.wait_for_starts(20, READY_LIMIT_S)
        _wait_until_idle(testbed)
        before = testbed.cpu_seconds()[1]
        called = asyncio.run(_probe(testbed.url, jobs))
        testbed.wait_for_starts(20 + jobs)
        cpu_ms = (testbed.cpu_seconds()[1] - before) / jobs * 1000
        started = {sent: at for sent, at in testbed.records() if sent in called}
    waits = [(started[sent] - accepted) / 1e6 for sent, accepted in called.items()]
    whole = [(at - sent) / 1e6 for sent, at in started.items()]
    return statistics.median(waits), _p99(waits), statistics.median(whole), _p99(whole), cpu_ms


def _wait_until_idle(testbed: Testbed) -> None:
    """Until all workers have started, which takes seconds on a busy machine."""
    seen, quiet_since = -1.0, time.monotonic()
    while time.monotonic() - quiet_since < SETTLE_S:
        spent = testbed.cpu_seconds()[0]
        if spent - seen > 0.2:
            seen, quiet_since = spent, time.monotonic()
        time.sleep(0.1)


async def _probe(url: str, jobs: int) -> dict[int, int]:
    """When jobs were accepted, by when they were sent."""
    accepted: dict[int, int] = {}
    async with seeding.opened(url) as store:
        for _ in range(jobs):
            sent = time.monotonic_ns()
            await store.add([Job(job_type="noop", parameters={"sent": sent})])
            accepted[sent] = time.monotonic_ns()
            await asyncio.sleep(GAP_S)
    return accepted


def _p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[-1]


def _measure_documents(result: Result, plan: Plan, root: Path) -> None:
    scanned, text = scan(root, "en", 200, 3).pdf, plain_pages(root, 200)
    ocr = {"extraction_method": "ocr", "ocr_language": "eng"}
    samples, lines = Samples(), list[list[Cell]]()
    for name, source, count, fields in (
        ("3 scanned pages", scanned, plan.scans, ocr),
        ("200 pages of text", text, plan.texts, {}),
    ):
        files = [variant(source, root, f"{name} {n}") for n in range(count + WARM_UP_FILES)]
        for number in range(plan.rounds):
            rates = []
            for workers, column in enumerate(("1 worker", "2 workers"), 1):
                log(f"round {number + 1}: {name}, {column}")
                rate, *cpu = _document_rate(root, files, fields, workers)
                samples.add(name, {column: rate})
                rates.append(rate)
            # CPU: with two workers
            samples.add(name, dict(zip(DOCUMENTS_HEAD[3:], cpu, strict=True)))
            samples.add(name, {"ratio": rates[1] / rates[0]})
        ratio, line = samples.median(name, "ratio"), samples.line(name, DOCUMENTS_HEAD)
        lines.append([*line[:3], ratio, *line[4:]])
        label = f"documents with two workers over one, {name}"
        result.targets.append(at_least(label, DOCUMENTS_TARGET, ratio))
    result.add("Documents end to end", ["", *DOCUMENTS_HEAD], lines)


def _document_rate(
    root: Path, files: Sequence[Path], fields: dict[str, str], workers: int
) -> tuple[float, float, float]:
    """Documents per second, and CPU seconds per document of the workers and of the rest."""
    with open_testbed(MONGODB, root) as testbed, ExitStack() as stack:
        settings = {"MONGODB_URI": testbed.url, "SECRETARY_LOGGING__LEVEL": "warning"}
        api = stack.enter_context(running(Server("api", (*SERVE, "--no-worker"), settings), root))
        trees = [_start_worker(stack, testbed, settings, number) for number in range(workers)]
        timeout = httpx.Timeout(DOCUMENTS_LIMIT_S)
        client = httpx.Client(base_url=api.url, timeout=timeout, trust_env=False)
        stack.enter_context(client)
        testbed.wait(
            lambda: client.get("/api/health").json()["data"]["workers"] >= workers,
            f"{workers} workers", DOCUMENTS_LIMIT_S,
        )  # fmt: skip
        groups = trees, [tree for tree in (api.tree, testbed.service) if tree]
        _process(client, fields, files[:WARM_UP_FILES])
        before = [sum(tree.cpu_seconds() for tree in group) for group in groups]
        measured, started = files[WARM_UP_FILES:], time.perf_counter()
        _process(client, fields, measured)
        seconds = time.perf_counter() - started
        after = [sum(tree.cpu_seconds() for tree in group) for group in groups]
    of_workers, of_rest = ((b - a) / len(measured) for a, b in zip(before, after, strict=True))
    return len(measured) / seconds, of_workers, of_rest


def _start_worker(
    stack: ExitStack, testbed: Testbed, settings: dict[str, str], number: int
) -> Tree:
    """One slot, one child process, its own data directory."""
    (directory := testbed.directory / f"worker-{number}").mkdir()
    command = [sys.executable, "-m", "secretary", "worker", "--slots", "1", "--data-dir", "data"]
    env = child_environment(directory) | settings | {"SECRETARY_GENERIC_WORKER__PROCESSES": "1"}
    tree = Tree(command, directory=directory, env=env, output=directory / "worker.log")
    stack.callback(tree.kill)
    return tree


def _process(client: httpx.Client, fields: dict[str, str], files: Sequence[Path]) -> None:
    """Uploads the files, waits for the jobs and fetches their results."""

    def upload(file: Path) -> str:
        with file.open("rb") as content:
            given = {"file": (file.name, content, "application/pdf")}
            response = client.post("/api/pdf/process", data=fields, files=given)
        return str(response.raise_for_status().json()["job_id"])

    with ThreadPoolExecutor(UPLOADS) as threads:
        waiting = set(threads.map(upload, files))
    deadline = time.monotonic() + DOCUMENTS_LIMIT_S
    while waiting:
        job_id = min(waiting)
        job = client.get(f"/api/jobs/{job_id}").raise_for_status().json()["data"]
        if job["status"] == "completed":
            if not job["results"]["markdown_content"]:
                raise Failed(f"{job_id} has no text")
            waiting.remove(job_id)
        elif job["status"] in ("failed", "cancelled") or time.monotonic() > deadline:
            raise Failed(f"{job_id} is {job['status']}: {job['error']}")
        else:
            time.sleep(POLL_S)


def _durable_rows() -> list[Adapter]:
    python = queues.peers_python()
    two = {"BENCH_WORKERS": "2", "SECRETARY_GENERIC_WORKER__PROCESSES": "1"}
    # A worker with many slots claims many jobs at once; they wait for a child process in turn.
    more = {"BENCH_SLOTS": "32", "SECRETARY_GENERIC_WORKER__PROCESSES": "4"}
    settings = {
        "secretary, isolated": {"BENCH_WORKERS": "2", "BENCH_SLOTS": "8"},
        "secretary, isolated, 32 slots": two | more,
        "secretary, on the event loop": two | ON_LOOP | {"BENCH_SLOTS": "64"},
    }
    durable = {"BENCH_DURABLE": "1"}
    return [
        *(Adapter(n, "secretary_peer", service="mongodb", settings=s) for n, s in settings.items()),
        *(Adapter(n, f"{n}_peer", python, "redis-fsync", durable) for n in ("celery", "rq")),
    ]


def _measure_durable(result: Result, plan: Plan, root: Path) -> None:
    if not harness.has_program("redis-server"):
        raise Failed("there is no redis-server")
    rows, samples, failures = _durable_rows(), Samples(), result.failures
    about: dict[str, Mapping[str, Any]] = {}
    for number in range(plan.rounds):
        for row in rows:
            log(f"round {number + 1}: {row.name}")
            with recording_failure(failures, row.name), open_testbed(row, root) as testbed:
                about[row.name] = testbed.client("about")
                rate = queues.enqueue_rate(testbed, plan.durable_jobs, callers=CALLERS)
                samples.add(row.name, {"enqueues/s": rate})
                rate = queues.drain_rate(testbed, plan.durable_jobs, window_s=plan.window_s)
                samples.add(row.name, {"jobs/s": rate})
            with recording_failure(failures, row.name), open_testbed(row, root) as testbed:
                rate = _sustained(testbed, plan.durable_jobs, plan.window_s)
                samples.add(row.name, {"sustained jobs/s": rate})
    with queues.idle_workers(rows, root, failures) as idle:
        queues.measure_recovery(idle, plan.recovery_cap_s, samples, failures)
    result.versions |= queues.peer_versions(rows, about)
    lines: list[list[Cell]] = []
    for row in rows:
        name, *rates = samples.line(row.name, DURABLE_COLUMNS)
        version = about.get(row.name, {"version": "?"})["version"]
        recovery = queues.recovery_cell(samples, row.name, plan.recovery_cap_s)
        lines.append([name, version, *rates, recovery])
    chart = Chart(
        "durable", "Jobs per second, all rows with fsync", "jobs/s", [2, 3, 4],
        ["enqueues", "throughput", "sustained"],
    )  # fmt: skip
    head = ["", "version", *DURABLE_COLUMNS, queues.RECOVERY]
    title = "Next to Celery and RQ, all with fsync"
    result.add(title, head, lines, chart, more=queues.descriptions(about))
    ours, peers = ([row.name for row in rows if row.ours is mine] for mine in (True, False))
    result.targets += [
        ahead(
            f"{name}: {column}", samples.median(name, column), samples.medians(peers, column),
            "/s", target=DURABLE_TARGET,
        )
        for name in ours
        for column in DURABLE_COLUMNS
    ]  # fmt: skip
    for name in ours:
        label, cap_s = f"{name}: recovery after kill -9", plan.recovery_cap_s
        target = queues.recovery_target(label, samples, name, peers, cap_s, DURABLE_TARGET)
        result.targets.append(target)


def _sustained(testbed: Testbed, jobs: int, window_s: float) -> float:
    """Jobs that are enqueued and processed at the same time: from the first call to the last
    start, or to the end of the window after the last call."""
    queues.warm_up(testbed)
    before = testbed.started()
    testbed.client("enqueue", jobs, CALLERS, limit_s=SUSTAINED_LIMIT_S)
    testbed.wait_at_most(before + jobs - jobs % CALLERS, window_s)
    records = testbed.records()[before:]
    if len(records) < 2:
        raise Failed("hardly any job started")
    first = min(record.sent_ns for record in records)
    return len(records) / (max(record.started_ns for record in records) - first) * 1e9


PARTS = {
    "workers": _measure_workers,
    "wakeup": _measure_wake_up,
    "documents": _measure_documents,
    "durable": _measure_durable,
    "costs": store_costs.measure,
}

if __name__ == "__main__":
    harness.run(main)
