"""`/api/pdf/process-mistral-ocr`: the results and downloads that clients of that route read."""

import base64
import io
import json
import zipfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pikepdf
import pytest
import pytest_asyncio
from PIL import Image, ImageDraw
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from ..llm_server import KEY, gives, llm_server, says
from ..minimal_files import pdf
from ..no_tls import NO_TLS
from ..pdf_files import A4, PROSE, lines_of, pdf_of, write
from ..polling import until
from ..rendered_pages import ENGLISH, page
from ..sample_documents import as_file, saved, scan_of
from ..service_fixture import ServiceClient, running_service
from ..webhook_receiver import Received, Receiver

pytestmark = pytest.mark.asyncio(loop_scope="module")
module_wide = partial(pytest_asyncio.fixture, scope="module", loop_scope="module")

ROUTE = "/api/pdf/process-mistral-ocr"
#: What the client sends.
FLAGS = {
    "includeOCRImages": "true",
    "includePreviewPages": "true",
    "includeHighResPages": "true",
    "useCache": "true",
}

URLS = ("mistral_ocr_raw_url", "mistral_ocr_images_url", "pages_archive_url")


@module_wide()
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServiceClient]:
    async with running_service(tmp_path_factory.mktemp("mistral")) as service:
        yield service


def photo(colour: str, size: tuple[int, int] = (300, 200)) -> Image.Image:
    image = Image.new("RGB", size, colour)
    ImageDraw.Draw(image).ellipse((40, 20, size[0] - 40, size[1] - 20), fill="white")
    return image


def put(canvas: Canvas, image: Image.Image, box: tuple[float, float, float, float]) -> None:
    """`box`: left, bottom, width and height in points."""
    canvas.drawImage(ImageReader(image), *box)


def illustrated(canvas: Canvas) -> None:
    """Text, a red picture, text, a blue picture."""
    write(canvas, ["The harbour"], size=22, font="Helvetica-Bold", y=780)
    write(canvas, lines_of(PROSE, 80), y=740)
    put(canvas, photo("red"), (72, 450, 240, 160))
    write(canvas, ["Below the first picture stands this sentence of the report."], y=420)
    put(canvas, photo("blue"), (72, 200, 240, 160))


def plain(canvas: Canvas) -> None:
    write(canvas, lines_of(PROSE * 3, 80))


def joined(*documents: bytes) -> bytes:
    whole = pikepdf.Pdf.new()
    for document in documents:
        with pikepdf.Pdf.open(io.BytesIO(document)) as part:
            whole.pages.extend(part.pages)
            whole.save(file := io.BytesIO())
    return file.getvalue()


REPORT = pdf_of(illustrated, plain)


async def archive(service: ServiceClient, url: str) -> dict[str, bytes]:
    response = await service.get(url)
    assert response.headers["content-type"] == "application/zip"
    assert len(response.content) >= 256
    with zipfile.ZipFile(io.BytesIO(response.content)) as members:
        return {name: members.read(name) for name in members.namelist()}


def picture(content: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(content))
    assert image.format == "JPEG"
    return image.convert("RGB")


def is_colour(image: Image.Image, at: tuple[int, int], colour: str) -> bool:
    red, _, blue = image.getpixel(at)  # type: ignore[misc]
    return {"red": red > 200 > 90 > blue, "blue": blue > 200 > 90 > red}[colour]


