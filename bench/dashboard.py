"""Every view of the dashboard with 1,000,000 stored jobs and with 10,000, on SQLite and MongoDB.

    python bench/dashboard.py [--quick] [--jobs N] [--only sqlite] [--json FILE]

A store is filled with few jobs and measured, then filled up and measured again: the requests of
each view, one after the other over one connection, and the views themselves in a browser.
"""

import asyncio
import http.client
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import harness
from harness import PEERS, Failed, log, recording_failure
from processes import SERVE, Server, running
from queues import MONGODB, Testbed, open_testbed
from report import Cell, Chart, Result, Table, Target, at_most

from secretary.config import Settings, StorageSettings
from secretary.core.job import JobStatus, utc_now
from secretary.store import BatchQuery, Capacity, JobQuery, open_store

sys.path.append(str(PEERS))

import seeding

STORES = ("sqlite", "mongodb")
REQUEST_TARGET_MS, VIEW_TARGET_MS = 100, 1000
DAYS = 30
PENDING, RUNNING, SLOTS = 2_000, 6, 8
#: The last pages begin here.
DEEP = timedelta(days=DAYS - 1)
TOP = 14
BROWSER = "chromium"
BROWSER_OPTIONS = ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage"]
VIEW_LIMIT_MS = 15_000
NOTES = """\
{many:,} jobs; {repeats} requests each, over loopback. x few: p50 over the p50 with {few:,} jobs."""
VIEW_NOTES = "From navigation with an empty browser cache to the view's content; {visits} visits."


@dataclass(frozen=True)
class Plan:
    many: int = 1_000_000
    few: int = 10_000
    repeats: int = 30
    visits: int = 5


QUICK = Plan(many=100_000, repeats=8, visits=2)


@dataclass(frozen=True)
class Sample:
    """What to ask the store for."""

    job_id: str
    batch_id: str
    user: str
    job_type: str
    code: str
    deep_cursor: str | None


@dataclass(frozen=True)
class Timing:
    p50_ms: float
    p95_ms: float
    max_ms: float


@dataclass
class Row:
    """One store."""

    name: str
    few: dict[str, Timing] = field(default_factory=dict)
    many: dict[str, Timing] = field(default_factory=dict)
    views: dict[str, Timing] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> Result:
    parser = harness.parser(__doc__, STORES)
    parser.add_argument("--jobs", type=int, help="how many are many")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    if options.jobs:
        plan = replace(plan, many=options.jobs, few=min(plan.few, options.jobs))
    rows = [Row(name) for name in options.only]
    with harness.benchmark("dashboard", options, plan, "mongod", BROWSER) as (result, root):
        for row in rows:
            with recording_failure(result.failures, row.name):
                _measure(row, plan, root / row.name)
        result.tables = [_requests_table(rows, result), _views_table(rows, result)]
        result.targets = [target for row in rows for target in _targets(row, plan.many)]
    return result


def _measure(row: Row, plan: Plan, directory: Path) -> None:
    data = directory / "data"
    data.mkdir(parents=True)
    database: AbstractContextManager[Testbed | None] = nullcontext()
    if row.name == "mongodb":
        database = open_testbed(MONGODB, directory)
    with database as testbed:
        url = testbed.url if testbed else None
        store_url = Settings(storage=StorageSettings(data_dir=data, mongodb_uri=url)).store_url
        command = (*SERVE[:-1], str(data), "--no-worker")
        server = Server(row.name, command, {"MONGODB_URI": url} if url else {})
        templates: list[str] = []
        for amount, timings in ((plan.few, row.few), (plan.many, row.many)):
            log(f"{row.name}: filling up to {amount:,} jobs")
            sample = asyncio.run(_fill(store_url, amount, templates))
            log(f"{row.name}: measuring")
            with running(server, directory) as service:
                timings |= _time_requests(service.url, sample, plan.repeats)
                if amount == plan.many:
                    row.views |= _time_views(service.url, sample, plan.visits)


def _requests_table(rows: Sequence[Row], result: Result) -> Table:
    head = [f"{row.name} {name}" for row in rows for name in ("p50", "p95", "max", "x few")]
    titles = dict.fromkeys(title for row in rows for title in row.many)
    lines: list[list[Cell]] = []
    for title in titles:
        line: list[Cell] = [title]
        for row in rows:
            many, few = row.many.get(title), row.few.get(title)
            times = (many.p50_ms, many.p95_ms, many.max_ms) if many else (None,) * 3
            line += [*times, many.p50_ms / few.p50_ms if many and few else None]
        lines.append(line)
    chart = Chart(
        "requests", f"The {TOP} slowest requests, p95 (lower is better)", "ms",
        [2 + 4 * number for number in range(len(rows))], [row.name for row in rows],
        target=REQUEST_TARGET_MS, top=TOP,
    )  # fmt: skip
    return Table(["", *head], lines, "Requests, ms", NOTES.format(**result.plan), [chart])


