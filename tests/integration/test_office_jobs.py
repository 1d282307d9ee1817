"""Office files through the whole service: every format, read directly and with LibreOffice."""

import io
import json
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest
import pytest_asyncio
from PIL import Image

from ..minimal_files import zipped
from ..office_files import odf_of, ole_of
from ..requirements import needed
from ..sample_documents import as_file, saved
from ..service_fixture import ServiceClient, running_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
module_wide = partial(pytest_asyncio.fixture, scope="module", loop_scope="module")

ROUTE = "/api/office/process"
VIA_PDF = "/api/office/process-via-pdf"
#: As they are, and as JSON escapes them.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\\\\(?:b|f|u00[01])")


@module_wide()
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServiceClient]:
    async with running_service(tmp_path_factory.mktemp("office")) as service:
        yield service


@pytest.fixture
def libreoffice() -> None:
    needed("soffice")


def picture() -> io.BytesIO:
    return io.BytesIO(as_file(Image.new("RGB", (40, 30), "red"), "PNG"))


def a_docx() -> bytes:
    document = docx.Document()
    document.add_heading("Fruit", 1)
    document.add_paragraph("Before the table")
    table = document.add_table(2, 2)
    for cell, text in zip(table._cells, ("Name", "Price", "Apple", "1.20"), strict=True):
        cell.text = text
    document.add_paragraph("After the table")
    document.add_paragraph("Ripe", style="List Bullet")
    document.add_picture(picture())
    return saved(document.save)


def an_xlsx() -> bytes:
    book = openpyxl.Workbook()
    book.active.title = "Fruit"
    for row in (("Name", "Price"), ("Apple", 1.2), ("Pear", 3)):
        book.active.append(row)
    book.create_sheet("Cheese").append(["Brie", 7])
    return saved(book.save)


def a_pptx() -> bytes:
    show = pptx.Presentation()
    for title in ("Fruit", "Cheese"):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"All about {title.lower()}"
    return saved(show.save)


def an_odt() -> bytes:
    heading = '<text:h text:outline-level="1">Fruit</text:h>'
    return odf_of("text", f"{heading}<text:p>An apple</text:p>")


def an_ods() -> bytes:
    cells = "".join(f"<table:table-cell><text:p>{t}</text:p></table:table-cell>" for t in "ab")
    table = f"<table:table-row>{cells}</table:table-row>"
    return odf_of("spreadsheet", f'<table:table table:name="Fruit">{table}</table:table>')


def an_odp() -> bytes:
    frame = "<draw:frame><draw:text-box><text:p>An apple</text:p></draw:text-box></draw:frame>"
    return odf_of("presentation", f'<draw:page draw:name="Fruit">{frame}</draw:page>')


def an_epub() -> bytes:
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="book.opf"/></rootfiles></container>'
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
        '<item id="one" href="one.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="one"/></spine></package>'
    )
    body = "<body><h1>Fruit</h1><p>An apple</p></body>"
    chapter = f'<html xmlns="http://www.w3.org/1999/xhtml">{body}</html>'
    return zipped(
        {
            "mimetype": b"application/epub+zip",
            "META-INF/container.xml": container.encode(),
            "book.opf": package.encode(),
            "one.xhtml": chapter.encode(),
        }
    )


def rtf() -> bytes:
    return rb"{\rtf1\ansi\deff0 {\fonttbl {\f0 Arial;}} An apple \b in bold\b0 .\par Second}"


def html() -> bytes:
    return b"<!doctype html><h1>Fruit</h1><ul><li>An apple</li></ul><script>alert(1)</script>"


DOCX_MARKDOWN = """\
# Fruit

Before the table

| Name | Price |
| --- | --- |
| Apple | 1.20 |

After the table

- Ripe
"""


