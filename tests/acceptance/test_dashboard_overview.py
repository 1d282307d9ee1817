"""The overview in a real browser: throughput by type, workers, storage."""

from collections.abc import Iterator
from typing import Any

import pytest

from ..browser import Watched, open_page, started
from .program import Program, Running


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Watched, Running]]:
    """A service with two finished jobs and a running one."""
    program = Program(tmp_path_factory.mktemp("service"), SECRETARY_QUOTAS__JOBS_PER_DAY="50")
    with started() as browser, program.serving() as service:
        done = service.submit(job_type="selftest", parameters={"seconds": 0.01, "steps": 1})
        failed = service.submit(job_type="unheard-of", parameters={})
        service.wait_until(done, "completed")
        service.wait_until(failed, "failed")
        runs = service.submit(job_type="selftest", parameters={"seconds": 600, "steps": 600})
        service.wait_until(runs, "processing")
        with open_page(browser, service.url, viewport={"width": 1280, "height": 900}) as page:
            yield page, service


def chart(page: Any, title: str) -> Any:
    return page.locator(".chart", has=page.get_by_text(title, exact=True).first)


def test_finished_jobs_are_counted_by_type_and_by_code(watched: tuple[Watched, Running]) -> None:
    page, url = watched[0].page, watched[1].url
    page.goto(f"{url}/#/overview?minutes=60")
    done = chart(page, "Completed by type")
    done.locator(".legend li", has_text="selftest 1").wait_for()
    chart(page, "Failures by code").locator(".legend li", has_text="UNKNOWN_JOB_TYPE 1").wait_for()
    # Screen readers get the same numbers as a table.
    heads = done.locator("table.visually-hidden th[scope=col]").all_inner_texts()
    assert "selftest" in heads
    assert done.locator("table.visually-hidden tbody tr").count() == 30


def test_a_tooltip_shows_the_numbers_of_the_bar_under_the_pointer(
    watched: tuple[Watched, Running],
) -> None:
    page, url = watched[0].page, watched[1].url
    page.goto(f"{url}/#/overview?minutes=1440")
    # The previous range stays on screen until this one has loaded.
    watched[0].until("document.querySelector('#range')?.value === '1440'")
    # By now, the job's bar may no longer be the last one.
    bar = chart(page, "Completed by type").locator(".hit[data-tooltip*='selftest 1']")
    assert bar.count() == 1
    bar.hover()
    page.locator(".tooltip", has_text="selftest 1").wait_for()


def test_workers_are_shown_with_their_slots_and_the_disk_with_its_room(
    watched: tuple[Watched, Running],
) -> None:
    page, url = watched[0].page, watched[1].url
    page.goto(f"{url}/#/overview")
    worker = page.locator(".workers li").first
    worker.locator(".heartbeat.ok").wait_for()
    assert worker.locator(".slots").inner_text().strip().startswith("1 of ")
    assert "free of" in page.locator(".storage").inner_text()


def test_users_see_their_quota_and_operators_what_all_use(
    watched: tuple[Watched, Running],
) -> None:
    page, service = watched[0].page, watched[1]
    service.submit(user_id="ann", run_at="2200-01-01T00:00:00Z")
    page.goto(f"{service.url}/#/overview?minutes=360")
    usage = page.locator("section[aria-labelledby=quota]", has_text="Usage today")
    usage.locator("tr", has_text="Jobs today").get_by_text("1", exact=True).wait_for()
    page.set_extra_http_headers({"X-User-ID": "ann"})
    page.goto(f"{service.url}/#/overview?minutes=1440")
    own = page.locator("section[aria-labelledby=quota]", has_text="Your quota")
    own.locator("p", has_text="Jobs today").get_by_text("1 of 50").wait_for()
    own.get_by_text("Daily quotas reset on").wait_for()
    page.set_extra_http_headers({})
    assert not watched[0].faults