def _views_table(rows: Sequence[Row], result: Result) -> Table:
    head = [f"{row.name} {name}" for row in rows for name in ("median", "max")]
    titles = dict.fromkeys(title for row in rows for title in row.views)
    lines: list[list[Cell]] = []
    for title in titles:
        times = [row.views.get(title) for row in rows]
        lines.append(
            [title, *(f for t in times for f in ((t.p50_ms, t.max_ms) if t else (None,) * 2))]
        )
    chart = Chart(
        "views", "Time until a view shows its content, median (lower is better)", "ms",
        [1 + 2 * number for number in range(len(rows))], [row.name for row in rows],
        target=VIEW_TARGET_MS,
    )  # fmt: skip
    return Table(["", *head], lines, "Views, ms", VIEW_NOTES.format(**result.plan), [chart])


def _targets(row: Row, many: int) -> Iterator[Target]:
    for what, timings, figure, limit in (
        ("slowest request, p95", row.many, "p95_ms", REQUEST_TARGET_MS),
        ("slowest view, median", row.views, "p50_ms", VIEW_TARGET_MS),
    ):
        times = {title: getattr(timing, figure) for title, timing in timings.items()}
        slowest = max(times, key=lambda title: times[title], default="")
        name = f"{row.name}, {many:,} jobs: {what} ({slowest})"
        yield at_most(name, limit, times.get(slowest), "ms")