@pytest.mark.parametrize(
    ("make", "name", "expected"),
    [
        (a_docx, "a.docx", DOCX_MARKDOWN),
        (an_xlsx, "a.xlsx", "# Fruit\n\n| Name | Price |\n| --- | --- |\n| Apple | 1.2 |"),
        (a_pptx, "a.pptx", "# Fruit\n\n- All about fruit"),
        (an_odt, "a.odt", "# Fruit\n\nAn apple"),
        (an_ods, "a.ods", "| a | b |"),
        (an_odp, "a.odp", "An apple"),
        (rtf, "a.rtf", "An apple **in bold**."),
        (html, "a.html", "# Fruit\n\n- An apple"),
        (an_epub, "a.epub", "# Fruit\n\nAn apple"),
        (lambda: b"Name;Price\nApple;1,20\n", "a.csv", "| Name | Price |"),
    ],
    ids=["docx", "xlsx", "pptx", "odt", "ods", "odp", "rtf", "html", "epub", "csv"],
)
async def test_every_format_becomes_markdown(
    service: ServiceClient, make: Callable[[], bytes], name: str, expected: str
) -> None:
    results = await service.read(ROUTE, make(), name)
    assert expected in results["markdown_content"]
    assert results["extracted_text"] == results["markdown_content"].strip()
    assert (await service.get(results["markdown_file"])).text.startswith(
        results["markdown_content"].strip()
    )
    assert results["metadata"]["page_count"] >= 1
    assert results["metadata"]["file_name"] == name
    pages = [(await service.get(url)).json()["content"] for url in results["page_texts"]]
    assert pages and all(pages)
    assert "alert" not in results["markdown_content"]


async def test_each_slide_and_each_sheet_is_a_page(service: ServiceClient) -> None:
    for content, name in ((a_pptx(), "a.pptx"), (an_xlsx(), "a.xlsx")):
        results = await service.read(ROUTE, content, name)
        assert results["metadata"]["page_count"] == 2
        assert "Fruit" in results["markdown_content"].split("Cheese")[0]


async def test_pictures_come_along_when_they_are_asked_for(service: ServiceClient) -> None:
    results = await service.read(ROUTE, a_docx(), "a.docx", include_images="true")
    (url,) = results["assets"]
    assert Image.open(io.BytesIO((await service.get(url)).content)).size == (40, 30)
    assert f"]({url.rpartition('/')[2]})" in results["markdown_content"]
    assert (await service.read(ROUTE, a_docx(), "a.docx"))["assets"] == []


async def test_pictures_are_not_announced_as_pages(service: ServiceClient) -> None:
    results = await service.read(ROUTE, a_docx(), "a.docx", includeImages="true")
    assert await service.archived(results["images_archive_url"]) == ["img-001.png"]
    assert "![](img-001.png)" in results["extracted_text"]
    assert results["pages_archive_url"] is None
    assert results["previews_archive_url"] is None


async def test_there_is_no_archive_of_no_pictures(service: ServiceClient) -> None:
    results = await service.read(ROUTE, an_xlsx(), "a.xlsx", includeImages="true")
    assert results["images_archive_url"] is None
    assert results["assets"] == []


async def test_a_picture_on_two_slides_is_in_the_archive_once(service: ServiceClient) -> None:
    show = pptx.Presentation()
    for _ in range(2):
        slide = show.slides.add_slide(show.slide_layouts[5])
        slide.shapes.title.text = "Fruit"
        slide.shapes.add_picture(picture(), 0, 0)
    results = await service.read(ROUTE, saved(show.save), "a.pptx", includeImages="true")
    assert await service.archived(results["images_archive_url"]) == ["img-001.png"]
    assert len(results["assets"]) == 1


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF"])
async def test_pictures_in_other_formats_are_converted(service: ServiceClient, kind: str) -> None:
    document = docx.Document()
    document.add_paragraph("Fruit")
    document.add_picture(io.BytesIO(as_file(Image.new("RGB", (40, 30), "red"), kind)))
    results = await service.read(ROUTE, saved(document.save), "a.docx", includeImages="true")
    (url,) = results["assets"]
    assert url.endswith("/img-001.png")
    converted = Image.open(io.BytesIO((await service.get(url)).content)).convert("RGB")
    assert (converted.size, converted.getpixel((1, 1))) == ((40, 30), (255, 0, 0))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("---\ntitle: Fruit\n---\n\nAn apple\n", "```yaml\ntitle: Fruit\n```\n\nAn apple"),
        ("---\n\nAn apple\n\n---\n\nA pear\n", "An apple\n\n---\n\nA pear"),
        ("----\n---\nAn apple\n", "An apple"),
    ],
)
async def test_the_text_never_starts_with_front_matter(
    service: ServiceClient, content: str, expected: str
) -> None:
    results = await service.read(ROUTE, content.encode(), "a.md")
    assert results["extracted_text"] == expected
    assert (await service.get(results["markdown_file"])).text.strip() == content.strip()


