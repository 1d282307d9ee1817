"""Submitting jobs, bulk actions and template trial runs in the dashboard: a real browser, the real
page, the real service."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..browser import Watched, drop, open_page, started
from ..http_servers import chat_model
from ..minimal_files import PNG, office, pdf
from ..polling import wait_until
from .program import Program, Running

WIDE = {"width": 1280, "height": 900}
SECRET = "llmkey-nobody-may-see"
TEMPLATE = """---
title: {{title|A headline.}}
place: {{place}}
---
# {{title}}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started() as browser:
        yield browser


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with chat_model({"title": "Ducks in a row"}) as url:
        yield url


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, model: str) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("service")
    (directory / "templates").mkdir()
    (directory / "templates" / "Headline.md").write_text(TEMPLATE)
    program = Program(
        directory,
        SECRETARY_LLM__BASE_URL=model,
        SECRETARY_LLM__MODEL="one-idea",
        SECRETARY_LLM__API_KEY=SECRET,
        SECRETARY_TEMPLATES__DIRECTORY=str(directory / "templates"),
    )
    with program.serving() as running:
        yield running


@pytest.fixture
def watched(browser: Any, service: Running) -> Iterator[Watched]:
    with open_page(browser, service.url, viewport=WIDE) as watched:
        yield watched


class TestHandingIn:
    def test_files_that_are_dropped_together_are_one_batch(
        self, watched: Watched, service: Running
    ) -> None:
        page = watched.page
        page.goto(f"{service.url}/#/system")
        page.get_by_role("heading", name="System", exact=True).wait_for()
        drop(page, ("one.pdf", pdf("The first")), ("two.docx", office("word")), ("odd.xyz", PNG))
        chosen = page.locator(".file-list li")
        chosen.nth(2).wait_for()
        types = page.locator(".file-list select")
        assert types.evaluate_all("all => all.map((one) => one.value)") == ["pdf", "office", ""]
        page.get_by_role("button", name="Submit 3 jobs").click()
        assert "Choose a job type for odd.xyz." in chosen.nth(2).inner_text()
        page.get_by_label("Job type of odd.xyz").select_option("imageocr")
        page.get_by_label("Batch name").fill("Three of a kind")
        page.get_by_role("region", name="PDF").get_by_label("Include images").check()
        page.get_by_role("button", name="Submit 3 jobs").click()
        page.get_by_role("heading", name="Three of a kind").wait_for()
        page.get_by_text("3 of 3 finished").wait_for()
        batch_id = page.evaluate("location.hash").removeprefix("#/batch/")
        jobs = service.get(f"/api/jobs?batch_id={batch_id}").json()["data"]["jobs"]
        by_type = {job["job_type"]: job["parameters"] for job in jobs}
        assert set(by_type) == {"pdf", "office", "imageocr"}
        assert by_type["pdf"]["include_images"] is True
        assert by_type["office"].get("include_images") is not True

    def test_addresses_that_are_pasted_are_one_batch(
        self, watched: Watched, service: Running
    ) -> None:
        page = watched.page
        page.goto(f"{service.url}/#/overview")
        page.get_by_role("heading", name="Running").wait_for()
        page.evaluate(
            """(text) => {
                const data = new DataTransfer();
                data.setData("text", text);
                const options = {clipboardData: data, bubbles: true};
                document.body.dispatchEvent(new ClipboardEvent("paste", options));
            }""",
            "https://a.invalid/one.pdf\nhttps://a.invalid/two.pdf\nhttps://a.invalid/talk",
        )
        page.get_by_text("2 \N{MULTIPLICATION SIGN} PDF, 1 ").wait_for()
        page.get_by_label("Batch name").fill("From afar")
        page.get_by_role("button", name="Submit 3 jobs").click()
        page.get_by_role("heading", name="From afar").wait_for()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        page.get_by_text("3 of 3 finished").wait_for()

    def test_errors_are_shown_beside_their_field(self, watched: Watched, service: Running) -> None:
        page = watched.page
        page.goto(f"{service.url}/#/new")
        page.get_by_role("button", name="Submit").click()
        page.get_by_text("Add a file or a URL first.").wait_for()
        drop(page, ("one.pdf", pdf("One")))
        page.get_by_text("More options").click()
        page.get_by_label("First page").fill("0")
        page.get_by_label("Template values").fill("[1]")
        page.get_by_role("button", name="Submit").click()
        assert "greater than or equal to 1" in field(page, "page_start")
        assert "Must be a JSON object" in field(page, "context")
        page.get_by_label("First page").fill("1")
        page.get_by_label("Template values").fill("")
        page.get_by_label("Inline template").fill("{{broken")
        page.get_by_role("button", name="Submit").click()
        page.locator(
            ".field:has([name=template_content]) .field-error"
        ).wait_for()  # the service's message
        assert page.locator(".field-error").count() == 1
        assert page.locator("[name=template_content]").get_attribute("aria-invalid") == "true"
        page.get_by_label("Inline template").fill("")
        drop(page, ("fake.pdf", PNG))
        page.get_by_role("button", name="Submit 2 jobs").click()
        fake = page.locator(".file-list li", has_text="fake.pdf")
        fake.get_by_text("The file type is png").wait_for()
        # The browser itself logs rejected requests.
        assert all("400" in fault or "415" in fault for fault in watched.faults)
        watched.faults.clear()

    def test_an_upload_shows_how_far_it_is_and_can_be_stopped(
        self, watched: Watched, service: Running
    ) -> None:
        page = watched.page
        page.goto(f"{service.url}/#/new")
        page.get_by_role("heading", name="Add files").wait_for()
        page.locator("#files").set_input_files(
            {"name": "big.pdf", "mimeType": "application/pdf", "buffer": pdf("x") + bytes(2**21)}
        )
        slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 2**18}
        page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", slow)
        page.get_by_role("button", name="Submit").click()
        seen = "document.querySelector('#upload progress').value"
        watched.until(f"{seen} > 5 && {seen} < 95")
        page.get_by_role("button", name="Stop").click()
        page.locator("#upload").wait_for(state="hidden")
        assert page.evaluate("location.hash") == "#/new"
        assert page.get_by_role("button", name="Submit").is_enabled()