class TestResults:
    async def test_each_page_has_a_marker_and_its_markdown(self, service: ServiceClient) -> None:
        results = await service.read(ROUTE, REPORT, "report.pdf", **FLAGS)
        text = results["extracted_text"]
        lines = text.splitlines()
        assert [line for line in lines if line.startswith("---")] == [
            "--- Seite 1 ---",
            "--- Seite 2 ---",
        ]
        assert lines[:3] == ["--- Seite 1 ---", "", "# The harbour"]
        assert "\n\n--- Seite 2 ---\n\nThe harbour office" in text
        contents = results["metadata"]["text_contents"]
        assert [entry["page"] for entry in contents] == [1, 2]
        assert contents[0]["content"] in text
        assert "chapters" not in results["metadata"] and "pages" not in results["metadata"]

    async def test_pictures_are_referred_to_where_they_stand(self, service: ServiceClient) -> None:
        results = await service.read(ROUTE, REPORT, "report.pdf", **FLAGS)
        text = results["extracted_text"]
        order = [
            "council asks for the number every spring",
            "![img-0.jpeg](img-0.jpeg)",
            "Below the first picture",
            "![img-1.jpeg](img-1.jpeg)",
            "--- Seite 2 ---",
        ]
        places = [text.index(part) for part in order]
        assert places == sorted(places)

    async def test_the_images_archive_has_the_names_of_the_markdown(
        self, service: ServiceClient
    ) -> None:
        results = await service.read(ROUTE, REPORT, "report.pdf", **FLAGS)
        members = await archive(service, results["mistral_ocr_images_url"])
        assert list(members) == ["img-0.jpeg", "img-1.jpeg"]
        for content, colour in zip(members.values(), ("red", "blue"), strict=True):
            image = picture(content)
            assert image.width == pytest.approx(240 / 72 * 200, abs=2)
            assert is_colour(image, (5, 5), colour)

    async def test_the_pages_archive_has_previews_and_pages_at_200_dpi(
        self, service: ServiceClient
    ) -> None:
        results = await service.read(ROUTE, REPORT, "report.pdf", **FLAGS)
        members = await archive(service, results["pages_archive_url"])
        assert sorted(members) == [
            "page_001.jpeg", "page_002.jpeg", "preview_001.jpg", "preview_002.jpg",
        ]  # fmt: skip
        assert max(picture(members["preview_001.jpg"]).size) == 360
        size = picture(members["page_001.jpeg"]).size
        assert size == pytest.approx(tuple(side / 72 * 200 for side in A4), abs=1)

    async def test_the_raw_document_says_where_the_pictures_are(
        self, service: ServiceClient
    ) -> None:
        results = await service.read(ROUTE, REPORT, "report.pdf", **FLAGS)
        response = await service.get(results["mistral_ocr_raw_url"])
        assert response.headers["content-type"] == "application/json"
        assert response.headers["content-disposition"].startswith("attachment")
        raw = response.json()
        assert [page["index"] for page in raw["pages"]] == [0, 1]
        assert raw["usage_info"] == {"pages_processed": 2, "doc_size_bytes": len(REPORT)}
        metadata = {"model": raw["model"], "pages_count": 2, "usage_info": raw["usage_info"]}
        assert results["mistral_ocr_raw_metadata"] == metadata
        first = raw["pages"][0]
        pages = await archive(service, results["pages_archive_url"])
        rendered = picture(pages["page_001.jpeg"])
        dimensions = {"dpi": 200, "height": rendered.height, "width": rendered.width}
        assert first["dimensions"] == dimensions
        assert first["markdown"] == results["metadata"]["text_contents"][0]["content"]
        assert [image["id"] for image in first["images"]] == ["img-0.jpeg", "img-1.jpeg"]
        for image, colour in zip(first["images"], ("red", "blue"), strict=True):
            corner = (image["top_left_x"] + 5, image["top_left_y"] + 5)
            assert is_colour(rendered, corner, colour)
            corner = (image["bottom_right_x"] - 5, image["bottom_right_y"] - 5)
            assert is_colour(rendered, corner, colour)
            assert "image_base64" not in image
        assert raw["pages"][1]["images"] == []

    async def test_without_flags_there_are_previews_and_pictures(
        self, service: ServiceClient
    ) -> None:
        results = await service.read(ROUTE, REPORT, "report.pdf")
        members = await archive(service, results["pages_archive_url"])
        assert sorted(members) == ["preview_001.jpg", "preview_002.jpg"]
        assert "mistral_ocr_images_url" in results

    async def test_flags_that_are_off_leave_their_archives_out(
        self, service: ServiceClient
    ) -> None:
        off = dict.fromkeys(FLAGS, "false")
        results = await service.read(ROUTE, REPORT, "report.pdf", **off)
        assert "mistral_ocr_images_url" not in results
        assert results["pages_archive_url"] is None
        assert results["images_archive_url"] is None
        assert results["assets"] == []
        assert "![" not in results["extracted_text"]
        raw = (await service.get(results["mistral_ocr_raw_url"])).json()
        assert raw["pages"][0]["images"] == []
        assert raw["pages"][0]["dimensions"] == {"dpi": 200, "height": 2339, "width": 1653}

    async def test_a_document_without_pictures_has_no_images_archive(
        self, service: ServiceClient
    ) -> None:
        results = await service.read(ROUTE, pdf_of(plain), "plain.pdf", **FLAGS)
        assert "mistral_ocr_images_url" not in results
        assert results["pages_archive_url"]

    async def test_a_page_range_keeps_the_numbers_of_the_document(
        self, service: ServiceClient
    ) -> None:
        document = pdf_of(plain, illustrated, illustrated)
        fields = {**FLAGS, "page_start": "2", "page_end": "2"}
        results = await service.read(ROUTE, document, "report.pdf", **fields)
        assert results["extracted_text"].startswith("--- Seite 2 ---\n")
        assert "img-0.jpeg" in results["extracted_text"]
        members = await archive(service, results["pages_archive_url"])
        assert sorted(members) == ["page_002.jpeg", "preview_002.jpg"]
        raw = (await service.get(results["mistral_ocr_raw_url"])).json()
        assert [page["index"] for page in raw["pages"]] == [1]
        assert raw["usage_info"]["pages_processed"] == 1

    async def test_the_same_document_comes_from_the_cache(self, service: ServiceClient) -> None:
        document = pdf_of(illustrated, plain, plain)
        first = await service.read(ROUTE, document, "report.pdf", **FLAGS)
        again = await service.read(ROUTE, document, "report.pdf", **FLAGS)
        assert (first["is_from_cache"], again["is_from_cache"]) == (False, True)
        assert again["extracted_text"] == first["extracted_text"]
        for name in ("mistral_ocr_images_url", "pages_archive_url"):
            assert await archive(service, again[name]) == await archive(service, first[name])
        names = [url.rpartition("/")[2] for url in again["assets"]]
        assert names == [url.rpartition("/")[2] for url in first["assets"]]
        for url in again["assets"]:
            await service.get(url)
        fresh = await service.read(ROUTE, document, "report.pdf", **{**FLAGS, "useCache": "false"})
        assert fresh["is_from_cache"] is False


