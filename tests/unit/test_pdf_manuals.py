"""What manuals are full of: listings, definition lists, notes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from reportlab.lib.colors import lightgrey
from reportlab.pdfgen.canvas import Canvas

from secretary.documents.pdf.pages import FontStats, read_page
from secretary.documents.pdf.pdfium import open_page, open_pdf

from ..pdf_files import PROSE, Draw, lines_of, pdf_of, write

Read = Callable[[Draw], str]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(draw: Draw) -> str:
        path = tmp_path / "a.pdf"
        path.write_bytes(pdf_of(draw))
        with open_pdf(str(path)) as document, open_page(document, 1) as page:
            return read_page(page, FontStats(document)).markdown

    return read


def headings(markdown: str) -> list[str]:
    return [line.lstrip("# ") for line in markdown.splitlines() if line.startswith("#")]


LISTING = [("device", "/dev/drbd0;"), ("disk", "/dev/sda7;"), ("meta", "internal;")]
FENCED = "```\ndevice     /dev/drbd0;\ndisk       /dev/sda7;\nmeta       internal;\n```"


def columns(canvas: Canvas, y: float, font: str = "Courier", x: float = 80) -> float:
    for cells in LISTING:
        for cell_x, cell in zip((x, x + 66), cells, strict=True):
            write(canvas, [cell], x=cell_x, y=y, size=10, font=font)
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


MEANING = lines_of("lists the names of all ships that came in, and of those that did not. " * 2, 60)


def term(canvas: Canvas, name: str, y: float, x: float = 100) -> float:
    y = write(canvas, [name], x=x, y=y, font="Times-Bold")
    return write(canvas, MEANING, x=x + 36, y=y, font="Times-Roman") - 6


def test_a_bold_term_above_what_it_means_is_no_heading(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, ["OPTIONS"], font="Times-Bold")
        y = write(canvas, lines_of(PROSE * 2, 75), x=100, y=y, font="Times-Roman") - 6
        for name in ("list", "count ships"):
            y = term(canvas, name, y)
        y = write(canvas, ["EXIT STATUS"], y=y, font="Times-Bold")
        write(canvas, lines_of(PROSE, 75), x=100, y=y, font="Times-Roman")

    markdown = read(draw)
    assert headings(markdown) == ["OPTIONS", "EXIT STATUS"]
    assert "**list**\n\nlists the names" in markdown


def test_terms_on_a_page_of_their_own_are_no_headings_beside_a_section(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, ["FILES"], font="Times-Bold", y=740)
        y = write(canvas, ["These are read."], x=100, y=y, font="Times-Roman")
        for name in ("harbour.conf", "ships", "cargo"):
            y = term(canvas, name, y)

    assert headings(read(draw)) == ["FILES"]


def test_headings_stand_out_where_all_text_is_set_in(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = 740.0
        for name in ("The harbour", "The ledger", "The fire"):
            y = write(canvas, [name], y=y, font="Helvetica-Bold") - 4
            y = write(canvas, lines_of(PROSE * 2, 70), x=110, y=y) - 14

    assert headings(read(draw)) == ["The harbour", "The ledger", "The fire"]


def test_a_section_of_a_section_stands_out_less(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, ["HARBOURS"], font="Times-Bold", y=740)
        y = write(canvas, lines_of(PROSE, 75), x=108, y=y, font="Times-Roman") - 8
        for name in ("Ships of the line", "Boats"):
            y = write(canvas, [name], x=87, y=y, font="Times-Bold")
            y = write(canvas, lines_of(PROSE * 2, 75), x=108, y=y, font="Times-Roman") - 8
        term(canvas, "list", y, x=108)

    assert headings(read(draw)) == ["HARBOURS", "Ships of the line", "Boats"]


def note(canvas: Canvas, title: str, y: float, size: float = 11) -> float:
    y = write(canvas, [title], x=108, y=y, font="Helvetica-Bold", size=size) - 2
    return write(canvas, lines_of(PROSE, 60), x=108, y=y) - 12


@pytest.mark.parametrize("title", ["Note", "Warnung:", "Rationale"])
@pytest.mark.parametrize("size", [11, 14])
def test_the_title_of_a_note_is_no_heading(read: Read, title: str, size: float) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80)) - 12
        bottom = note(canvas, title, y, size)
        canvas.rect(100, bottom + 10, 400, y - bottom + 6)
        write(canvas, lines_of(PROSE * 2, 80), y=bottom - 6)

    markdown = read(draw)
    assert headings(markdown) == []
    assert title in markdown


def test_a_heading_in_the_middle_is_one(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80)) - 12
        canvas.setFont("Helvetica-Bold", 11)
        canvas.drawCentredString(280, y, "The ledger and the fire")
        write(canvas, lines_of(PROSE * 2, 80), y=y - 20)

    assert headings(read(draw)) == ["The ledger and the fire"]


OPTIONS = [
    ("-l", "List the names of all ships that are in the harbour, and of those", True),
    ("-n", "Count them, without a word about their names", False),
    ("-v", "Tell more about each of them than anyone would want to be told, and", True),
    ("-q", "Tell nothing at all", False),
]


@pytest.mark.parametrize("font", ["Times-Bold", "Times-Roman"])
def test_terms_with_their_meanings_beside_them_are_paragraphs(read: Read, font: str) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80), font="Times-Roman") - 6
        for name, meaning, goes_on in OPTIONS:
            write(canvas, [name], x=90, y=y, font=font)
            lines = [meaning, "of which nobody has heard since"] if goes_on else [meaning]
            y = write(canvas, lines, x=130, y=y, font="Times-Roman")

    blocks = read(draw).split("\n\n")[1:]
    assert blocks == [
        f"{name} {meaning}{' of which nobody has heard since' if goes_on else ''}"
        for name, meaning, goes_on in OPTIONS
    ]


def test_bold_names_with_values_beside_them_are_a_table(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80)) - 6
        for name, value in [("Number", "4711"), ("Date", "3 May"), ("Due", "17 May"), ("By", "us")]:
            write(canvas, [name], x=90, y=y, font="Helvetica-Bold")
            y = write(canvas, [value], x=160, y=y)

    assert "| Date | 3 May |" in read(draw)


def test_options_below_names_of_columns_are_a_table(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80)) - 6
        for x, name in [(90, "Option"), (150, "Meaning")]:
            write(canvas, [name], x=x, y=y, font="Helvetica-Bold")
        for name, meaning, _ in OPTIONS:
            y -= 14
            write(canvas, [name], x=90, y=y)
            write(canvas, [meaning[:40]], x=150, y=y)

    assert "| Option | Meaning |" in read(draw)


def test_a_numbered_heading_is_one_whatever_follows_it(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80)) - 12
        y = write(canvas, ["4.4.36.1. Synopsis"], y=y, font="Helvetica-Bold") - 12
        y = write(canvas, ["harbour --list"], y=y, font="Courier-Bold") - 12
        write(canvas, ["4.4.36.2. Purpose"], y=y, font="Helvetica-Bold")

    assert headings(read(draw)) == ["4.4.36.1. Synopsis", "4.4.36.2. Purpose"]


def test_a_numbered_heading_may_be_a_long_question(read: Read) -> None:
    question = (
        "1.5. Why does nobody count the entries of the ledger, and which of them are missing?"
    )

    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80)) - 14
        y = write(canvas, lines_of(question, 60), y=y, size=13, font="Helvetica-Bold") - 8
        write(canvas, lines_of(PROSE * 2, 80), y=y)

    assert headings(read(draw)) == [question]


def test_a_name_in_another_font_does_not_part_a_heading(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80)) - 12
        x = 72.0
        for text, font in [("4.2. The command", "Helvetica-Bold"), ("harbour", "Courier"),
                           ("and its options", "Helvetica-Bold")]:  # fmt: skip
            write(canvas, [text], x=x, y=y, font=font)
            x += canvas.stringWidth(f"{text} ", font, 11)
        write(canvas, lines_of(PROSE * 2, 80), y=y - 20)

    assert headings(read(draw)) == ["4.2. The command harbour and its options"]


def test_a_command_in_bold_between_text_is_no_heading(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE * 2, 80)) - 12
        y = write(canvas, ["harbour list all"], x=108, y=y, font="Helvetica-Bold") - 12
        y = write(canvas, lines_of(PROSE, 80), y=y)
        canvas.line(72, y - 40, 90, y - 60)

    assert headings(read(draw)) == []
