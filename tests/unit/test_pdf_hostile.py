"""Pages with too much or nothing: read in bounded time, or rejected with an error code."""

import time
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from secretary.core.errors import FileCorrupt, FileEncrypted
from secretary.documents.pages import PageReading
from secretary.documents.pdf.pages import inspect_pdf, read_page, render_page
from secretary.documents.pdf.pdfium import open_page, open_pdf

from ..minimal_files import pdf, written
from ..pdf_files import PROSE, lines_of, pdf_of, write

#: Many times what is needed, for a busy machine.
LIMIT_S = 20


def page_of(tmp_path: Path, content: bytes) -> PageReading:
    path = tmp_path / "a.pdf"
    path.write_bytes(content)
    started = time.monotonic()
    with open_pdf(str(path)) as document, open_page(document, 1) as page:
        read = read_page(page)
    assert time.monotonic() - started < LIMIT_S
    return read


def with_stream(stream: bytes, box: bytes = b"0 0 612 792") -> bytes:
    return written(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>",
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
            b"<< /Type /Page /Parent 2 0 R /MediaBox [%s] /Contents 4 0 R"
            b" /Resources << /Font << /F1 3 0 R >> >> >>" % box,
        ]
    )


def test_a_hundred_thousand_letters(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        for number in range(20_000):
            canvas.setFont("Helvetica", 1 + number % 7)
            canvas.drawString(number % 601, (number * 7) % 790, "abcde")

    assert page_of(tmp_path, pdf_of(draw)).text.count("abcde") > 1_000


def test_a_hundred_thousand_strokes(tmp_path: Path) -> None:
    lines = b"".join(
        b"%d %d m %d %d l S\n" % (x, y, x + 9, y) for x in range(330) for y in range(300)
    )
    text = b"BT /F1 12 Tf 72 700 Td (Between the lines) Tj ET\n"
    assert "Between the lines" in page_of(tmp_path, with_stream(text + lines)).text


def test_one_path_of_many_segments(tmp_path: Path) -> None:
    lines = b"0 0 m " + b" ".join(b"%d %d l" % (n % 600, n % 700) for n in range(60_000)) + b" S\n"
    text = b"BT /F1 12 Tf 72 700 Td (Over the path) Tj ET\n"
    assert page_of(tmp_path, with_stream(lines + text)).text == "Over the path"


@pytest.mark.parametrize("box", [b"0 0 0 0", b"0 0 1 1", b"0 0 200000 200000", b"9 9 -9 -9"])
def test_a_page_of_any_size(tmp_path: Path, box: bytes) -> None:
    content = with_stream(b"BT /F1 12 Tf 0 0 Td (Here) Tj ET", box)
    assert page_of(tmp_path, content).text == "Here"
    path = tmp_path / "a.pdf"
    with open_pdf(str(path)) as document, open_page(document, 1) as page:
        picture = render_page(page, dpi=150, max_pixels=100_000)
    assert 0 < picture.width * picture.height <= 110_000


@pytest.mark.parametrize("number", [b"1e38", b"-1e38", b"99999999999999999999", b"nan", b"1e-40"])
def test_letters_at_the_end_of_the_world(tmp_path: Path, number: bytes) -> None:
    stream = b"BT /F1 12 Tf %s 0 0 %s %s %s Tm (Far) Tj ET BT /F1 12 Tf 72 700 Td (Near) Tj ET"
    read = page_of(tmp_path, with_stream(stream % ((number,) * 4)))
    assert "Near" in read.text


def test_a_page_without_fonts(tmp_path: Path) -> None:
    stream = b"BT /F9 12 Tf 72 700 Td (Nowhere) Tj ET"
    assert page_of(tmp_path, with_stream(stream)).text in ("", "Nowhere")


def test_a_truncated_file_is_repaired(tmp_path: Path) -> None:
    whole = pdf_of(lambda canvas: write(canvas, lines_of(PROSE, 60)))
    # Without its beginning, every offset in the cross-reference table is wrong.
    assert "harbour office" in page_of(tmp_path, whole[40:]).text


def test_a_page_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf("One").replace(b"/Kids [5 0 R]", b"/Kids [9 0 R]"))
    with (
        pytest.raises(FileCorrupt, match="Page 1"),
        open_pdf(str(path)) as document,
        open_page(document, 1),
    ):
        pass


def test_a_file_under_a_password_says_so(tmp_path: Path) -> None:
    pikepdf = pytest.importorskip("pikepdf")
    path, locked = tmp_path / "a.pdf", str(tmp_path / "b.pdf")
    path.write_bytes(pdf("Secret"))
    with pikepdf.open(path) as document:
        document.save(locked, encryption=pikepdf.Encryption(user="open", owner="all"))
    for password in (None, "wrong"):
        with pytest.raises(FileEncrypted), open_pdf(locked, password):
            pass
    with open_pdf(locked, "open") as document, open_page(document, 1) as page:
        assert read_page(page).text == "Secret"


def test_a_repaired_file_is_reported(tmp_path: Path) -> None:
    whole = pdf_of(lambda canvas: write(canvas, lines_of(PROSE, 60)))
    (tmp_path / "torn.pdf").write_bytes(whole[40:])
    (tmp_path / "whole.pdf").write_bytes(whole)
    assert inspect_pdf(str(tmp_path / "torn.pdf"), None)["is_mended"] is True
    assert "is_mended" not in inspect_pdf(str(tmp_path / "whole.pdf"), None)


@pytest.mark.parametrize("before", [b"", pdf("An earlier version")], ids=["new", "updated"])
def test_what_was_cut_short_is_refused_though_much_could_be_read(
    tmp_path: Path, before: bytes
) -> None:
    (tmp_path / "cut.pdf").write_bytes(before + pdf("One", "Two")[:-40])
    with pytest.raises(FileCorrupt, match="cut short"):
        inspect_pdf(str(tmp_path / "cut.pdf"), None)


@pytest.mark.parametrize("size", [0, 1, 2000, 10_921, 10_922, 10_923, 200_000])
def test_something_may_stand_behind_the_end(tmp_path: Path, size: int) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("One", "Two") + b"<html>" * size)
    assert inspect_pdf(str(tmp_path / "a.pdf"), None)["page_count"] == 2
