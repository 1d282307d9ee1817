"""Images through the whole service."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image

from ..error_rate import character_error_rate
from ..llm_server import llm_server, says
from ..rendered_pages import ENGLISH, GERMAN, page
from ..sample_documents import as_file
from ..service_fixture import ServiceClient, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
module_wide = partial(pytest_asyncio.fixture, scope="module", loop_scope="module")

ROUTE = "/api/imageocr/process"
LINES = ENGLISH[:3]
ORIENTATION = 0x0112


@module_wide()
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServiceClient]:
    async with running_service(tmp_path_factory.mktemp("imageocr")) as service:
        yield service


def on_glass(picture: Image.Image) -> Image.Image:
    """Black letters on a transparent background."""
    glass = Image.new("RGBA", picture.size, (0, 0, 0, 0))
    ink = picture.point(lambda level: 255 - level)
    glass.putalpha(ink)
    return glass


def exif_turned(picture: Image.Image) -> bytes:
    """Stored rotated, with the orientation tag that says so."""
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    lying = picture.rotate(90, expand=True)
    return as_file(lying.convert("RGB"), "JPEG", quality=90, exif=exif)


def error_rate(results: dict[str, Any], lines: list[str], number: int = 0) -> float:
    recognised = results["metadata"]["text_contents"][number]["content"]
    return character_error_rate(" ".join(lines), " ".join(recognised.split()))


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("PNG", "L"),
        ("PNG", "1"),
        ("PNG", "P"),
        ("JPEG", "RGB"),
        ("JPEG", "CMYK"),
        ("TIFF", "L"),
        ("TIFF", "1"),
        ("TIFF", "CMYK"),
        ("WEBP", "RGB"),
        ("BMP", "RGB"),
        ("GIF", "L"),
    ],
)
async def test_every_format_is_read(service: ServiceClient, kind: str, mode: str) -> None:
    content = as_file(page(LINES).convert(mode), kind)
    results = await service.read(ROUTE, content, f"a.{kind.lower()}", ocr_language="eng")
    assert error_rate(results, LINES) < 0.02
    assert results["metadata"]["page_count"] == 1
    assert results["markdown_content"].strip()


async def test_black_letters_on_glass_are_read(service: ServiceClient) -> None:
    content = as_file(on_glass(page(LINES)), "PNG")
    assert error_rate(await service.read(ROUTE, content, "a.png", ocr_language="eng"), LINES) < 0.02


async def test_a_photo_that_lies_on_its_side_is_read(service: ServiceClient) -> None:
    results = await service.read(ROUTE, exif_turned(page(LINES)), "a.jpg", ocr_language="eng")
    assert error_rate(results, LINES) < 0.02


async def test_a_skewed_picture_is_read(service: ServiceClient) -> None:
    skewed = page(LINES).rotate(3.5, expand=True, fillcolor=255)
    results = await service.read(ROUTE, as_file(skewed, "PNG"), "a.png", ocr_language="eng")
    assert error_rate(results, LINES) < 0.02


async def test_each_page_of_a_tiff_is_a_page(service: ServiceClient) -> None:
    first, second = page(LINES), page(GERMAN)
    content = as_file(first, "TIFF", save_all=True, append_images=[second])
    results = await service.read(ROUTE, content, "a.tiff")
    assert results["metadata"]["page_count"] == 2
    assert error_rate(results, LINES) < 0.02
    assert error_rate(results, GERMAN, 1) < 0.02
    assert len(results["page_texts"]) == 2
    assert all(url.startswith("/api/files/text/") for url in results["page_texts"])
    assert (await service.get(results["page_texts"][1])).json()["content"].strip()


async def test_a_preview_has_no_text(service: ServiceClient) -> None:
    content = as_file(page(LINES), "PNG")
    results = await service.read(ROUTE, content, "a.png", extraction_method="preview")
    assert results["markdown_content"] is None
    assert [url.rpartition("/")[2] for url in results["assets"]] == ["preview_001.jpg"]


async def test_a_picture_without_text_comes_with_a_warning(service: ServiceClient) -> None:
    content = as_file(Image.new("L", (400, 300), 255), "PNG")
    results = await service.read(ROUTE, content, "a.png")
    assert results["extracted_text"] == ""
    assert results["warnings"] == [
        {"code": "NO_TEXT", "message": "No text was found in the document"}
    ]


@pytest.mark.parametrize(
    ("method", "used", "assets"),
    [
        ("ocr", "ocr", []),
        ("tesseract_ocr", "ocr", []),
        ("native", "ocr", []),
        ("both", "ocr", []),
        ("preview_and_native", "preview_and_ocr", ["preview_001.jpg"]),
    ],
)
async def test_the_methods_of_pdfs_are_accepted(
    service: ServiceClient, method: str, used: str, assets: list[str]
) -> None:
    content = as_file(page(LINES), "PNG")
    fields = {"extraction_method": method, "ocr_language": "eng", "context": '{"a": 1}'}
    results = await service.read(ROUTE, content, "a.png", **fields)
    assert results["metadata"]["extraction_method"] == used
    assert error_rate(results, LINES) < 0.02
    assert [url.rpartition("/")[2] for url in results["assets"]] == assets
    assert results["context"] == {"a": 1}


async def test_the_text_of_a_picture_has_no_page_marker(service: ServiceClient) -> None:
    content = as_file(page(LINES), "PNG")
    text = (await service.read(ROUTE, content, "a.png", ocr_language="eng"))["extracted_text"]
    assert "Seite" not in text
    assert character_error_rate(" ".join(LINES), " ".join(text.split())) < 0.02


async def test_the_pages_of_a_tiff_have_markers(service: ServiceClient) -> None:
    content = as_file(page(LINES), "TIFF", save_all=True, append_images=[page(LINES)])
    text = (await service.read(ROUTE, content, "a.tiff", ocr_language="eng"))["extracted_text"]
    assert text.startswith("--- Seite 1 ---\n")
    assert "\n--- Seite 2 ---\n" in text


async def test_the_metadata_describe_the_picture(service: ServiceClient) -> None:
    sheet = page(LINES).convert("RGB")
    content = as_file(sheet, "JPEG", dpi=(300, 300))
    metadata = (await service.read(ROUTE, content, "a.jpg", ocr_language="eng"))["metadata"]
    expected = {
        "file_name": "a.jpg",
        "file_size": len(content),
        "dimensions": [sheet.width, sheet.height],
        "format": "JPEG",
        "color_mode": "RGB",
        "dpi": [300, 300],
        "extraction_method": "ocr",
    }
    assert {name: metadata[name] for name in expected} == expected
    content = as_file(page(LINES), "PNG")
    metadata = (await service.read(ROUTE, content, "a.png", ocr_language="eng"))["metadata"]
    assert "dpi" not in metadata


async def test_a_picture_from_the_web_is_read(tmp_path: Path) -> None:
    from ..web_server import WebRequest, serving

    content = as_file(page(LINES), "PNG")

    async def answer(request: WebRequest) -> None:
        await request.answer(content, headers={"Content-Type": "image/png"})

    async with serving(answer) as web:
        network = {"allow_hosts": ["127.0.0.1"]}
        async with running_service(tmp_path, network=network) as service:
            data = {"url": web.url("/a.png"), "ocr_language": "eng", "async": "true"}
            response = await service.client.post("/api/imageocr/process-url", data=data)
            assert response.status_code == 202, response.text
            job = await service.ended(response.json()["job_id"])
    assert job["status"] == "completed", job["error"]
    assert error_rate(job["results"], LINES) < 0.02


@pytest.mark.parametrize(
    ("method", "expected"),
    [("llm", set()), ("llm_and_ocr", {"llm", "ocr"}), ("llm_and_native", {"llm", "ocr"})],
)
async def test_a_model_reads_it(tmp_path: Path, method: str, expected: set[str]) -> None:
    async with (
        llm_server(says("# Fruit")) as server,
        running_service(
            tmp_path, llm={"base_url": server.web.url("/v1"), "model": "seer"}
        ) as service,
    ):
        results = await service.read(
            ROUTE, as_file(page(LINES), "PNG"), "a.png", extraction_method=method
        )
    assert results["markdown_content"] == "# Fruit\n"
    assert set(results["metadata"]["text_contents"][0].get("texts", {})) == expected


async def test_the_same_picture_is_there_at_once(service: ServiceClient) -> None:
    content = as_file(page(["The same again"]), "PNG")
    assert (await service.read(ROUTE, content, "a.png"))["is_from_cache"] is False
    assert (await service.read(ROUTE, content, "b.png"))["is_from_cache"] is True
