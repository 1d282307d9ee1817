"""Office files converted to PDF by a real LibreOffice."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import docx
import openpyxl
import pypdfium2
import pytest
from PIL import Image
from pptx import Presentation

from secretary.core.errors import (
    EngineUnavailable,
    FileCorrupt,
    FileEncrypted,
    ProcessingTimeout,
    UnsupportedFile,
    WorkerCrashed,
)
from secretary.core.processes import find
from secretary.documents.office.libreoffice import convert_to_pdf
from secretary.worker.sandbox import Sandbox

from ..hostile_office import members
from ..http_servers import answering
from ..minimal_files import office, pdf, zipped
from ..office_files import odt_of, ole_of
from ..polling import until
from ..requirements import needed

SECONDS = 60.0
ODT_WITH_BROKEN_MANIFEST = zipped(
    members(odt_of("<text:p/>")) | {"META-INF/manifest.xml": b'<a xmlns:m="not a URI">'}
)


@pytest.fixture
def installed() -> None:
    needed("soffice", "libreoffice")


@pytest.fixture
def into(tmp_path: Path) -> Path:
    directory = tmp_path / "into"
    directory.mkdir()
    return directory


def text_of(path: str) -> list[str]:
    with pypdfium2.PdfDocument(path) as document:
        return [page.get_textpage().get_text_bounded().strip() for page in document]


def named(directory: Path) -> dict[int, str]:
    """The command lines of processes that work in this directory."""
    markers = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{directory}/" in line:
            markers[int(process.name)] = line
    return markers


def parent_of(processes: dict[int, str]) -> int:
    """The process that started them, which is none of them."""
    parents = {process.parent for pid in processes if (process := find(pid))}
    (parent,) = parents - set(processes)
    return parent


def gone(directory: Path) -> bool:
    deadline = time.monotonic() + 10
    while named(directory) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not named(directory)


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A real server, and the paths that were requested."""
    paths: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()

        do_HEAD = do_OPTIONS = do_PROPFIND = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with answering(Answers) as url:
        yield url, paths


def long_document(path: Path) -> Path:
    document = docx.Document()
    for _ in range(3000):
        document.add_paragraph("It takes its time. " * 60)
    document.save(str(path))
    return path


