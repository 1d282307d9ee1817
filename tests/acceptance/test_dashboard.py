"""The dashboard as users see it: a real browser, the real page, the real service."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..browser import Watched, drop, open_page, started
from ..http_servers import files_in
from ..minimal_files import pdf
from ..polling import wait_until
from ..webhook_receiver import Receiver
from .program import Program, Running

WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started() as browser:
        yield browser


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A web server that serves a PDF."""
    directory = tmp_path_factory.mktemp("web")
    (directory / "report.pdf").write_bytes(pdf("Annual report", "Second page"))
    with files_in(directory) as url:
        yield url


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    program = Program(
        tmp_path_factory.mktemp("service"),
        SECRETARY_NETWORK__ALLOW_HOSTS="127.0.0.1",
        SECRETARY_HANDLERS="tests.hostile_results:register",
    )
    with program.serving() as running:
        yield running


@pytest.fixture
def watched(browser: Any, service: Running) -> Iterator[Watched]:
    with open_page(browser, service.url, viewport=WIDE) as watched:
        yield watched


class TestJobs:
    def test_a_url_becomes_a_job_whose_result_can_be_read(
        self, watched: Watched, service: Running, web: str
    ) -> None:
        page = watched.page
        page.goto(f"{service.url}/")
        page.get_by_role("link", name="+ Add files").click()
        page.get_by_label("or paste URLs, one per line").fill(f"{web}/report.pdf")
        page.get_by_label("Include images").check()
        page.get_by_role("button", name="Submit").click()
        page.get_by_role("heading", name="report.pdf").wait_for()
        page.get_by_role("tab", name="Result").click()
        page.locator(".page").nth(1).wait_for()
        page.locator(".page").first.get_by_text("Annual report").wait_for()
        picture = page.locator(".page img").first
        watched.until("image => image.naturalWidth > 100", picture.element_handle())
        page.get_by_role("button", name="Document").click()
        assert "Second page" in page.locator(".prose").inner_text()

    def test_a_file_that_is_dropped_anywhere_becomes_a_job(
        self, watched: Watched, service: Running
    ) -> None:
        page = watched.page
        page.goto(f"{service.url}/#/jobs")
        page.get_by_role("heading", name="Jobs").wait_for()
        drop(page, ("dropped.pdf", pdf("Dropped here")))
        page.get_by_text("dropped.pdf").wait_for()
        page.get_by_role("button", name="Submit").click()
        page.get_by_role("heading", name="dropped.pdf").wait_for()
        page.get_by_role("tab", name="Result").click()
        page.get_by_text("Dropped here").first.wait_for()

    def test_progress_moves_while_one_looks_on(self, watched: Watched, service: Running) -> None:
        job_id = service.submit(job_name="slow one", parameters={"seconds": 4, "steps": 20})
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}")
        seen = "document.querySelector('#progress progress')?.value"
        watched.until(f"{seen} > 0 && {seen} < 60")
        early = page.evaluate(seen)
        watched.until(f"{seen} > {early} + 15")
        page.locator("#facts .is-completed").wait_for()
        assert page.locator("progress").count() == 0

    def test_new_jobs_are_counted_and_rows_stay_where_they_are(
        self, watched: Watched, service: Running
    ) -> None:
        first = service.submit(job_name="the first", parameters={"seconds": 0})
        page = watched.page
        page.goto(f"{service.url}/#/jobs")
        page.locator(f"tr[data-id='{first}']").wait_for()
        watched.until("document.documentElement.dataset.stream === 'live'")
        second = service.submit(job_name="the second", parameters={"seconds": 0})
        fresh = page.get_by_role("button", name="1 new")
        fresh.wait_for()
        assert page.locator("tbody tr").first.get_attribute("data-id") == first
        fresh.click()
        assert page.locator("tbody tr").first.get_attribute("data-id") == second

    def test_filters_are_in_the_address(self, watched: Watched, service: Running) -> None:
        service.wait_until(service.submit(job_type="nobody-knows-it"), "failed")
        service.submit(job_name="needle in it", parameters={"seconds": 0})
        page = watched.page
        page.goto(f"{service.url}/#/jobs?status=failed")
        page.get_by_text("UNKNOWN_JOB_TYPE").first.wait_for()
        assert page.locator("tbody .is-completed").count() == 0
        page.get_by_role("link", name="All", exact=True).click()
        page.locator(".states a[aria-current]", has_text="All").wait_for()
        page.get_by_label("Text", exact=True).fill("needle")
        page.get_by_role("button", name="Apply").click()
        watched.until("location.hash === '#/jobs?q=needle'")
        watched.until("document.querySelectorAll('tbody tr').length === 1")

    def test_the_keyboard_does_it_all(self, watched: Watched, service: Running) -> None:
        service.wait_until(service.submit(parameters={"seconds": 0}), "completed")
        page = watched.page
        page.goto(f"{service.url}/#/jobs")
        page.locator("tbody tr").first.wait_for()
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.get_by_text("1 job selected", exact=True).wait_for()
        page.locator("tbody tr").first.focus()
        page.keyboard.press("Enter")
        watched.until("location.hash.startsWith('#/job/job-')")
        page.get_by_role("tab", name="Log").wait_for()
        page.keyboard.press("?")
        page.get_by_role("heading", name="Keyboard shortcuts and help").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.type") == "search"


