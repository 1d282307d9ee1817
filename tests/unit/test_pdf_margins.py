"""Text in the margins of a page."""

from pathlib import Path

from reportlab.pdfgen.canvas import Canvas

from secretary.documents.pdf.pages import read_page
from secretary.documents.pdf.pdfium import open_page, open_pdf

from ..pdf_files import PROSE, Draw, lines_of, pdf_of, write


def to_markdown(tmp_path: Path, draw: Draw) -> str:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_of(draw))
    with open_pdf(str(path)) as document, open_page(document, 1) as page:
        return read_page(page).markdown


def test_numbers_of_lines_are_left_out(tmp_path: Path) -> None:
    lines = lines_of(PROSE * 3, 60)

    def draw(canvas: Canvas) -> None:
        for number, line in enumerate(lines, 1):
            write(canvas, [str(number)], x=40, y=760 - 14 * number, size=6)
            write(canvas, [line], y=760 - 14 * number)

    assert to_markdown(tmp_path, draw) == " ".join(lines)


def test_raised_numbers_beside_the_lines_are_text(tmp_path: Path) -> None:
    lines = lines_of(PROSE * 3, 60)

    def draw(canvas: Canvas) -> None:
        for number, line in enumerate(lines, 1):
            write(canvas, ["\N{SUPERSCRIPT TWO}"], x=40, y=760 - 14 * number, size=6)
            write(canvas, [line], y=760 - 14 * number)

    assert lines[0] in to_markdown(tmp_path, draw)


def test_numbers_of_rows_stay(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        for number in range(1, 15):
            for x, text in [(40, str(number)), (90, f"thing {number % 4}"), (200, "12.50")]:
                write(canvas, [text], x=x, y=760 - 14 * number)

    assert to_markdown(tmp_path, draw).splitlines()[0] == "| 1 | thing 1 | 12.50 |"


def test_a_running_head_is_read_before_both_columns(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        write(canvas, ["The ledger"], x=50, y=810, size=9)
        write(canvas, ["Chapter two"], x=480, y=810, size=9)
        write(canvas, lines_of(PROSE * 2, 44), x=50, size=10)
        write(canvas, lines_of(PROSE * 2, 44), x=310, size=10)
        write(canvas, ["17"], x=295, y=40, size=9)

    first, text = to_markdown(tmp_path, draw).split("\n\n", 1)
    assert first == "The ledger Chapter two"
    assert text.split() == (PROSE * 4).split()