@pytest.mark.usefixtures("installed")
class TestConversion:
    def test_a_document_becomes_a_pdf_and_nothing_else_is_left(
        self, tmp_path: Path, into: Path
    ) -> None:
        source = tmp_path / "source" / "Große Datei (1).bin"
        source.parent.mkdir()
        document = docx.Document()
        document.add_paragraph("Grüße")
        document.save(str(source))
        before = source.read_bytes()
        made = convert_to_pdf(str(source), "docx", str(into), timeout_s=SECONDS)
        assert made == str(into / "document.pdf")
        assert text_of(made) == ["Grüße"]
        assert [path.name for path in into.iterdir()] == ["document.pdf"]
        assert [path.name for path in source.parent.iterdir()] == [source.name]
        assert source.read_bytes() == before
        assert gone(into)

    def test_slides_become_pages(self, tmp_path: Path, into: Path) -> None:
        presentation = Presentation()
        for title in ("One", "Two"):
            slide = presentation.slides.add_slide(presentation.slide_layouts[5])
            slide.shapes.title.text = title
        presentation.save(str(tmp_path / "file"))
        made = convert_to_pdf(str(tmp_path / "file"), "pptx", str(into), timeout_s=SECONDS)
        assert text_of(made) == ["One", "Two"]

    def test_sheets_become_pages(self, tmp_path: Path, into: Path) -> None:
        book = openpyxl.Workbook()
        book.active["A1"] = "=1+1"
        book.save(tmp_path / "file")
        made = convert_to_pdf(str(tmp_path / "file"), "xlsx", str(into), timeout_s=SECONDS)
        assert "2" in text_of(made)[0].split()

    def test_a_text_keeps_its_letters(self, tmp_path: Path, into: Path) -> None:
        (tmp_path / "a.csv").write_bytes("Größe;1,5\n".encode("cp1252"))
        made = convert_to_pdf(str(tmp_path / "a.csv"), "text", str(into), timeout_s=SECONDS)
        assert "Größe" in text_of(made)[0]
        assert ";" not in text_of(made)[0]

    def test_nothing_outside_the_document_is_read(self, tmp_path: Path, into: Path) -> None:
        (tmp_path / "secret.txt").write_text("SECRET")
        Image.new("RGB", (40, 40), "red").save(tmp_path / "secret.png")
        with listening() as (address, paths):
            shown = "".join(
                '<draw:frame svg:width="2cm" svg:height="2cm" text:anchor-type="as-char">'
                f'<draw:image xlink:href="{link}" xlink:type="simple"/></draw:frame>'
                for link in (f"{address}/a.png", (tmp_path / "secret.png").as_uri())
            )
            taken = "".join(
                f'<text:section text:name="s{at}"><text:section-source xlink:type="simple"'
                f' xlink:href="{link}"/><text:p>kept</text:p></text:section>'
                for at, link in enumerate([f"{address}/b", (tmp_path / "secret.txt").as_uri()])
            )
            (tmp_path / "file").write_bytes(odt_of(f"<text:p>Seen{shown}</text:p>{taken}"))
            made = convert_to_pdf(str(tmp_path / "file"), "odt", str(into), timeout_s=SECONDS)
        assert paths == []
        assert text_of(made)[0].split() == ["Seen", "kept", "kept"]
        with pypdfium2.PdfDocument(made) as document:
            assert {each.type for each in document[0].get_objects()} == {1}  # texts, no images

    def test_a_page_of_the_web_stays_alone_too(self, tmp_path: Path, into: Path) -> None:
        with listening() as (address, paths):
            (tmp_path / "file").write_text(
                f'<html><link rel="stylesheet" href="{address}/a.css"><img src="{address}/a.png">'
                f'<iframe src="{address}/b"></iframe><p>Seen</p></html>'
            )
            made = convert_to_pdf(str(tmp_path / "file"), "html", str(into), timeout_s=SECONDS)
        assert paths == []
        assert "Seen" in text_of(made)[0]

    def test_what_cannot_be_loaded_is_corrupt_not_a_text(self, tmp_path: Path, into: Path) -> None:
        (tmp_path / "file").write_bytes(office("word"))
        with pytest.raises(FileCorrupt, match="cannot read the document"):
            convert_to_pdf(str(tmp_path / "file"), "docx", str(into), timeout_s=SECONDS)
        assert list(into.iterdir()) == []

    def test_past_its_time_all_of_it_ends(self, tmp_path: Path, into: Path) -> None:
        source = long_document(tmp_path / "file")
        with pytest.raises(ProcessingTimeout, match="within 1 s"):
            convert_to_pdf(str(source), "docx", str(into), timeout_s=1.0)
        assert gone(into)
        assert list(into.iterdir()) == []

    async def test_its_own_death_is_not_the_fault_of_the_document(
        self, tmp_path: Path, into: Path
    ) -> None:
        source = long_document(tmp_path / "file")
        call = partial(convert_to_pdf, str(source), "docx", str(into), timeout_s=SECONDS)
        running = asyncio.create_task(asyncio.to_thread(call))
        workers = await until(lambda: [pid for pid, line in named(into).items() if ".bin" in line])
        os.kill(workers[0], signal.SIGKILL)
        with pytest.raises(WorkerCrashed, match="LibreOffice crashed"):
            await running
        assert list(into.iterdir()) == []

    @pytest.mark.parametrize("is_killed", [False, True])
    async def test_it_ends_with_the_process_that_started_it(
        self, tmp_path: Path, into: Path, is_killed: bool
    ) -> None:
        source = long_document(tmp_path / "file")
        sandbox = Sandbox(1)
        await sandbox.open()
        try:
            call = partial(convert_to_pdf, str(source), "docx", str(into), timeout_s=SECONDS)
            running = asyncio.create_task(sandbox.run(call))
            await until(lambda: any("soffice.bin" in line for line in named(into).values()))
            if is_killed:
                os.kill(parent_of(named(into)), signal.SIGKILL)
            else:
                running.cancel()
            with pytest.raises(WorkerCrashed if is_killed else asyncio.CancelledError):
                await running
            assert gone(into)
        finally:
            await sandbox.close()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("content", "kind", "error"),
    [
        (b"<html>not a docx</html>", "docx", FileCorrupt),
        (pdf("Hello"), "pdf", UnsupportedFile),
        (ole_of("EncryptedPackage"), "ole", FileEncrypted),
        (ole_of("Something"), "ole", UnsupportedFile),
        (odt_of("<text:p/>", is_encrypted=True), "odt", FileEncrypted),
        (ODT_WITH_BROKEN_MANIFEST, "odt", FileCorrupt),
    ],
)
def test_what_is_no_use_to_try_is_refused_by_name(
    tmp_path: Path, content: bytes, kind: str, error: type[Exception]
) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(error):
        convert_to_pdf(str(tmp_path / "file"), kind, str(tmp_path), timeout_s=SECONDS)


def test_without_it_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Path("/Applications/LibreOffice.app").exists():
        pytest.skip("LibreOffice is installed in the default place")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="install libreoffice-impress-nogui"):
        convert_to_pdf(str(tmp_path / "file"), "docx", str(tmp_path), timeout_s=SECONDS)
