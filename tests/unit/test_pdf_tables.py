"""Tables of all kinds, and text that only looks like one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from reportlab.lib.colors import lightgrey
from reportlab.pdfgen.canvas import Canvas

from secretary.documents.pdf.pages import read_page
from secretary.documents.pdf.pdfium import open_page, open_pdf

from ..pdf_files import PROSE, lines_of, pdf_of, write

Tables = Callable[[Callable[[Canvas], object]], list[list[str]]]

ROWS = [
    ("Anna", "salt", "1,200.50"), ("Bertha", "tin plate", "45.00"), ("Clara", "paper", "8.25"),
    ("Dora", "rope", "310.00"),
]  # fmt: skip
AS_MARKDOWN = [f"| {' | '.join(row)} |" for row in ROWS]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    def read(draw: Callable[[Canvas], object]) -> list[list[str]]:
        path = tmp_path / "a.pdf"
        path.write_bytes(pdf_of(draw))
        with open_pdf(str(path)) as document, open_page(document, 1) as page:
            blocks = read_page(page).markdown.split("\n\n")
        return [block.splitlines() for block in blocks if block.startswith("|")]

    return read


def row(canvas: Canvas, y: float, cells: tuple[str, ...], xs: tuple[float, ...]) -> None:
    """The last cell ends where its column does."""
    canvas.setFont("Helvetica", 10)
    for x, cell in zip(xs, cells[:-1], strict=False):
        canvas.drawString(x, y, cell)
    canvas.drawRightString(xs[-1], y, cells[-1])


XS = (80.0, 180.0, 340.0)


def test_shaded_rows_make_a_table(tables: Tables) -> None:
    def draw(canvas: Canvas) -> None:
        for number, cells in enumerate([("Ship", "Cargo", "Worth"), *ROWS]):
            if number % 2:
                canvas.setFillColor(lightgrey)
                canvas.rect(76, 695 - 20 * number, 270, 20, stroke=0, fill=1)
                canvas.setFillColor("black")
            row(canvas, 700 - 20 * number, cells, XS)

    assert tables(draw) == [["| Ship | Cargo | Worth |", "| --- | --- | --- |", *AS_MARKDOWN]]


def test_numbers_that_end_at_the_same_place_are_a_column(tables: Tables) -> None:
    def draw(canvas: Canvas) -> None:
        write(canvas, lines_of(PROSE, 70))
        for number, cells in enumerate(ROWS):
            row(canvas, 500 - 16 * number, cells, XS)

    assert tables(draw) == [[AS_MARKDOWN[0], "| --- | --- | --- |", *AS_MARKDOWN[1:]]]


def test_a_row_of_more_than_one_line_is_one_row(tables: Tables) -> None:
    def draw(canvas: Canvas) -> None:
        y = 700.0
        for name, text in [("Anna", PROSE), ("Bertha", PROSE.upper()), ("Clara", PROSE)]:
            canvas.line(72, y + 14, 420, y + 14)
            write(canvas, [name], x=80, y=y, size=10)
            y = write(canvas, lines_of(text, 40)[:3], x=180, y=y, size=10) - 16
        canvas.line(72, y + 14, 420, y + 14)

    [table] = tables(draw)
    assert [line.split(" | ")[0] for line in table] == ["| Anna", "| ---", "| Bertha", "| Clara"]


def test_a_cell_over_two_columns_is_the_first_of_them(tables: Tables) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 10)
        for y in (700, 680, 660, 640):
            canvas.line(72, y, 372, y)
        for x in (72, 172, 372):
            canvas.line(x, 640, x, 700)
        canvas.line(272, 640, 272, 680)
        for x, y, text in [(76, 686, "Ship"), (230, 686, "Cargo and worth"), (76, 666, "Anna"),
                           (176, 666, "salt"), (276, 666, "12"), (76, 646, "Clara"),
                           (176, 646, "tin"), (276, 646, "4")]:  # fmt: skip
            canvas.drawString(x, y, text)

    assert tables(draw) == [
        ["| Ship | Cargo and worth |  |", "| --- | --- | --- |", "| Anna | salt | 12 |",
         "| Clara | tin | 4 |"]
    ]  # fmt: skip


def test_text_between_two_tables_is_in_neither(tables: Tables) -> None:
    def draw(canvas: Canvas) -> None:
        for top in (700, 500):
            for number, cells in enumerate(ROWS):
                canvas.line(72, top + 12 - 18 * number, 350, top + 12 - 18 * number)
                row(canvas, top - 18 * number, cells, XS)
            canvas.line(72, top + 12 - 18 * 4, 350, top + 12 - 18 * 4)
        write(canvas, lines_of(PROSE, 55), y=590, size=10)

    assert tables(draw) == [[AS_MARKDOWN[0], "| --- | --- | --- |", *AS_MARKDOWN[1:]]] * 2


def test_columns_of_text_are_no_table(tables: Tables) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.line(50, 790, 545, 790)
        write(canvas, lines_of(PROSE * 3, 44), x=50, size=10)
        write(canvas, lines_of(PROSE * 3, 44), x=310, size=10)
        canvas.line(50, 60, 545, 60)

    assert tables(draw) == []


def test_items_of_a_list_are_no_table(tables: Tables) -> None:
    def draw(canvas: Canvas) -> None:
        for number in range(5):
            write(canvas, [f"{number + 1}."], x=72, y=700 - 16 * number)
            write(canvas, [PROSE[number * 7 : number * 7 + 30]], x=110, y=700 - 16 * number)

    assert tables(draw) == []


def test_a_frame_around_text_is_no_table(tables: Tables) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.rect(60, 600, 420, 180)
        write(canvas, lines_of(PROSE, 70))

    assert tables(draw) == []


def test_boxes_around_words_are_no_table(tables: Tables) -> None:
    """As web pages draw them around inline code."""

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 11)
        for number, line in enumerate(lines_of(PROSE, 60)):
            x, y = 72.0, 700 - 14 * number
            for index, word in enumerate(line.split()):
                width = canvas.stringWidth(word)
                if index % 3 == 1:
                    canvas.rect(x - 2, y - 3, width + 4, 13)
                canvas.drawString(x, y, word)
                x += width + 6

    assert tables(draw) == []