class TestFailure:
    def test_a_failed_job_says_why_and_what_helps_and_runs_again(
        self, watched: Watched, service: Running
    ) -> None:
        job_id = service.submit(job_type="nobody-knows-it")
        service.wait_until(job_id, "failed")
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}")
        failure = page.get_by_role("alert")
        failure.get_by_role("heading", name="Unknown job type").wait_for()
        assert "How to fix it:" in failure.inner_text()
        failure.get_by_role("button", name="Re-run").click()
        page.get_by_text("Queued for another run").wait_for()
        wait_until(lambda: service.job(job_id)["attempt"] == 2)
        failure.get_by_role("heading", name="Unknown job type").wait_for()

    def test_what_is_not_there_is_said_so(self, browser: Any, service: Running) -> None:
        with open_page(browser, service.url) as watched:
            watched.page.goto(f"{service.url}/#/job/job-none")
            watched.page.get_by_role("heading", name="Not found").wait_for()
            # The browser itself logs the 404.
            assert all("404" in fault for fault in watched.faults)
            watched.faults.clear()


class TestActions:
    def test_chosen_jobs_are_deleted_together_after_a_question(
        self, watched: Watched, service: Running
    ) -> None:
        ids = [service.submit(job_name=f"rubbish {i}", parameters={"seconds": 0}) for i in range(2)]
        for job_id in ids:
            service.wait_until(job_id, "completed")
        page = watched.page
        page.goto(f"{service.url}/#/jobs?q=rubbish")
        page.get_by_label("Select all").check()
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("heading", name="Delete these 2 jobs and their files?").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        page.get_by_text("No jobs match these filters.").wait_for()
        assert [service.get(f"/api/jobs/{job_id}").status_code for job_id in ids] == [404, 404]

    def test_a_running_job_is_cancelled(self, watched: Watched, service: Running) -> None:
        job_id = service.submit(parameters={"seconds": 60})
        service.wait_until(job_id, "processing")
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}")
        page.get_by_role("button", name="Cancel").click()
        page.locator("#facts .is-cancelled").wait_for()

    def test_a_delivery_is_sent_again(self, watched: Watched, service: Running) -> None:
        with Receiver().running() as receiver:
            webhook = {"url": receiver.url(), "events": ["completed"]}
            job_id = service.submit(parameters={"seconds": 0}, webhook=webhook)
            page = watched.page
            wait_until(
                lambda: any(one["delivered_at"] for one in service.job(job_id)["deliveries"])
            )
            page.goto(f"{service.url}/#/job/{job_id}?tab=deliveries")
            page.get_by_role("button", name="Resend").click()
            page.get_by_text("Delivery queued").wait_for()
            wait_until(lambda: len(receiver.received) == 2)