class TestBulk:
    def test_all_that_fit_the_filters_are_counted_then_deleted(
        self, watched: Watched, service: Running
    ) -> None:
        quick = {"job_type": "selftest", "parameters": {"seconds": 0}}
        jobs = [{"job_name": f"rubbish {n}", **quick} for n in range(60)]
        made = service.post("/api/batches", {"jobs": jobs}).json()["data"]
        wait_until(lambda: batch(service, made["batch_id"])["completed_jobs"] == 60)
        preserved = service.submit(job_name="dear to me", parameters={"seconds": 0})
        page = watched.page
        page.goto(f"{service.url}/#/jobs?q=rubbish")
        page.get_by_label("Select all").check()
        page.get_by_text("50 jobs selected", exact=True).wait_for()
        page.get_by_role("button", name="Select all matching jobs").click()
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("heading", name="Delete these 60 jobs and their files?").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        page.get_by_text("60 jobs deleted").first.wait_for()
        page.get_by_text("No jobs match these filters.").wait_for()
        assert service.get(f"/api/jobs/{preserved}").status_code == 200

    def test_selected_jobs_that_cannot_be_changed_are_reported(
        self, watched: Watched, service: Running
    ) -> None:
        ended = service.submit(job_name="mixed one", parameters={"seconds": 0})
        service.wait_until(ended, "completed")
        waits = service.submit(job_name="mixed two", run_at="2090-01-01T00:00:00Z")
        page = watched.page
        page.goto(f"{service.url}/#/jobs?q=mixed")
        page.get_by_label("Select all").check()
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("heading", name="Cancel this job? This does not apply").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        page.get_by_text("1 job cancelled").first.wait_for()
        assert service.job(waits)["status"] == "cancelled"
        page.get_by_label("Select all").check()
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_text("None of these jobs can be cancelled").wait_for()