class TestBlankDocuments:
    async def test_page_images_without_text_complete_with_a_warning(
        self, service: ServiceClient
    ) -> None:
        results = await service.read(ROUTE, pdf(""), "blank.pdf", **FLAGS)
        assert [warning["code"] for warning in results["warnings"]] == ["NO_TEXT"]
        assert results["extracted_text"] == "--- Seite 1 ---"
        assert results["pages_archive_url"]

    async def test_neither_text_nor_images_is_an_error(self, service: ServiceClient) -> None:
        off = dict.fromkeys(FLAGS, "false")
        error = await service.refused(ROUTE, pdf(""), "blank.pdf", **off)
        assert error["code"] == "UNSUPPORTED_FILE"


class TestScans:
    async def test_a_scan_is_read_by_ocr_and_is_no_picture(self, service: ServiceClient) -> None:
        document = joined(pdf_of(plain), scan_of(page(ENGLISH)))
        results = await service.read(ROUTE, document, "scan.pdf", **FLAGS, ocr_language="eng")
        assert [entry["method"] for entry in results["metadata"]["text_contents"]] == [
            "native",
            "ocr",
        ]
        second = results["extracted_text"].partition("--- Seite 2 ---")[2]
        assert ENGLISH[0].split()[-1] in second
        assert "mistral_ocr_images_url" not in results

    async def test_a_page_that_is_a_photo_is_delivered_as_a_picture(
        self, service: ServiceClient
    ) -> None:
        def full_page(canvas: Canvas) -> None:
            put(canvas, photo("red", (600, 850)), (0, 0, *A4))

        document = pdf_of(plain, full_page)
        results = await service.read(ROUTE, document, "photo.pdf", **FLAGS, ocr_language="eng")
        assert results["extracted_text"].endswith("![img-0.jpeg](img-0.jpeg)")
        assert list(await archive(service, results["mistral_ocr_images_url"])) == ["img-0.jpeg"]

    async def test_a_picture_cut_into_strips_is_one_picture(self, service: ServiceClient) -> None:
        def strips(canvas: Canvas) -> None:
            write(canvas, lines_of(PROSE, 80))
            for number in range(10):
                put(canvas, photo("blue", (300, 100)), (72, 300 + 20 * number, 240, 20))

        results = await service.read(ROUTE, pdf_of(strips), "strips.pdf", **FLAGS)
        (only,) = (await archive(service, results["mistral_ocr_images_url"])).values()
        assert picture(only).height == pytest.approx(200 / 72 * 200, abs=3)

    @pytest.mark.parametrize("degrees", [90, 180, 270])
    async def test_pictures_on_rotated_pages_are_cut_out_where_they_are(
        self, service: ServiceClient, degrees: int
    ) -> None:
        with pikepdf.Pdf.open(io.BytesIO(pdf_of(illustrated))) as document:
            document.pages[0].Rotate = degrees
            document.pages[0].CropBox = [20, 20, 575, 822]
            document.save(file := io.BytesIO())
        results = await service.read(ROUTE, file.getvalue(), "rotated.pdf", **FLAGS)
        members = await archive(service, results["mistral_ocr_images_url"])
        for content, colour in zip(members.values(), ("red", "blue"), strict=True):
            image = picture(content)
            corners = [(3, 3), (image.width - 4, image.height - 4)]
            assert all(is_colour(image, corner, colour) for corner in corners)


