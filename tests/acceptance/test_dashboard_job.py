"""The job page of the dashboard: results, the media player and failures."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from PIL import Image

from ..audio_files import made, sound, speech
from ..browser import Watched, open_page, started
from ..sample_documents import encrypted_pdf, scan_of, words
from ..video_files import film, five_slides, shown
from .program import Program, Running

WIDE = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started() as browser:
        yield browser


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    program = Program(
        tmp_path_factory.mktemp("service"),
        SECRETARY_HANDLERS="tests.dashboard_handlers:register",
        SECRETARY_GENERIC_WORKER__PROCESSES="1",
    )
    with program.serving() as running:
        yield running


@pytest.fixture
def watched(browser: Any, service: Running) -> Iterator[Watched]:
    with open_page(browser, service.url, viewport=WIDE) as watched:
        yield watched


@cache
def scan(pages: int) -> bytes:
    pictures = (words(text=f"Forty two apples {number}") for number in range(pages))
    return scan_of(*map(_on_paper, pictures))


def _on_paper(picture: Image.Image) -> Image.Image:
    paper = Image.new("L", (1240, 1754), 255)
    for line in range(20):
        paper.paste(picture, (100, 100 + line * 75))
    return paper


@cache
def two_sentences() -> bytes:
    """Separated by silence, so that they become two lines."""
    directory = Path(mkdtemp(prefix="dashboard_job_"))
    one, other = speech("It was the age of wisdom."), speech("Please bring a coat.")
    placed = "[1]adelay=9000[b];[0][b]amix=inputs=2:normalize=0"
    inputs = ("-i", one, "-i", other, "-filter_complex", placed, "-c:a", "libvorbis")
    return made(directory / "two.ogg", *inputs).read_bytes()


@cache
def talk() -> bytes:
    """Five slides with speech, in a format that every browser plays."""
    directory = Path(mkdtemp(prefix="dashboard_job_"))
    pictures = film(directory / "pictures.mp4", shown(five_slides(), (4, 3, 5, 3, 4)))
    coding = ("-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-c:a", "libopus")
    path = made(directory / "talk.webm", "-i", pictures, "-i", speech(), *coding)
    return path.read_bytes()


class TestPages:
    def test_pages_appear_while_the_job_runs_and_are_its_result(
        self, watched: Watched, service: Running
    ) -> None:
        job_id = service.submit_file(
            "pdf", "scan.pdf", scan(5), extraction_method="ocr", include_images="true"
        )
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}")
        page.locator(".steps [aria-current=step]").wait_for()
        page.locator(".partial").get_by_text("so far").wait_for()
        first = page.locator(".page .page-text").first
        watched.until("words => words.innerText.includes('Forty two')", first.element_handle())
        assert service.job(job_id)["status"] == "processing"
        service.wait_until(job_id, "completed", seconds=60)
        page.locator("#facts .is-completed").wait_for()
        watched.until("document.querySelectorAll('.page .page-text .prose').length === 5")
        assert page.locator(".partial").count() == 0
        picture = page.locator(".page img").first
        watched.until("image => image.naturalWidth > 100", picture.element_handle())
        page.get_by_role("button", name="Plain", exact=True).click()
        assert "Forty two" in page.locator(".page pre").first.inner_text()
        page.get_by_role("button", name="Extraction details").click()
        assert "ocr_confidence" in page.locator(".page .page-text").first.inner_text()


class TestRecordings:
    def test_a_line_of_the_transcript_is_played_from_where_it_is_said(
        self, watched: Watched, service: Running
    ) -> None:
        job_id = service.submit_file("audio", "talk.ogg", two_sentences())
        job = service.wait_until(job_id, "completed", seconds=60)
        first, last = job["results"]["transcription"]["segments"]
        assert first["end"] < 8 < last["start"]
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}")
        media = "document.querySelector('#player audio')"
        watched.until(f"{media}?.readyState > 0")
        line = page.locator(".transcript li").last
        line.get_by_text(last["text"]).click()
        watched.until(f"{media}.currentTime >= {last['start']} && !{media}.paused")
        assert line.get_attribute("aria-current") == "true"
        page.evaluate(f"{media}.currentTime = 0")
        watched.until("document.querySelector('.transcript li').ariaCurrent === 'true'")
        page.get_by_placeholder("Search transcript").fill("wisdom")
        page.get_by_text("1 match").wait_for()
        assert page.locator(".transcript mark").inner_text() == "wisdom"
        with page.expect_download() as saved:
            page.get_by_role("button", name="Download as VTT").click()
        assert Path(saved.value.path()).read_text().startswith("WEBVTT")

    def test_a_slide_of_a_video_leads_to_its_moment(
        self, watched: Watched, service: Running
    ) -> None:
        job_id = service.submit_file("video", "talk.webm", talk())
        job = service.wait_until(job_id, "completed", seconds=60)
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}")
        media = "document.querySelector('#player video')"
        watched.until(f"{media}?.readyState > 0 && {media}.videoWidth > 0")
        third = page.locator(".frames li").nth(2)
        third.locator("img").click()
        time = job["results"]["frames"][2]["time"]
        watched.until(f"{media}.currentTime >= {time} && {media}.currentTime < {time} + 4")
        assert third.get_attribute("aria-current") == "true"

    def test_a_recording_that_was_not_kept_is_reported_and_the_rest_is_there(
        self, watched: Watched, service: Running
    ) -> None:
        job_id = service.submit_file("audio", "a.aiff", sound("a.aiff").read_bytes())
        service.wait_until(job_id, "completed", seconds=60)
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}")
        page.get_by_text("browsers cannot play this format").wait_for()
        assert page.locator(".transcript li").count() > 0
        page.locator("#media").set_input_files(str(sound("a.ogg")))
        watched.until("document.querySelector('#player audio')?.readyState > 0")


class TestFailures:
    def test_a_file_that_wants_a_password_gets_it_by_the_button(
        self, watched: Watched, service: Running
    ) -> None:
        job_id = service.submit_file("pdf", "secret.pdf", encrypted_pdf(6, "sesame"))
        service.wait_until(job_id, "failed")
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}")
        failure = page.get_by_role("alert")
        failure.get_by_role("heading", name="Encrypted file").wait_for()
        assert "Attempt 1" in failure.inner_text()
        failure.get_by_role("link", name="Re-run with changes").click()
        page.get_by_label("Password").wait_for()
        watched.until("document.activeElement.name === 'password'")
        page.get_by_label("Password").fill("sesame")
        page.get_by_role("button", name="Run", exact=True).click()
        page.locator("#facts .is-completed").wait_for()
        page.get_by_text("Apples and pears").first.wait_for()
        assert service.job(job_id)["status"] == "failed"

    def test_an_invalid_change_is_reported_beside_its_field(
        self, watched: Watched, service: Running
    ) -> None:
        job_id = service.submit_file("pdf", "secret.pdf", encrypted_pdf(6, "sesame"))
        service.wait_until(job_id, "failed")
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}?tab=parameters&change=context")
        page.get_by_label("Template values").fill("[1]")
        page.get_by_role("button", name="Run", exact=True).click()
        beside = page.locator(".field:has([name=context]) .field-error")
        assert beside.inner_text() == "Must be a JSON object."
        assert page.locator("#rerun-form .form-error").inner_text() == ""


class TestParts:
    def test_the_log_goes_on_by_itself_and_can_be_filtered(
        self, watched: Watched, service: Running
    ) -> None:
        parameters = {"lines": 300, "seconds": 6}
        job_id = service.submit(job_type="chatty", parameters=parameters)
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}?tab=logs")
        count = "document.querySelectorAll('.log li').length"
        watched.until(f"{count} > 0 && {count} < 200")
        early = page.evaluate(count)
        page.evaluate("document.querySelector('.log li').dataset.mine = 'yes'")
        # Existing lines are not redrawn when more arrive, and the end is scrolled into view.
        watched.until(f"{count} > {early} && document.querySelector('.log li[data-mine]')")
        watched.until(f"{count} === 300")
        log = "document.querySelector('.log')"
        watched.until(f"{log}.scrollHeight - {log}.scrollTop - {log}.clientHeight < 40")
        page.get_by_label("Level").select_option("warning")
        page.get_by_text("30 of 300 lines").wait_for()
        assert page.locator(".log li:visible").count() == 30

    def test_a_document_comes_with_its_facts_its_pictures_and_what_is_missing(
        self, watched: Watched, service: Running
    ) -> None:
        job_id = service.submit(job_type="gathered")
        service.wait_until(job_id, "completed")
        page = watched.page
        page.goto(f"{service.url}/#/job/{job_id}")
        facts = page.locator(".prose .front-matter")
        facts.get_by_text("Minutes of the board").wait_for()
        assert "Anna, Bert" in facts.inner_text() and "heating, roof" in facts.inner_text()
        picture = page.locator(".prose img")
        watched.until("image => image.naturalWidth === 1", picture.element_handle())
        assert page.locator(".prose a", has_text="outside").get_attribute("href") is None
        missing = page.locator(".missing").inner_text()
        assert "Video: Download failed. The server answered with 404" in missing
        page.get_by_role("button", name="Data").click()
        assert page.locator(".data table.list td", has_text="Heating").count() == 1
        page.get_by_text("3 files").click()
        with page.expect_download() as saved:
            page.get_by_role("button", name="numbers.txt").click()
        assert Path(saved.value.path()).read_text() == "1 2 3"

    def test_resource_usage_is_reported(self, watched: Watched, service: Running) -> None:
        job_id = service.submit(parameters={"seconds": 0})
        service.wait_until(job_id, "completed")
        watched.page.goto(f"{service.url}/#/job/{job_id}?tab=resources")
        table = watched.page.locator("#panel table")
        table.get_by_text("Wait time").wait_for()
        assert "Peak memory" in table.inner_text()