class TestBatches:
    def test_what_failed_runs_again_and_the_batch_is_archived(
        self, watched: Watched, service: Running
    ) -> None:
        jobs = [{"job_type": "nobody-knows-it"}, {"job_type": "selftest"}]
        made = service.post("/api/batches", {"batch_name": "half broken", "jobs": jobs}).json()
        batch_id = made["data"]["batch_id"]
        page = watched.page
        page.goto(f"{service.url}/#/batch/{batch_id}")
        page.get_by_text("2 of 2 finished").wait_for()
        page.locator("#job-counts .state.is-failed").wait_for()
        page.get_by_role("button", name="Retry failed jobs").click()
        page.get_by_text("Failed jobs queued for retry").wait_for()
        failed = made["data"]["job_ids"][0]
        wait_until(lambda: service.job(failed)["attempt"] == 2)
        page.get_by_text("2 of 2 finished").wait_for()
        page.get_by_role("button", name="Archive").click()
        page.get_by_text("Archived: hidden from lists").wait_for()
        page.goto(f"{service.url}/#/batches")
        page.get_by_role("link", name="Archived").click()
        page.get_by_role("link", name="half broken").wait_for()
        page.get_by_role("link", name="Active").click()
        page.locator(".tabs a[aria-current]", has_text="Active").wait_for()
        assert page.get_by_role("link", name="half broken").count() == 0
        page.goto(f"{service.url}/#/batch/{batch_id}")
        page.get_by_role("button", name="Unarchive").click()
        page.get_by_text("Restored from the archive").wait_for()
        page.goto(f"{service.url}/#/batches")
        page.get_by_role("link", name="half broken").wait_for()


class TestTemplates:
    def test_one_is_tried_on_a_text_and_its_result_is_shown_there(
        self, watched: Watched, service: Running
    ) -> None:
        page = watched.page
        page.goto(f"{service.url}/#/templates")
        page.get_by_role("link", name="Headline").click()
        page.get_by_label("Sample text").fill("Ducks walked in a row.")
        page.get_by_text("Context values").click()
        page.get_by_label("place").fill("At the pond")
        page.get_by_role("button", name="Fill template").click()
        page.get_by_role("heading", name="Result").wait_for()
        page.get_by_role("button", name="Document").click()
        assert "Ducks in a row" in page.locator("#outcome .prose").inner_text()
        assert page.evaluate("location.hash") == "#/template/Headline"
        page.get_by_role("link", name="View job").wait_for()
        assert page.locator("#no-model").count() == 0

    def test_a_missing_language_model_is_reported(self, browser: Any, tmp_path: Path) -> None:
        with (
            Program(tmp_path).serving() as service,
            open_page(browser, service.url) as watched,
        ):
            page = watched.page
            page.goto(f"{service.url}/#/template/Blog_en")
            page.locator("#no-model").wait_for()
            page.get_by_label("Sample text").fill("Ducks")
            page.get_by_role("button", name="Fill template").click()
            page.locator("#outcome").get_by_text("ENGINE_UNAVAILABLE").wait_for()


class TestSettings:
    def test_what_is_set_and_found_is_shown_and_no_secret(
        self, watched: Watched, service: Running
    ) -> None:
        page = watched.page
        page.goto(f"{service.url}/#/system")
        page.get_by_role("cell", name="Language model").wait_for()
        assert "one-idea" in page.locator("#engines").inner_text()
        page.locator("summary", has_text="llm").click()
        shown = page.locator(".group[open]").inner_text()
        assert "one-idea" in shown
        assert "•••" in shown
        assert SECRET not in page.content()
        assert SECRET not in service.get("/api/system").text


def field(page: Any, name: str) -> str:
    text: str = page.locator(f".field:has([name={name}]) .field-error").inner_text()
    return text


def batch(service: Running, batch_id: str) -> dict[str, Any]:
    document: dict[str, Any] = service.get(f"/api/batches/{batch_id}").json()["data"]
    return document
