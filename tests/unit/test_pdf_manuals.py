"""What manuals are full of: listings, terms with their meanings, notes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from reportlab.lib.colors import lightgrey
from reportlab.pdfgen.canvas import Canvas

from secretary.processors.pdf.document import opened_page, opened_pdf
from secretary.processors.pdf.native import read_page
from secretary.processors.pdf.typography import Typography

from ..pdf_files import PROSE, Draw, lines_of, pdf_of, write

Read = Callable[[Draw], str]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(draw: Draw) -> str:
        path = tmp_path / "a.pdf"
        path.write_bytes(pdf_of(draw))
        with opened_pdf(str(path)) as document, opened_page(document, 1) as page:
            return read_page(page, Typography(document)).markdown

    return read


def headings(markdown: str) -> list[str]:
    return [line.lstrip("# ") for line in markdown.splitlines() if line.startswith("#")]


LISTING = [("device", "/dev/drbd0;"), ("disk", "/dev/sda7;"), ("meta", "internal;")]
FENCED = "```\ndevice     /dev/drbd0;\ndisk       /dev/sda7;\nmeta       internal;\n```"


def columns(canvas: Canvas, y: float, font: str = "Courier", x: float = 80) -> float:
    for cells in LISTING:
        for place, cell in zip((x, x + 66), cells, strict=True):
            write(canvas, [cell], x=place, y=y, size=10, font=font)
        y -= 12
    return y


def test_a_listing_with_columns_is_no_table(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = columns(canvas, write(canvas, lines_of(PROSE * 2, 80)) - 10)
        write(canvas, lines_of(PROSE, 80), y=y - 10)

    assert FENCED in read(draw)


def test_a_listing_in_a_grey_box_is_no_table(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80)) - 10
        canvas.setFillColor(lightgrey)
        for number in range(3):
            canvas.rect(76, y - 3 - 12 * number, 400, 12, stroke=0, fill=1)
        canvas.setFillColor("black")
        write(canvas, lines_of(PROSE, 80), y=columns(canvas, y) - 10)

    assert FENCED in read(draw)


def test_a_page_of_listings_has_no_tables(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, ["The output is:"])
        for _ in range(8):
            y = columns(canvas, y - 10)

    assert "|" not in read(draw)


def test_the_numbers_of_its_lines_belong_to_a_listing(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        top = write(canvas, lines_of(PROSE * 2, 80)) - 10
        for number in range(3):
            write(canvas, [str(number + 1)], x=72, y=top - 12 * number, size=7)
        write(canvas, lines_of(PROSE, 80), y=columns(canvas, top, x=96) - 10)

    fenced = read(draw).split("```")[1].splitlines()
    assert [line.split() for line in fenced[1:]] == [
        [str(number), *cells] for number, cells in enumerate(LISTING, 1)
    ]


def test_cells_in_letters_of_a_fixed_pitch_below_names_of_columns_are_a_table(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80)) - 10
        for x, name in [(80, "Key"), (146, "Value")]:
            write(canvas, [name], x=x, y=y, size=10, font="Helvetica-Bold")
        columns(canvas, y - 12)

    assert "| Key | Value |\n| --- | --- |\n| device | /dev/drbd0; |" in read(draw)