class TestHostility:
    @pytest.mark.parametrize("fail", [False, True])
    def test_nothing_that_comes_from_a_job_runs(
        self, watched: Watched, service: Running, fail: bool
    ) -> None:
        name = "<img src=x onerror=\"window.hacked='name'\"><script>window.hacked=0</script>"
        job_id = service.submit(job_type="hostile", job_name=name, parameters={"fail": fail})
        service.wait_until(job_id, "completed", "failed")
        page = watched.page
        page.goto(f"{service.url}/#/jobs")
        page.locator(f"tr[data-id='{job_id}']").wait_for()
        page.goto(f"{service.url}/#/overview")
        page.locator(f"a[href='#/job/{job_id}']").first.wait_for()
        for tab in ("Log", "Attempts", "Parameters", "Result"):
            page.goto(f"{service.url}/#/job/{job_id}")
            page.get_by_role("tab", name=tab).click()
            page.locator(f"#panel[data-tab='{'logs' if tab == 'Log' else tab.lower()}']").wait_for()
        assert page.locator("h1").inner_text() == name
        for button in page.locator("[data-mode]").all():
            button.click()
            page.wait_for_timeout(50)
        if not fail:
            page.get_by_role("button", name="Document").click()
            assert "stays readable" in page.locator(".prose").inner_text()
            assert page.locator(".prose :is(script, iframe, form, input, style, svg)").count() == 0
            assert page.locator(".prose [style], .prose [onerror]").count() == 0
        assert page.evaluate("window.hacked") is None
        # The browser still logs an image that the document refers to and that does not exist, and
        # what the policy blocks in the sanitizer's own, invisible document.
        noted = (f"/api/files/{job_id}/x", "/dashboard/vendor/dompurify")
        watched.faults = [one for one in watched.faults if not any(it in one for it in noted)]


class TestBatches:
    def test_several_urls_are_a_batch_that_can_be_paused_and_resumed(
        self, watched: Watched, service: Running
    ) -> None:
        jobs = [{"job_type": "selftest", "parameters": {"seconds": 1}} for _ in range(12)]
        made = service.post("/api/batches", {"batch_name": "a dozen", "jobs": jobs}).json()
        page = watched.page
        page.goto(f"{service.url}/#/batch/{made['data']['batch_id']}")
        page.get_by_role("button", name="Pause").click()
        page.locator("#facts .is-paused").wait_for()
        page.get_by_role("button", name="Resume").click()
        page.get_by_text("12 of 12 finished").wait_for()
        page.goto(f"{service.url}/#/batches")
        page.get_by_role("link", name="a dozen").wait_for()


class TestLogin:
    def test_a_key_is_asked_for_and_kept_in_the_tab_only(
        self, browser: Any, tmp_path: Path
    ) -> None:
        program = Program(tmp_path, SECRETARY_API_KEYS="right-key")
        key = {"Authorization": "Bearer right-key"}
        with program.serving() as service, open_page(browser, service.url) as watched:
            page = watched.page
            page.goto(f"{service.url}/#/jobs")
            page.get_by_label("API key", exact=True).fill("wrong")
            page.get_by_role("button", name="Sign in").click()
            page.get_by_text("Invalid API key.").wait_for()
            page.get_by_label("API key", exact=True).fill("right-key")
            page.get_by_role("button", name="Sign in").click()
            page.get_by_text("No jobs yet.").wait_for()
            assert page.evaluate("JSON.stringify(localStorage)").find("right-key") < 0
            assert page.context.cookies() == []
            sent = service.post("/api/jobs", {"job_type": "selftest"}, headers=key)
            assert sent.status_code == 202
            page.get_by_role("button", name="1 new").click()  # the stream sends the key too
            # The browser itself logs each 401.
            assert all("401" in fault for fault in watched.faults)
            watched.faults.clear()


class TestLooks:
    @pytest.mark.parametrize(
        ("locale", "text"), [("de-AT", "Übersicht"), ("en-US", "Overview"), ("fr-FR", "Overview")]
    )
    def test_the_language_is_the_browsers(
        self, browser: Any, service: Running, locale: str, text: str
    ) -> None:
        with open_page(browser, service.url, locale=locale) as watched:
            watched.page.goto(f"{service.url}/")
            watched.page.get_by_role("link", name=text, exact=True).wait_for()
            assert watched.page.evaluate("document.documentElement.lang") == said_in(text)

    @pytest.mark.parametrize("view", ["overview", "jobs", "new", "batches", "templates", "system"])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_every_view_fits_a_phone(
        self, browser: Any, service: Running, view: str, scheme: str
    ) -> None:
        with open_page(browser, service.url, viewport=PHONE, color_scheme=scheme) as watched:
            page = watched.page
            page.goto(f"{service.url}/#/{view}")
            page.locator(f".view-{view} h1").wait_for(state="attached")
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0


def said_in(word: str) -> str:
    return "de" if word == "Übersicht" else "en"