class TestDownloads:
    FILES = ("mistral-ocr-raw", "mistral-ocr-images", "download-pages-archive")

    async def test_a_job_that_has_not_finished_is_still_processing(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            response = await service.client.post(
                "/api/jobs",
                json={
                    "job_type": "pdf",
                    "parameters": {"url": "https://example.org/a.pdf", "mistral_ocr": True},
                    "run_at": "2099-01-01T00:00:00Z",
                },
            )
            job_id = response.json()["data"]["job_id"]
            for name in self.FILES:
                response = await service.client.get(f"/api/pdf/jobs/{job_id}/{name}")
                assert response.status_code == 202
                assert response.json()["status"] == "processing"
                assert response.json()["message"]

    async def test_a_job_without_such_files_is_a_bad_request(self, service: ServiceClient) -> None:
        job_id = await service.submit_file("/api/pdf/process", pdf("Plain"), "a.pdf")
        await service.ended(job_id)
        for name in self.FILES:
            response = await service.client.get(f"/api/pdf/jobs/{job_id}/{name}")
            assert response.status_code == 400
            assert response.json()["error"]["code"] == "VALIDATION_ERROR"

    async def test_an_unknown_job_is_not_found(self, service: ServiceClient) -> None:
        for name in self.FILES:
            job_id = "job-00000000-0000-4000-8000-000000000000"
            response = await service.client.get(f"/api/pdf/jobs/{job_id}/{name}")
            assert response.status_code == 404

    async def test_only_those_who_may_read_the_job_may_download(
        self, service: ServiceClient
    ) -> None:
        job_id = await service.submit_file(ROUTE, REPORT, "a.pdf", user="ann", **FLAGS)
        await service.ended(job_id, "ann")
        for name in self.FILES:
            url = f"/api/pdf/jobs/{job_id}/{name}"
            other = await service.client.get(url, headers={"X-User-ID": "bob"})
            own = await service.client.get(url, headers={"X-User-ID": "ann"})
            assert (other.status_code, own.status_code) == (404, 200)

    async def test_everything_can_be_downloaded_while_the_final_event_is_answered(
        self, tmp_path: Path
    ) -> None:
        downloads: dict[str, int] = {}
        with Receiver().running() as receiver:
            network = {"allow_hosts": ["127.0.0.1"]}
            async with running_service(tmp_path, network=network) as service:

                def download(received: Received) -> None:
                    if received.json["phase"] == "completed":
                        for name in URLS:
                            url = service.client.base_url.join(received.json["data"][name])
                            downloads[name] = httpx.get(url, verify=NO_TLS).status_code

                receiver.on_request = download
                fields = {"callback_url": receiver.url("/hook"), **FLAGS}
                await service.submit_file(ROUTE, REPORT, "a.pdf", **fields)
                await until(lambda: len(downloads) == len(URLS))
                event = receiver.received[-1].json
                data, job_id = event["data"], event["process"]["id"]
                polled = (await service.job(job_id))["results"]
        assert downloads == dict.fromkeys(URLS, 200)
        assert set(data) == {
            *URLS, "extracted_text", "metadata", "mistral_ocr_raw_metadata",
        }  # fmt: skip
        assert {name: polled[name] for name in data} == data


class TestModels:
    async def test_a_vision_model_reads_the_pages_if_the_request_says_so(
        self, tmp_path: Path
    ) -> None:
        async with (
            llm_server(says("# Seen\n\nA harbour")) as server,
            running_service(
                tmp_path, llm={"base_url": server.web.url("/v1"), "model": "seer"}
            ) as service,
        ):
            results = await service.read(
                ROUTE, pdf_of(illustrated), "a.pdf", extraction_method="llm", **FLAGS
            )
            raw = (await service.get(results["mistral_ocr_raw_url"])).json()
        assert raw["model"] == "seer"
        assert results["extracted_text"] == (
            "--- Seite 1 ---\n\n# Seen\n\nA harbour\n\n"
            "![img-0.jpeg](img-0.jpeg)\n\n![img-1.jpeg](img-1.jpeg)"
        )

    async def test_an_ocr_endpoint_reads_the_pages_where_one_is_configured(
        self, tmp_path: Path
    ) -> None:
        async with (
            llm_server(gives(json.dumps(endpoint_answer()).encode())) as server,
            running_service(tmp_path, llm=endpoint_settings(server.web.url("/v1"))) as service,
        ):
            document = pdf_of(plain, plain, plain)
            fields = {**FLAGS, "page_start": "2"}
            results = await service.read(ROUTE, document, "a.pdf", **fields)
            images = await archive(service, results["mistral_ocr_images_url"])
            pages = await archive(service, results["pages_archive_url"])
            raw = (await service.get(results["mistral_ocr_raw_url"])).json()
            again = await service.read(ROUTE, document, "a.pdf", **fields)
        (request,) = server.requests
        assert request["model"] == "mistral-ocr-latest"
        assert request["pages"] == [1, 2]
        assert request["include_image_base64"] is True
        kind, _, data = request["document"]["document_url"].partition(",")
        assert (request["document"]["type"], kind) == (
            "document_url",
            "data:application/pdf;base64",
        )
        assert base64.b64decode(data) == document
        assert results["extracted_text"] == (
            "--- Seite 2 ---\n\n# Two\n\n![img-0.jpeg](img-0.jpeg)\n\n"
            "--- Seite 3 ---\n\nThree ![img-1.png](img-1.png) here"
        )
        assert list(images) == ["img-0.jpeg", "img-1.png"]
        assert sorted(pages) == [
            "page_002.jpeg", "page_003.jpeg", "preview_002.jpg", "preview_003.jpg",
        ]  # fmt: skip
        assert raw["model"] == "mistral-ocr-latest"
        assert raw["pages"][0]["dimensions"] == {"dpi": 150, "height": 1754, "width": 1240}
        assert raw["pages"][0]["images"] == [
            {
                "id": "img-0.jpeg", "top_left_x": 10, "top_left_y": 20, "bottom_right_x": 310,
                "bottom_right_y": 220, "image_annotation": None,
            }
        ]  # fmt: skip
        assert again["is_from_cache"] is True
        assert results["llm_info"]["requests"][0]["purpose"] == "ocr"

    async def test_an_endpoint_that_leaves_a_page_out_fails_the_job(self, tmp_path: Path) -> None:
        answer = endpoint_answer()
        del answer["pages"][1]
        async with (
            llm_server(gives(json.dumps(answer).encode())) as server,
            running_service(tmp_path, llm=endpoint_settings(server.web.url("/v1"))) as service,
        ):
            job_id = await service.submit_file(
                ROUTE, pdf_of(plain, plain, plain), "a.pdf", page_start=2, max_attempts=1, **FLAGS
            )
            job = await service.ended(job_id)
        assert job["status"] == "failed"
        assert job["error"]["code"] == "UPSTREAM_FAILED"
        assert "page 3" in job["error"]["message"]

    async def test_a_method_of_the_request_is_used_instead_of_the_endpoint(
        self, tmp_path: Path
    ) -> None:
        async with (
            llm_server() as server,
            running_service(tmp_path, llm=endpoint_settings(server.web.url("/v1"))) as service,
        ):
            results = await service.read(
                ROUTE, pdf_of(plain), "a.pdf", extraction_method="native", **FLAGS
            )
        assert server.requests == []
        assert results["metadata"]["extraction_method"] == "native"


def endpoint_settings(url: str) -> dict[str, Any]:
    return {
        "providers": {"mistral": {"base_url": url, "api_key": KEY}},
        "ocr_provider": "mistral",
        "ocr_model": "mistral-ocr-latest",
    }


def endpoint_answer() -> dict[str, Any]:
    """Pages 2 and 3; each has an image `img-0.jpeg`, as in answers to separate requests."""
    jpeg = base64.b64encode(as_file(photo("red"), "JPEG")).decode()
    png = base64.b64encode(as_file(photo("blue"), "PNG")).decode()
    box = {"top_left_x": 10, "top_left_y": 20, "bottom_right_x": 310, "bottom_right_y": 220}
    return {
        "pages": [
            {
                "index": 1,
                "markdown": "# Two\n\n![img-0.jpeg](img-0.jpeg)",
                "images": [
                    {"id": "img-0.jpeg", **box, "image_base64": f"data:image/jpeg;base64,{jpeg}"}
                ],
                "dimensions": {"dpi": 150, "height": 1754, "width": 1240},
            },
            {
                "index": 2,
                "markdown": "Three ![figure](img-0.jpeg) here",
                "images": [{"id": "img-0.jpeg", **box, "image_base64": png}],
                "dimensions": None,
            },
        ],
        "model": "mistral-ocr-2505",
        "usage_info": {"pages_processed": 2, "doc_size_bytes": 1000},
    }


class TestRequests:
    async def test_a_url_is_accepted_and_the_answer_is_202(self, tmp_path: Path) -> None:
        from ..web_server import WebRequest, serving

        async def answer(request: WebRequest) -> None:
            await request.answer(REPORT, headers={"Content-Type": "application/pdf"})

        async with serving(answer) as web:
            network = {"allow_hosts": ["127.0.0.1"]}
            async with running_service(tmp_path, network=network) as service:
                form = {"url": web.url("/report.pdf"), **FLAGS}
                response = await service.client.post(ROUTE, data=form)
                assert response.status_code == 202
                assert response.json()["job"]["id"] == response.json()["job_id"]
                job = await service.ended(response.json()["job_id"])
        assert job["job_type"] == "pdf"
        assert job["results"]["mistral_ocr_images_url"]

    @pytest.mark.parametrize("name", ["includeOCRImages", "include_high_res_pages", "page_start"])
    async def test_a_value_that_is_wrong_is_named(self, service: ServiceClient, name: str) -> None:
        response: httpx.Response = await service.client.post(
            ROUTE, files={"file": ("a.pdf", REPORT)}, data={name: "maybe"}
        )
        assert response.status_code == 400
        (problem,) = response.json()["error"]["details"]["problems"]
        assert problem["field"].endswith(name)

    async def test_another_kind_of_file_is_refused(self, service: ServiceClient) -> None:
        content = saved(lambda file: photo("red").save(file, "PNG"))
        response = await service.client.post(ROUTE, files={"file": ("a.pdf", content)})
        assert response.status_code == 415