async def _fill(url: str, amount: int, templates: list[str]) -> Sample:
    """Up to this many jobs, keeping what is there. `templates` is filled the first time."""
    store = open_store(url)
    await store.open()
    try:
        if not templates:
            await seeding.register_worker(store, slots=SLOTS)
            templates += await seeding.make_templates(store)
            await seeding.add_pending(store, min(PENDING, amount // 5))
            await store.claim(seeding.WORKER, Capacity(slots=RUNNING))
        counts = await store.counts()
        missing = amount - sum(n for by_state in counts.values() for n in by_state.values())
        interval = timedelta(days=DAYS) / max(missing, 1)
        await seeding.add_ended(store, url, templates, missing, until=utc_now(), interval=interval)
        query = JobQuery(status=frozenset({JobStatus.COMPLETED}), limit=1)
        (job,) = (await store.find(query)).items
        batches = (await store.find_batches(BatchQuery(limit=10))).items
        deep = await store.find(JobQuery(created_before=utc_now() - DEEP, limit=50))
        user, job_type = seeding.USERS[7], seeding.TYPES[1]
        batch_id, cursor = batches[-1].batch_id, deep.next_cursor
        return Sample(job.job_id, batch_id, user, job_type, "FILE_CORRUPT", cursor)
    finally:
        await store.close()


def _timing(seconds: list[float]) -> Timing:
    ordered = sorted(1000 * one for one in seconds)
    p95 = ordered[int(0.95 * (len(ordered) - 1))]
    return Timing(statistics.median(ordered), p95, ordered[-1])


def _time_requests(url: str, sample: Sample, repeats: int) -> dict[str, Timing]:
    """The requests of all views, round after round over one connection."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    paths = _paths(sample)
    seconds: dict[str, list[float]] = {title: [] for title in paths}
    for number in range(repeats + 1):
        for title, path in paths.items():
            headers = {"X-User-ID": sample.user} if "as a user" in title else {}
            started = time.perf_counter()
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            body = response.read()
            took = time.perf_counter() - started
            if response.status != 200:
                raise Failed(f"{path}: {response.status} {body[:200]!r}")
            if number:  # the first round warms up the caches
                seconds[title].append(took)
    connection.close()
    return {title: _timing(times) for title, times in seconds.items()}


def _paths(sample: Sample) -> Mapping[str, str]:
    now = utc_now()
    after, before = ((now - timedelta(days=n)).isoformat() for n in (20, 19))
    day = {"created_after": after, "created_before": before}

    def jobs(**terms: str | None) -> str:
        given = {name: value for name, value in terms.items() if value is not None}
        return f"/api/jobs?{urlencode({'limit': '50', **given})}"

    return {
        "overview: hour": "/api/overview?minutes=60",
        "overview: 6 hours": "/api/overview?minutes=360",
        "overview: day": "/api/overview?minutes=1440",
        "overview: week": "/api/overview?minutes=10080",
        "overview, as a user": "/api/overview?minutes=1440",
        "overview: running jobs": jobs(limit="20", status="processing"),
        "overview: recently finished": jobs(limit="8", status="completed,failed"),
        "overview, system: system": "/api/system",
        "jobs": jobs(),
        "jobs, as a user": jobs(),
        "jobs: last pages": jobs(cursor=sample.deep_cursor),
        **{f"jobs: {state}": jobs(status=state) for state in ("pending", "failed", "cancelled")},
        "jobs: type": jobs(job_type=sample.job_type),
        "jobs: type, running": jobs(job_type=sample.job_type, status="processing"),
        "jobs: type, failed": jobs(job_type=sample.job_type, status="failed"),
        "jobs: user": jobs(user_id=sample.user),
        "jobs: user, failed": jobs(user_id=sample.user, status="failed"),
        "jobs: user, type, cancelled": jobs(
            user_id=sample.user, job_type=sample.job_type, status="cancelled"
        ),
        "jobs: error": jobs(error_code=sample.code),
        "jobs: error, user": jobs(error_code=sample.code, user_id=sample.user),
        "jobs: error, type, day": jobs(error_code=sample.code, job_type=sample.job_type, **day),
        "jobs: unknown error": jobs(error_code="NEVER_SEEN"),
        "jobs: day": jobs(**day),
        "jobs: day, failed": jobs(status="failed", **day),
        "jobs: archived": jobs(archived="true"),
        "jobs: batch": jobs(batch_id=sample.batch_id),
        "jobs: batch, failed": jobs(batch_id=sample.batch_id, status="failed"),
        "search: common word": jobs(q="Interview"),
        "search: rare name": jobs(q="0000123"),
        "search: no match": jobs(q="nothing of the kind"),
        "search: no match, as a user": jobs(q="nothing of the kind"),
        "search: word, failed, user": jobs(q="Invoice", status="failed", user_id=sample.user),
        "search: job id": jobs(q=sample.job_id),
        "search: batch id": jobs(q=sample.batch_id),
        "job": f"/api/jobs/{sample.job_id}",
        "batches": "/api/batches?limit=50",
        "batch": f"/api/batches/{sample.batch_id}",
        "batch: jobs": jobs(limit="100", batch_id=sample.batch_id, archived="all"),
        "templates": "/api/templates",
        "submit, system: job types": "/api/job-types",
    }


def _time_views(url: str, sample: Sample, visits: int) -> dict[str, Timing]:
    """From the navigation until each view shows its content; nothing without a browser."""
    if (program := shutil.which(BROWSER)) is None:
        log("no browser: the views are not measured")
        return {}
    from playwright.sync_api import sync_playwright

    seconds: dict[str, list[float]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=BROWSER_OPTIONS)
        for _ in range(visits):
            for title, (address, content) in _views(sample).items():
                context = browser.new_context(locale="en-GB")
                page = context.new_page()
                started = time.perf_counter()
                page.goto(f"{url}/#/{address}", wait_until="commit")
                page.locator(content).first.wait_for(timeout=VIEW_LIMIT_MS)
                seconds.setdefault(title, []).append(time.perf_counter() - started)
                context.close()
        browser.close()
    return {title: _timing(times) for title, times in seconds.items()}


def _views(sample: Sample) -> Mapping[str, tuple[str, str]]:
    """The address of each view, and what it shows once it is usable."""
    return {
        "overview": ("overview", ".view-overview .chart"),
        "overview, one day": ("overview?minutes=1440", ".view-overview .chart"),
        "jobs": ("jobs", ".view-jobs tbody tr"),
        "jobs, failed, one user": (
            f"jobs?status=failed&user_id={sample.user}", ".view-jobs tbody tr",
        ),
        "jobs, by error": (f"jobs?error_code={sample.code}", ".view-jobs tbody tr"),
        "jobs, search": ("jobs?q=Interview", ".view-jobs tbody tr"),
        "jobs, search without a match": ("jobs?q=nothing+of+the+kind", ".view-jobs form"),
        "job": (f"job/{sample.job_id}", ".view-job h1"),
        "batches": ("batches", ".view-batches tbody tr"),
        "batch": (f"batch/{sample.batch_id}", ".view-batch tbody tr"),
        "templates": ("templates", ".view-templates tbody tr"),
        "system": ("system", ".view-system .fact"),
        "submit": ("new", ".view-new form"),
    }  # fmt: skip


if __name__ == "__main__":
    harness.run(main)
