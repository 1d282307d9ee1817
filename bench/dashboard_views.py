"""What each view of the dashboard asks the service for, and how long it takes to show."""

import http.client
import shutil
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode, urlsplit

from arena import Failed

from secretary.core.job import utc_now

PROGRAM = "chromium"
OPTIONS = ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage"]
PATIENCE_MS = 15_000


class NoBrowser(Exception):
    pass


@dataclass(frozen=True)
class Facts:
    """Something that is in the store, to be asked for."""

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

    @classmethod
    def of(cls, seconds: list[float]) -> "Timing":
        ordered = sorted(1000 * one for one in seconds)
        return cls(statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1])


def requests(url: str, facts: Facts, *, repeats: int) -> dict[str, Timing]:
    """The requests of all views, round after round over one connection."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    asked = _paths(facts)
    seconds: dict[str, list[float]] = {title: [] for title in asked}
    for number in range(repeats + 1):
        for title, path in asked.items():
            headers = {"X-User-ID": facts.user} if "a user" in title else {}
            started = time.perf_counter()
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            took = time.perf_counter() - started
            if answer.status != 200:
                raise Failed(f"{path}: {answer.status} {body[:200]!r}")
            if number:  # the first brings what is read into memory
                seconds[title].append(took)
    connection.close()
    return {title: Timing.of(one) for title, one in seconds.items()}


def _paths(facts: Facts) -> Mapping[str, str]:
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
        "overview: of a user": "/api/overview?minutes=1440",
        "overview: running": jobs(limit="20", status="processing"),
        "overview: just ended": jobs(limit="8", status="completed,failed"),
        "overview, system: system": "/api/system",
        "jobs": jobs(),
        "jobs: of a user who asks": jobs(),
        "jobs: last pages": jobs(cursor=facts.deep_cursor),
        **{f"jobs: {state}": jobs(status=state) for state in ("pending", "failed", "cancelled")},
        "jobs: type": jobs(job_type=facts.job_type),
        "jobs: type, running": jobs(job_type=facts.job_type, status="processing"),
        "jobs: type, failed": jobs(job_type=facts.job_type, status="failed"),
        "jobs: user": jobs(user_id=facts.user),
        "jobs: user, failed": jobs(user_id=facts.user, status="failed"),
        "jobs: user, type, cancelled": jobs(
            user_id=facts.user, job_type=facts.job_type, status="cancelled"
        ),
        "jobs: error": jobs(error_code=facts.code),
        "jobs: error, user": jobs(error_code=facts.code, user_id=facts.user),
        "jobs: error, type, day": jobs(error_code=facts.code, job_type=facts.job_type, **day),
        "jobs: error that never was": jobs(error_code="NEVER_SEEN"),
        "jobs: day": jobs(**day),
        "jobs: day, failed": jobs(status="failed", **day),
        "jobs: archived": jobs(archived="true"),
        "jobs: batch": jobs(batch_id=facts.batch_id),
        "jobs: batch, failed": jobs(batch_id=facts.batch_id, status="failed"),
        "search: common word": jobs(q="Interview"),
        "search: rare name": jobs(q="0000123"),
        "search: nothing there": jobs(q="nothing of the kind"),
        "search: of a user": jobs(q="nothing of the kind"),
        "search: word, failed, user": jobs(q="Invoice", status="failed", user_id=facts.user),
        "search: id of a job": jobs(q=facts.job_id),
        "search: id of a batch": jobs(q=facts.batch_id),
        "job": f"/api/jobs/{facts.job_id}",
        "batches": "/api/batches?limit=50",
        "batch": f"/api/batches/{facts.batch_id}",
        "batch: its jobs": jobs(limit="100", batch_id=facts.batch_id, archived="all"),
        "templates": "/api/templates",
        "new, system: job types": "/api/job-types",
    }


def visits(url: str, facts: Facts, *, count: int) -> dict[str, Timing]:
    """How long it takes from the navigation until each view shows its content."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NoBrowser("playwright") from None
    if (program := shutil.which(PROGRAM)) is None:
        raise NoBrowser(PROGRAM)
    seconds: dict[str, list[float]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        for _ in range(count):
            for title, (place, shown) in _places(facts).items():
                context = browser.new_context(locale="en-GB")
                page = context.new_page()
                started = time.perf_counter()
                page.goto(f"{url}/#/{place}", wait_until="commit")
                page.locator(shown).first.wait_for(timeout=PATIENCE_MS)
                seconds.setdefault(title, []).append(time.perf_counter() - started)
                context.close()
        browser.close()
    return {title: Timing.of(one) for title, one in seconds.items()}


def _places(facts: Facts) -> Mapping[str, tuple[str, str]]:
    """The address of each view, and what is there when it can be used."""
    return {
        "overview": ("overview", ".view-overview .chart"),
        "overview, a day": ("overview?minutes=1440", ".view-overview .chart"),
        "jobs": ("jobs", ".view-jobs tbody tr"),
        "jobs, failed of a user": (
            f"jobs?status=failed&user_id={facts.user}", ".view-jobs tbody tr",
        ),
        "jobs, by error": (f"jobs?error_code={facts.code}", ".view-jobs tbody tr"),
        "jobs, a word": ("jobs?q=Interview", ".view-jobs tbody tr"),
        "jobs, nothing there": ("jobs?q=nothing+of+the+kind", ".view-jobs form"),
        "job": (f"job/{facts.job_id}", ".view-job h1"),
        "batches": ("batches", ".view-batches tbody tr"),
        "batch": (f"batch/{facts.batch_id}", ".view-batch tbody tr"),
        "templates": ("templates", ".view-templates tbody tr"),
        "system": ("system", ".view-system .stat"),
        "new": ("new", ".view-new form"),
    }  # fmt: skip
