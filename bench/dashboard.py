"""Every view of the dashboard with 1,000,000 stored jobs and with 10,000, on SQLite and MongoDB.

    python bench/dashboard.py [--quick] [--jobs N] [--only sqlite] [--json FILE]

A store is filled with few jobs and measured, then filled up and measured again: the requests of
each view, one after the other over one connection, and the views themselves in a browser.
"""

import asyncio
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import harness
import seeding
from harness import Failed, log, recording_failure
from processes import SERVE, Client, Server, running
from queues import MONGODB, open_testbed
from report import Cell, Chart, Result, Samples, Target, at_most

from secretary.config import Settings, StorageSettings
from secretary.core.job import JobStatus, utc_now
from secretary.store import BatchQuery, Capacity, JobQuery

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


def main(arguments: Sequence[str]) -> Result:
    parser = harness.parser(__doc__, STORES)
    parser.add_argument("--jobs", type=int, help="how many are many")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    if options.jobs:
        plan = replace(plan, many=options.jobs, few=min(plan.few, options.jobs))
    # Milliseconds by title and store.
    few, many, views = Samples(), Samples(), Samples()
    with harness.benchmark("dashboard", options, plan, "mongod", BROWSER) as (result, root):
        for name in options.only:
            with recording_failure(result.failures, name):
                _measure(name, plan, root / name, few, many, views)
        _add_requests(result, options.only, few, many)
        _add_views(result, options.only, views)
        for name in options.only:
            requests, limit = "slowest request, p95", REQUEST_TARGET_MS
            result.targets += [
                _slowest(f"{name}, {plan.many:,} jobs: {requests}", many, name, _p95, limit),
                _slowest(
                    f"{name}, {plan.many:,} jobs: slowest view, median", views, name,
                    statistics.median, VIEW_TARGET_MS,
                ),
            ]  # fmt: skip
    return result


def _measure(
    name: str, plan: Plan, directory: Path, few: Samples, many: Samples, views: Samples
) -> None:
    (data := directory / "data").mkdir(parents=True)
    with ExitStack() as stack:
        mongodb = name == "mongodb"
        url = stack.enter_context(open_testbed(MONGODB, directory)).url if mongodb else None
        store_url = Settings(storage=StorageSettings(data_dir=data, mongodb_uri=url)).store_url
        command = (*SERVE[:-1], str(data), "--no-worker")
        server = Server(name, command, {"MONGODB_URI": url} if url else {})
        templates: list[str] = []
        for amount, samples in ((plan.few, few), (plan.many, many)):
            log(f"{name}: filling up to {amount:,} jobs")
            sample = asyncio.run(_fill(store_url, amount, templates))
            log(f"{name}: measuring")
            with running(server, directory) as service:
                _time_requests(samples, name, service.client(), sample, plan.repeats)
                if amount == plan.many:
                    _time_views(views, name, service.url, sample, plan.visits)


def _add_requests(result: Result, stores: Sequence[str], few: Samples, many: Samples) -> None:
    head = [f"{store} {name}" for store in stores for name in ("p50", "p95", "max", "x few")]
    lines: list[list[Cell]] = []
    for title in dict.fromkeys(title for title, _ in many):
        line: list[Cell] = [title]
        for store in stores:
            times, before = many.get((title, store)), few.median(title, store)
            p50 = statistics.median(times) if times else None
            line += [p50, _p95(times), max(times)] if times else [None] * 3
            line.append(p50 / before if p50 and before else None)
        lines.append(line)
    chart = Chart(
        "requests", f"The {TOP} slowest requests, p95 (lower is better)", "ms",
        [2 + 4 * number for number in range(len(stores))], list(stores),
        target=REQUEST_TARGET_MS, top=TOP,
    )  # fmt: skip
    result.add("Requests, ms", ["", *head], lines, chart)


def _add_views(result: Result, stores: Sequence[str], views: Samples) -> None:
    head = [f"{store} {name}" for store in stores for name in ("median", "max")]
    lines: list[list[Cell]] = []
    for title in dict.fromkeys(title for title, _ in views):
        cells = [(views.median(title, s), max(views[title, s], default=None)) for s in stores]
        lines.append([title, *(figure for pair in cells for figure in pair)])
    chart = Chart(
        "views", "Time until a view shows its content, median (lower is better)", "ms",
        [1 + 2 * number for number in range(len(stores))], list(stores), target=VIEW_TARGET_MS,
    )  # fmt: skip
    result.add("Views, ms", ["", *head], lines, chart)


def _slowest(
    name: str, samples: Samples, store: str, figure: Callable[[list[float]], float], limit: float
) -> Target:
    times = {title: figure(ms) for (title, one), ms in samples.items() if one == store and ms}
    slowest = max(times, key=lambda title: times[title], default="")
    return at_most(f"{name} ({slowest})", limit, times.get(slowest), "ms")


def _p95(times: list[float]) -> float:
    return sorted(times)[int(0.95 * (len(times) - 1))]


async def _fill(url: str, amount: int, templates: list[str]) -> Sample:
    """Up to this many jobs, keeping what is there. `templates` is filled the first time."""
    async with seeding.opened(url, worker_slots=SLOTS) as store:
        if not templates:
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


def _time_requests(
    samples: Samples, store: str, client: Client, sample: Sample, repeats: int
) -> None:
    """The requests of all views, round after round over one connection."""
    for number in range(repeats + 1):
        for title, path in _paths(sample).items():
            headers = {"X-User-ID": sample.user} if "as a user" in title else {}
            started = time.perf_counter()
            client.fetch("GET", path, headers=headers)
            if number:  # the first round warms up the caches
                samples[title, store].append(1000 * (time.perf_counter() - started))


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


def _time_views(samples: Samples, store: str, url: str, sample: Sample, visits: int) -> None:
    """From the navigation until each view shows its content; nothing without a browser."""
    if (program := shutil.which(BROWSER)) is None:
        log("no browser: the views are not measured")
        return
    from playwright.sync_api import Error as PlaywrightError
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=BROWSER_OPTIONS)
        for _ in range(visits):
            for title, (address, content) in _views(sample).items():
                context = browser.new_context(locale="en-GB")
                page = context.new_page()
                started = time.perf_counter()
                page.goto(f"{url}/#/{address}", wait_until="commit")
                try:
                    page.locator(content).first.wait_for(timeout=VIEW_LIMIT_MS)
                except PlaywrightError as error:
                    raise Failed(f"{title}: {error}") from None
                samples[title, store].append(1000 * (time.perf_counter() - started))
                context.close()
        browser.close()


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
        "system": ("system", ".view-system .stat"),
        "submit": ("new", ".view-new form"),
    }  # fmt: skip


if __name__ == "__main__":
    harness.run(main)