async def test_a_warning_says_that_previews_are_not_rendered(service: ServiceClient) -> None:
    fields = {"includeImages": "true", "includePreviews": "true", "force_refresh": "false"}
    results = await service.read(ROUTE, a_docx(), "a.docx", **fields)
    assert [warning["code"] for warning in results["warnings"]] == ["PREVIEWS_NOT_RENDERED"]
    assert (await service.read(ROUTE, a_docx(), "a.docx"))["warnings"] == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.html", b"<!DOCTYPE html><title>T&#7;t</title><h1>Fruit&#27;[31m</h1><p>A&#127;b&#8;c"),
        ("a.txt", b"Fruit and more\n\nAb\x0cc\x7f and more words of a text"),
        ("a.rtf", rb"{\rtf1 Fruit\'1b[31m\par Ab\'07\u1? c\'7f}"),
    ],
)  # fmt: skip
async def test_no_control_character_reaches_the_results(
    service: ServiceClient, name: str, content: bytes
) -> None:
    results = await service.read(ROUTE, content, name)
    files = ["markdown_file", "extracted_text_file", "page_markdown_file"]
    urls = [*(results[file] for file in files if results.get(file)), *results["page_texts"]]
    texts = [json.dumps(results), *[(await service.get(url)).text for url in urls]]
    assert len(texts) > 2 and "Fruit" in texts[1]
    shown = [text for text in texts if CONTROL.search(text)]
    assert shown == []


async def test_an_empty_document_fails(service: ServiceClient) -> None:
    error = await service.refused(ROUTE, saved(docx.Document().save), "a.docx")
    assert error["code"] == "UNSUPPORTED_FILE"


async def test_the_same_file_is_there_at_once(service: ServiceClient) -> None:
    content = a_pptx()
    await service.read(ROUTE, content, "a.pptx")
    again = await service.read(ROUTE, content, "b.pptx")
    assert again["is_from_cache"] is True
    assert again["metadata"]["file_name"] == "b.pptx"
    assert "# Fruit" in again["markdown_content"]
    assert len(again["page_texts"]) == 2
    fresh = await service.read(ROUTE, content, "a.pptx", force_refresh="true")
    assert fresh["is_from_cache"] is False


@pytest.mark.usefixtures("libreoffice")
class TestByLibreOffice:
    async def test_pages_are_read_as_printed(self, service: ServiceClient) -> None:
        results = await service.read(VIA_PDF, a_docx(), "a.docx", extraction_method="native")
        assert "Before the table" in results["extracted_text"]
        assert results["metadata"]["page_count"] == 1

    async def test_the_text_is_markdown_with_page_markers_and_has_previews(
        self, service: ServiceClient
    ) -> None:
        results = await service.read(VIA_PDF, a_docx(), "a.docx", includePreviews="true")
        assert results["extracted_text"].startswith("--- Seite 1 ---\n\n# Fruit\n")
        assert await service.archived(results["images_archive_url"]) == ["preview_001.jpg"]
        assert results["warnings"] == []

    async def test_a_presentation_given_as_pdf_is_converted_first(
        self, service: ServiceClient
    ) -> None:
        job_id = await service.submit_file(
            "/api/pdf/process", a_pptx(), "a.pptx", extraction_method="preview_and_native"
        )
        steps = set()
        while (job := await service.job(job_id))["completed_at"] is None:
            steps.add(job["progress"]["step"])
        assert job["status"] == "completed", job["error"]
        assert "converting_pptx_to_pdf" in steps
        assert job["results"]["metadata"]["page_count"] == 2
        assert len(job["results"]["assets"]) == 2
        assert "All about cheese" in job["results"]["extracted_text"]

    async def test_it_is_converted_once(self, service: ServiceClient) -> None:
        content = an_xlsx()
        await service.read(VIA_PDF, content, "a.xlsx")
        again = await service.read(VIA_PDF, content, "a.xlsx")
        assert again["is_from_cache"] is True


async def test_without_libreoffice_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with running_service(tmp_path / "data") as service:
        error = await service.refused(VIA_PDF, a_docx(), "a.docx")
    assert error["code"] == "ENGINE_UNAVAILABLE"
    assert "libreoffice-writer-nogui" in error["message"]


async def test_an_old_format_is_sent_the_other_way(service: ServiceClient) -> None:
    error = await service.refused(ROUTE, ole_of("WordDocument"), "a.doc")
    assert error["code"] == "UNSUPPORTED_FILE"
    assert "via_pdf" in error["message"]


async def test_an_encrypted_file_is_named(service: ServiceClient) -> None:
    error = await service.refused(ROUTE, ole_of("EncryptedPackage"), "a.docx")
    assert error["code"] == "FILE_ENCRYPTED"
