"""PDFs through the whole service: every method, with real engines."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pypdfium2
import pytest
import pytest_asyncio
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from ..error_rate import character_error_rate
from ..llm_server import llm_server, says
from ..minimal_files import pdf
from ..polling import until
from ..rendered_pages import ENGLISH, GERMAN, page
from ..sample_documents import saved, scan_of
from ..service_fixture import ServiceClient, running_service
from ..stream_client import OpenStream
from ..webhook_receiver import Receiver

pytestmark = pytest.mark.asyncio(loop_scope="module")
module_wide = partial(pytest_asyncio.fixture, scope="module", loop_scope="module")

ROUTE = "/api/pdf/process"
THREE = pdf("One apple", "Two pears", "Three plums")


@module_wide()
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServiceClient]:
    async with running_service(tmp_path_factory.mktemp("pdf")) as service:
        yield service


def flat(text: str) -> str:
    return " ".join(text.split())


def texts(results: dict[str, Any]) -> list[str]:
    return [page["content"].strip() for page in results["metadata"]["text_contents"]]


class TestNative:
    async def test_each_page_has_its_text(self, service: ServiceClient) -> None:
        results = await service.read(ROUTE, THREE, "fruit.pdf")
        assert texts(results) == ["One apple", "Two pears", "Three plums"]
        assert results["extracted_text"].splitlines()[:2] == ["--- Seite 1 ---", "One apple"]
        assert results["metadata"]["page_count"] == 3
        assert results["metadata"]["file_name"] == "fruit.pdf"
        assert results["metadata"]["file_size"] == len(THREE)

    async def test_every_file_is_given_as_a_url_that_works(self, service: ServiceClient) -> None:
        results = await service.read(ROUTE, THREE, "fruit.pdf")
        contents = [(await service.get(url)).json()["content"] for url in results["page_texts"]]
        assert [content.strip() for content in contents] == [
            "One apple", "Two pears", "Three plums",
        ]  # fmt: skip
        assert all(url.startswith("/api/pdf/text-content/") for url in results["page_texts"])
        assert "Two pears" in (await service.get(results["markdown_file"])).text
        assert "Two pears" in results["markdown_content"]
        names = await service.archived(results["archive_url"])
        assert {"document.md", "page_001.txt", "page_003.txt"} <= set(names)

    async def test_the_files_are_in_the_cache_by_content_and_method(
        self, service: ServiceClient
    ) -> None:
        results = await service.read(ROUTE, THREE, "fruit.pdf")
        cache_key = f"cache/pdf/{hashlib.sha256(THREE).hexdigest()}/auto"
        assert results["target_dir"] == results["asset_dir"] == cache_key
        assert (service.data_dir / cache_key / "page_002.txt").read_text().strip() == "Two pears"

    async def test_a_range_of_pages(self, service: ServiceClient) -> None:
        results = await service.read(ROUTE, THREE, "fruit.pdf", page_start=2, page_end=2)
        assert texts(results) == ["Two pears"]
        assert results["metadata"]["page_count"] == 3
        assert results["extracted_text"].startswith("--- Seite 2 ---")

    async def test_a_range_behind_the_end_is_an_error(self, service: ServiceClient) -> None:
        error = await service.refused(ROUTE, THREE, "fruit.pdf", page_start=4)
        assert error["code"] == "VALIDATION_ERROR"
        assert "3 pages" in error["message"]

    async def test_a_scan_is_no_empty_success(self, service: ServiceClient) -> None:
        scan = scan_of(page(ENGLISH))
        error = await service.refused(ROUTE, scan, "scan.pdf", extraction_method="native")
        assert error["code"] == "UNSUPPORTED_FILE"
        assert "auto" in error["message"]

    async def test_the_steps_can_be_watched(self, service: ServiceClient) -> None:
        job = await service.ended(await service.submit_file(ROUTE, THREE, "fruit.pdf"))
        assert job["progress"] == {
            "step": "completed", "percent": 100, "message": job["progress"]["message"],
        }  # fmt: skip


class TestOcr:
    @pytest.mark.parametrize(
        ("lines", "language"), [(ENGLISH, "eng"), (GERMAN, "deu")], ids=["English", "German"]
    )
    @pytest.mark.parametrize("method", ["ocr", "tesseract_ocr"])
    async def test_a_scan_is_read(
        self, service: ServiceClient, lines: list[str], language: str, method: str
    ) -> None:
        results = await service.read(
            ROUTE, scan_of(page(lines)), "scan.pdf", extraction_method=method, ocr_language=language
        )
        assert character_error_rate(" ".join(lines), flat(texts(results)[0])) < 0.01
        text_content = results["metadata"]["text_contents"][0]
        assert text_content["method"] == "ocr"
        assert text_content["ocr_language"] == language
        assert text_content["ocr_confidence"] > 80

    async def test_the_language_is_found(self, service: ServiceClient) -> None:
        both = scan_of(page(ENGLISH), page(GERMAN))
        results = await service.read(ROUTE, both, "scan.pdf", extraction_method="ocr")
        english, german = texts(results)
        assert character_error_rate(" ".join(ENGLISH), flat(english)) < 0.01
        assert character_error_rate(" ".join(GERMAN), flat(german)) < 0.01

    @pytest.mark.parametrize("degrees", [90, 180, 270, 4])
    async def test_a_turned_scan_is_read(self, service: ServiceClient, degrees: int) -> None:
        turned = page(ENGLISH).rotate(degrees, expand=True, fillcolor=255)
        results = await service.read(
            ROUTE, scan_of(turned), "scan.pdf", extraction_method="ocr", ocr_language="eng"
        )
        assert character_error_rate(" ".join(ENGLISH), flat(texts(results)[0])) < 0.02

    async def test_a_language_without_data_is_an_error_that_says_what_to_do(
        self, service: ServiceClient
    ) -> None:
        error = await service.refused(
            ROUTE, scan_of(page(ENGLISH)), "a.pdf", extraction_method="ocr", ocr_language="xyz"
        )
        assert error["code"] == "ENGINE_UNAVAILABLE"
        assert "xyz" in error["message"]

    async def test_both_texts_are_kept(self, service: ServiceClient) -> None:
        results = await service.read(
            ROUTE, pdf("Forty two apples"), "a.pdf", extraction_method="both", ocr_language="eng"
        )
        text_content = results["metadata"]["text_contents"][0]
        assert {name: text.strip() for name, text in text_content["texts"].items()} == {
            "native": "Forty two apples", "ocr": "Forty two apples",
        }  # fmt: skip
        assert results["extracted_text"].count("Forty two apples") == 2
        assert results["markdown_content"].count("Forty two apples") == 1


async def test_long_results_are_included_in_streams_lists_and_webhooks(tmp_path: Path) -> None:
    text = "--- Seite 1 ---\nReported everywhere"
    with Receiver().running() as receiver:
        async with running_service(tmp_path, network={"allow_hosts": ["127.0.0.1"]}) as service:
            fields = {"callback_url": receiver.url("/hook"), "include_images": "true"}
            job_id = await service.submit_file(ROUTE, pdf("Reported everywhere"), "a.pdf", **fields)
            await service.ended(job_id)
            async with service.client.stream("GET", f"/api/jobs/{job_id}/stream") as response:
                (sent,) = await OpenStream(response).until("completed")
            listed = await service.get("/api/jobs?include=results")
            body = await service.get(f"/api/event-job/jobs/{job_id}")
            await until(lambda: "completed" in receiver.phases("/hook"))
    payload = receiver.received[-1].json
    for results in (
        sent.document["data"],
        listed.json()["data"]["jobs"][0]["results"],
        body.json()["job"]["results"],
        payload["data"],
        payload["results"],
    ):
        assert results["extracted_text"] == text
        assert results["metadata"]["text_contents"][0]["content"] == "Reported everywhere"
        assert "more_in" not in results
        assert results["images_archive_url"].endswith("/images.zip")


async def test_finished_pages_can_be_read_while_the_job_runs(service: ServiceClient) -> None:
    pages = [page([f"Sheet {number}", *ENGLISH]) for number in range(1, 9)]
    fields = {"extraction_method": "ocr", "ocr_language": "eng"}
    job_id = await service.submit_file(ROUTE, scan_of(*pages), "scan.pdf", **fields)
    url = f"/api/pdf/text-content/{job_id}/page_001.txt"
    while (response := await service.client.get(url)).status_code == 404:
        await asyncio.sleep(0.01)
    job = await service.job(job_id)
    assert job["status"] == "processing"
    assert job["progress"]["step"].startswith(("processing_pages:", "downloading"))
    assert response.json()["content"].startswith("Sheet 1")
    assert (await service.ended(job_id))["status"] == "completed"


async def test_a_cancelled_job_stops_and_its_pages_are_kept_for_the_next(
    service: ServiceClient,
) -> None:
    content = scan_of(*(page([f"Folio {number}", *ENGLISH]) for number in range(1, 13)))
    fields = {"extraction_method": "ocr", "ocr_language": "eng"}
    first = await service.submit_file(ROUTE, content, "scan.pdf", **fields)
    url = f"/api/pdf/text-content/{first}/page_001.txt"
    while (await service.client.get(url)).status_code == 404:
        await asyncio.sleep(0.01)
    await service.client.post(f"/api/jobs/{first}/cancel")
    assert (await service.ended(first))["status"] == "cancelled"
    cache_dir = service.data_dir / f"cache/pdf/{hashlib.sha256(content).hexdigest()}"
    cached_records = [
        line for file in cache_dir.glob("*/records-*") for line in file.read_bytes().splitlines()
    ]
    assert 0 < len(cached_records) < 12
    results = await service.read(ROUTE, content, "scan.pdf", **fields)
    assert results["is_from_cache"] is False
    assert [text.split("\n")[0] for text in texts(results)] == [f"Folio {n}" for n in range(1, 13)]
    made = [
        line for file in cache_dir.glob("*/records-*") for line in file.read_bytes().splitlines()
    ]
    assert len(made) == 12


class TestAuto:
    async def test_it_is_the_default(self, service: ServiceClient) -> None:
        results = await service.read(ROUTE, scan_of(page(ENGLISH)), "scan.pdf", ocr_language="eng")
        assert results["metadata"]["extraction_method"] == "auto"
        assert results["metadata"]["text_contents"][0]["method"] == "ocr"

    async def test_only_pages_without_a_usable_text_are_read_by_ocr(
        self, service: ServiceClient
    ) -> None:
        mixed = joined(pdf("A page with a text layer"), scan_of(page(ENGLISH)))
        results = await service.read(
            ROUTE, mixed, "mixed.pdf", extraction_method="auto", ocr_language="eng"
        )
        first, second = results["metadata"]["text_contents"]
        assert first["method"] == "native"
        assert "reason" not in first
        assert second["method"] == "ocr"
        assert second["reason"]
        assert character_error_rate(" ".join(ENGLISH), flat(second["content"])) < 0.01

    async def test_a_page_with_nothing_on_it_is_not_read_by_ocr(
        self, service: ServiceClient
    ) -> None:
        blank = joined(pdf("Something"), pdf(""))
        results = await service.read(ROUTE, blank, "blank.pdf", extraction_method="auto")
        assert [each["method"] for each in results["metadata"]["text_contents"]] == ["native"] * 2


class TestPictures:
    async def test_a_preview_has_pictures_and_no_text(self, service: ServiceClient) -> None:
        results = await service.read(ROUTE, THREE, "fruit.pdf", extraction_method="preview")
        assert results["markdown_content"] is None
        assert results["page_texts"] == []
        names = [url.rpartition("/")[2] for url in results["assets"]]
        assert names == ["preview_001.jpg", "preview_002.jpg", "preview_003.jpg"]
        picture = Image.open(io.BytesIO((await service.get(results["assets"][0])).content))
        assert picture.format == "JPEG"
        assert max(picture.size) == 640
        assert await service.archived(results["previews_archive_url"]) == names

    async def test_a_preview_beside_the_text(self, service: ServiceClient) -> None:
        results = await service.read(
            ROUTE, THREE, "fruit.pdf", extraction_method="preview_and_native"
        )
        assert texts(results) == ["One apple", "Two pears", "Three plums"]
        assert len(results["assets"]) == 3

    async def test_pictures_of_the_pages_beside_any_method(self, service: ServiceClient) -> None:
        results = await service.read(ROUTE, THREE, "fruit.pdf", include_images="true")
        names = [url.rpartition("/")[2] for url in results["assets"]]
        assert names == [
            "image_001.jpg", "preview_001.jpg", "image_002.jpg", "preview_002.jpg",
            "image_003.jpg", "preview_003.jpg",
        ]  # fmt: skip
        assert await service.archived(results["images_archive_url"]) == names
        assert results["previews_archive_url"] is None

    async def test_a_huge_page_is_drawn_within_the_budget(self, service: ServiceClient) -> None:
        huge = pdf("Huge").replace(b"[0 0 612 792]", b"[0 0 14400 14400]")
        results = await service.read(
            ROUTE, huge, "huge.pdf", extraction_method="native", include_images="true"
        )
        picture = Image.open(io.BytesIO((await service.get(results["assets"][0])).content))
        assert picture.size == (1280, 1280)

    async def test_the_pages_archive_has_its_own_route(self, service: ServiceClient) -> None:
        job_id = await service.submit_file(ROUTE, THREE, "fruit.pdf", include_images="true")
        await service.ended(job_id)
        names = await service.archived(f"/api/pdf/jobs/{job_id}/download-pages-archive")
        assert len(names) == 6

    async def test_a_tiny_page_has_a_picture_too(self, service: ServiceClient) -> None:
        tiny = pdf("").replace(b"[0 0 612 792]", b"[0 0 1 1]")
        results = await service.read(ROUTE, tiny, "tiny.pdf", extraction_method="preview")
        assert len(results["assets"]) == 1


class TestBlankDocuments:
    BLANK = pdf("", "")

    @pytest.mark.parametrize("method", ["native", "auto", "ocr", "both"])
    async def test_a_document_without_text_fails(self, service: ServiceClient, method: str) -> None:
        error = await service.refused(ROUTE, self.BLANK, "a.pdf", extraction_method=method)
        assert error["code"] == "UNSUPPORTED_FILE"
        assert error["message"] == "No text was found in the document"

    async def test_a_document_of_pictures_only_completes_with_a_warning(
        self, service: ServiceClient
    ) -> None:
        fields = {"extraction_method": "auto", "includeImages": "true"}
        results = await service.read(ROUTE, self.BLANK, "a.pdf", **fields)
        assert results["warnings"] == [
            {"code": "NO_TEXT", "message": "No text was found in the document"}
        ]
        assert results["images_archive_url"]

    async def test_previews_without_text_are_what_was_requested(
        self, service: ServiceClient
    ) -> None:
        results = await service.read(ROUTE, self.BLANK, "a.pdf", extraction_method="preview")
        assert results["warnings"] == []

    async def test_a_blank_page_among_others_is_no_failure(self, service: ServiceClient) -> None:
        results = await service.read(ROUTE, pdf("One", ""), "a.pdf", extraction_method="auto")
        assert texts(results) == ["One", ""]


class TestVision:
    @pytest.mark.parametrize(
        ("method", "expected"),
        [
            ("llm", set()),
            ("llm_and_native", {"llm", "native"}),
            ("llm_and_ocr", {"llm", "ocr"}),
        ],
    )
    async def test_a_model_reads_the_pages(
        self, tmp_path: Path, method: str, expected: set[str]
    ) -> None:
        async with (
            llm_server(says("# Fruit\n\nAn apple")) as server,
            running_service(
                tmp_path, llm={"base_url": server.web.url("/v1"), "model": "seer"}
            ) as service,
        ):
            results = await service.read(
                ROUTE, pdf("One apple", "Two pears"), "fruit.pdf", extraction_method=method
            )
        assert results["markdown_content"] == "# Fruit\n\nAn apple\n\n# Fruit\n\nAn apple\n"
        first = results["metadata"]["text_contents"][0]
        assert set(first.get("texts", {})) == expected
        assert results["llm_info"]["total_tokens"] == 240
        if "native" in expected:
            assert first["texts"]["native"].strip() == "One apple"

    async def test_without_a_model_the_error_says_what_to_set(self, service: ServiceClient) -> None:
        error = await service.refused(ROUTE, THREE, "fruit.pdf", extraction_method="llm")
        assert error["code"] == "ENGINE_UNAVAILABLE"
        assert "llm.vision_model" in error["message"]


class TestCache:
    async def test_the_same_file_of_another_user_is_cached_and_reveals_nothing(
        self, service: ServiceClient
    ) -> None:
        content = pdf("A secret of two")
        mine = await service.submit_file(ROUTE, content, "mine.pdf", user="anna")
        assert (await service.ended(mine, "anna"))["results"]["is_from_cache"] is False
        theirs = await service.submit_file(ROUTE, content, "theirs.pdf", user="bert")
        job = await service.ended(theirs, "bert")
        assert job["results"]["is_from_cache"] is True
        assert texts(job["results"]) == ["A secret of two"]
        assert job["results"]["metadata"]["file_name"] == "theirs.pdf"
        text = str(job)
        assert mine not in text
        assert "mine.pdf" not in text
        assert "anna" not in text
        url = job["results"]["page_texts"][0]
        other = url.replace(theirs, mine)
        answer = await service.client.get(other, headers={"X-User-ID": "bert"})
        assert answer.status_code == 404

    @pytest.mark.parametrize(
        "fields",
        [{"force_refresh": "true"}, {"force_overwrite": "true"}, {"use_cache": "false"}],
        ids=str,
    )
    async def test_who_wants_it_done_again_gets_it_done_again(
        self, service: ServiceClient, fields: dict[str, str]
    ) -> None:
        content = pdf(f"Again and again {fields}")
        await service.read(ROUTE, content, "a.pdf")
        assert (await service.read(ROUTE, content, "a.pdf"))["is_from_cache"] is True
        again = await service.read(ROUTE, content, "a.pdf", **fields)
        assert again["is_from_cache"] is False
        assert "Again and again" in again["extracted_text"]

    async def test_other_options_are_other_work(self, service: ServiceClient) -> None:
        content = pdf("Options matter")
        await service.read(ROUTE, content, "a.pdf")
        with_pictures = await service.read(ROUTE, content, "a.pdf", include_images="true")
        assert with_pictures["is_from_cache"] is False

    async def test_pages_that_are_known_are_not_read_again(self, service: ServiceClient) -> None:
        content = pdf("Page one is known", "Page two is not")
        await service.read(ROUTE, content, "a.pdf", page_end=1)
        directory = service.data_dir / f"cache/pdf/{hashlib.sha256(content).hexdigest()}/auto"
        (directory / "page_001.txt").unlink()  # processing the page again would restore it
        (directory / "page_001.txt").write_text("from the cache")
        results = await service.read(ROUTE, content, "a.pdf")
        assert (await service.get(results["page_texts"][0])).json()["content"] == "from the cache"

    async def test_a_failure_is_not_kept(self, service: ServiceClient) -> None:
        for _ in range(2):
            error = await service.refused(ROUTE, b"%PDF-1.7\nnothing", "broken.pdf")
            assert error["code"] == "FILE_CORRUPT"


class TestPasswords:
    @pytest.fixture
    def locked(self) -> bytes:
        file = io.BytesIO()
        canvas = Canvas(file, encrypt=StandardEncryption("sesame", ownerPassword="boss"))
        canvas.drawString(72, 700, "Behind a lock")
        canvas.save()
        return file.getvalue()

    async def test_the_right_one_opens(self, service: ServiceClient, locked: bytes) -> None:
        results = await service.read(ROUTE, locked, "locked.pdf", password="sesame")
        assert texts(results) == ["Behind a lock"]

    @pytest.mark.parametrize("fields", [{}, {"password": "wrong"}], ids=["none", "wrong"])
    async def test_none_and_a_wrong_one_do_not(
        self, service: ServiceClient, locked: bytes, fields: dict[str, str]
    ) -> None:
        await service.read(ROUTE, locked, "locked.pdf", password="sesame")
        error = await service.refused(ROUTE, locked, "locked.pdf", **fields)
        assert error["code"] == "FILE_ENCRYPTED"


async def test_nothing_is_left_behind(service: ServiceClient) -> None:
    await service.read(ROUTE, THREE, "fruit.pdf", extraction_method="preview", force_refresh="true")
    await service.refused(ROUTE, b"%PDF-1.7\nnothing", "broken.pdf")
    assert await service.leftovers(uploads=False) == []


async def test_a_template_without_a_model_is_not_left_out_in_silence(
    service: ServiceClient,
) -> None:
    error = await service.refused(ROUTE, THREE, "fruit.pdf", template="Session")
    assert error["code"] == "ENGINE_UNAVAILABLE"


def joined(*documents: bytes) -> bytes:
    """The pages of several PDFs in one."""
    target = pypdfium2.PdfDocument.new()
    for document in documents:
        with pypdfium2.PdfDocument(document) as source:
            target.import_pages(source)
    content = saved(target.save)
    target.close()
    return content
