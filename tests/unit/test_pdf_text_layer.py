"""The text layer of a page: in reading order, as Markdown, or unusable."""

from collections.abc import Callable
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from secretary.documents.pages import PageReading
from secretary.documents.pdf.pages import FontStats, read_page
from secretary.documents.pdf.pdfium import open_page, open_pdf

from ..pdf_files import PROSE, Draw, lines_of, pdf_of, picture, table, write

Read = Callable[..., PageReading]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(*pages: Draw, number: int = 1, size: tuple[float, float] = (595, 842)) -> PageReading:
        path = tmp_path / "a.pdf"
        path.write_bytes(pdf_of(*pages, size=size))
        with open_pdf(str(path)) as document, open_page(document, number) as page:
            return read_page(page, FontStats(document))

    return read


def words(text: str) -> list[str]:
    return text.split()


def test_lines_of_a_paragraph_are_put_together(read: Read) -> None:
    page = read(lambda canvas: write(canvas, lines_of(PROSE, 60)))
    assert page.text == page.markdown == PROSE.strip()
    assert page.fault is None


def test_a_gap_between_lines_parts_paragraphs(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE, 70))
        write(canvas, lines_of("Another one begins here. " + PROSE, 70), y=y - 10)

    assert [block[:11] for block in read(draw).markdown.split("\n\n")] == [
        "The harbour",
        "Another one",
    ]


def test_columns_are_read_one_after_the_other(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        write(canvas, ["A title over both of the two columns"], size=20, y=790)
        left, right = lines_of(PROSE, 42), lines_of(PROSE.upper(), 36)
        # Drawn line by line across both columns, as some programs do.
        for number in range(max(len(left), len(right))):
            y = 740 - 13 * number
            write(canvas, left[number : number + 1], x=50, y=y, size=10)
            write(canvas, right[number : number + 1], x=310, y=y, size=10)

    assert words(read(draw).text) == words(
        f"A title over both of the two columns {PROSE} {PROSE.upper()}"
    )


def test_text_drawn_out_of_order_is_put_in_order(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        lines = list(enumerate(lines_of(PROSE, 50)))
        for number, line in [*lines[1::2], *lines[::2]]:
            write(canvas, [line], y=700 - 14 * number)

    assert words(read(draw).text) == words(PROSE)


def test_text_drawn_letter_by_letter_keeps_its_words(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 11)
        for number, line in enumerate(lines_of(PROSE, 60)):
            x = 72.0
            for letter in line:
                if letter != " ":
                    canvas.drawString(x, 700 - 14 * number, letter)
                x += canvas.stringWidth(letter)

    assert words(read(draw).text) == words(PROSE)


@pytest.mark.parametrize("angle", [90, 180, 270])
def test_a_rotated_page_is_read_as_it_is_seen(read: Read, angle: int) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setPageRotation(angle)
        # As displayed: rotated back, so that the text is upright.
        canvas.translate(*{90: (595, 0), 180: (595, 842), 270: (0, 842)}[angle])
        canvas.rotate(angle)
        write(canvas, ["A heading"], size=22, y=500)
        write(canvas, lines_of(PROSE, 60), y=450)
        write(canvas, lines_of(PROSE, 60), y=300)

    assert read(draw).markdown == f"# A heading\n\n{PROSE.strip()}\n\n{PROSE.strip()}"


@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        ("It is of great impor-", "tance to us all", "It is of great importance to us all"),
        ("They are well-", "known in the town", "They are well-known in the town"),
        ("He came from Baden-", "Baden by train", "He came from Baden-Baden by train"),
    ],
)
def test_words_cut_at_the_end_of_a_line_are_whole_again(
    read: Read, before: str, after: str, whole: str
) -> None:
    assert whole in read(lambda canvas: write(canvas, [before, after, *lines_of(PROSE, 60)])).text


def test_larger_lines_are_headings_by_their_sizes(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = 780.0
        for text, size in [("The title", 24), ("A chapter", 17), ("A section", 13)]:
            write(canvas, [text], size=size, y=y)
            y = write(canvas, lines_of(PROSE, 70), y=y - 26) - 30

    headings = [line for line in read(draw).markdown.splitlines() if line.startswith("#")]
    assert headings == ["# The title", "## A chapter", "### A section"]


def test_levels_of_headings_are_those_of_the_whole_document(read: Read) -> None:
    def first(canvas: Canvas) -> None:
        write(canvas, ["The title"], size=24, y=780)
        write(canvas, lines_of(PROSE * 3, 70))

    def second(canvas: Canvas) -> None:
        write(canvas, ["A chapter"], size=17, y=780)
        write(canvas, lines_of(PROSE * 3, 70))

    assert read(first, second, number=2).markdown.startswith("## A chapter\n")


def test_a_bold_line_of_its_own_is_a_heading(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE, 70))
        y = write(canvas, ["Entries in the ledger"], font="Helvetica-Bold", y=y - 10)
        write(canvas, lines_of(PROSE, 70), y=y - 2)

    assert "## Entries in the ledger\n\nThe harbour" in read(draw).markdown


def test_items_of_lists_are_detected_by_their_markers(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE, 70))
        y = write(canvas, ["\u2022 the first of them", "\u2022 the second of them"], x=84, y=y - 8)
        y = write(canvas, ["\u2022 one below it"], x=104, y=y)
        write(canvas, ["1. count", "2. sum"], x=84, y=y - 8)

    assert read(draw).markdown.endswith(
        "- the first of them\n- the second of them\n  - one below it\n1. count\n2. sum"
    )


CELLS = [["Ship", "Cargo", "Tons"], ["Anna", "salt and rye", "120"], ["Bertha", "tin", "45"],
         ["Clara", "paper", "8"]]  # fmt: skip
AS_MARKDOWN = """\
| Ship | Cargo | Tons |
| --- | --- | --- |
| Anna | salt and rye | 120 |
| Bertha | tin | 45 |
| Clara | paper | 8 |"""


@pytest.mark.parametrize("rules", ["grid", "lines", "none"])
def test_a_table_is_a_table(read: Read, rules: str) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE, 70))
        table(canvas, CELLS, xs=(72, 180, 300, 380), y=y - 10, rules=rules)
        write(canvas, lines_of(PROSE, 70), y=y - 130)

    page = read(draw)
    assert page.markdown == f"{PROSE.strip()}\n\n{AS_MARKDOWN}\n\n{PROSE.strip()}"
    assert "Anna\tsalt and rye\t120" in page.text


def test_lines_of_a_cell_stay_in_it(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        table(
            canvas, [["Ship", "Cargo"], ["Anna", "salt and"]], xs=(72, 180, 300), y=700, height=40
        )
        canvas.drawString(184, 700 - 40 - 26, "rye")

    assert "| Anna | salt and rye |" in read(draw).markdown


def test_letters_of_a_fixed_pitch_are_code(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        y = write(canvas, lines_of(PROSE, 70))
        y = write(canvas, ["def sum(a, b):"], font="Courier", size=10, y=y - 8)
        y = write(canvas, ["return a + b"], font="Courier", size=10, x=72 + 24, y=y)
        write(canvas, lines_of(PROSE, 70), y=y - 8)

    assert "```\ndef sum(a, b):\n    return a + b\n```" in read(draw).markdown


def test_a_page_number_is_text_but_no_markdown(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        write(canvas, lines_of(PROSE * 6, 70))
        write(canvas, ["- 17 -"], x=290, y=30)

    page = read(draw)
    assert page.text.endswith("- 17 -")
    assert "17" not in page.markdown


def test_what_markdown_would_take_for_its_own_is_escaped(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        write(canvas, ["The *old* price of [a] and <b> is 3 * 4", "# no heading"], pitch=4)

    assert read(draw).markdown == (
        "The \\*old\\* price of \\[a\\] and \\<b> is 3 \\* 4\n\n\\# no heading"
    )


def test_a_blank_page_is_of_use(read: Read) -> None:
    assert read(lambda canvas: None) == PageReading(text="", markdown="")


def test_few_words_are_enough(read: Read) -> None:
    assert read(lambda canvas: write(canvas, ["Part One"])).fault is None


def scan(canvas: Canvas) -> None:
    canvas.drawImage(picture(), 0, 0, 595, 842)


def test_a_picture_without_text_is_no_text(read: Read) -> None:
    assert read(scan).fault == "The page is a picture without text"


def test_a_scan_with_a_stamp_on_it_is_no_text(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        scan(canvas)
        write(canvas, ["Received 4 May 1998"])

    assert read(draw).fault == "The page is a scan with hardly any text"


def test_recognized_text_behind_a_scan_is_detected(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        scan(canvas)
        text = canvas.beginText(72, 700)
        text.setTextRenderMode(3)
        text.setFont("Helvetica", 11)
        text.textLines(lines_of(PROSE, 60))
        canvas.drawText(text)

    page = read(draw)
    assert page.fault == "The page is a scan, with recognised text behind it"
    assert words(page.text) == words(PROSE)


def test_a_picture_as_background_does_no_harm(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        scan(canvas)
        write(canvas, lines_of(PROSE, 60))

    assert read(draw).fault is None


def test_shifted_letters_are_garbage(read: Read) -> None:
    shifted = "".join(chr(ord(letter) - 29) if letter > "A" else letter for letter in PROSE)
    page = read(lambda canvas: write(canvas, lines_of(shifted, 60)))
    assert page.fault is not None
    assert page.fault.startswith("The text of the page is garbage")


def test_letters_drawn_as_shapes_are_no_text(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        for number in range(200):
            canvas.circle(72 + 9 * (number % 40), 700 - 20 * (number // 40), 3)

    assert read(draw).fault == "The page has no text"


def test_a_few_strokes_are_nothing_to_read(read: Read) -> None:
    assert read(lambda canvas: canvas.line(72, 72, 500, 72)).fault is None


def test_what_is_filled_into_a_form_is_read(read: Read) -> None:
    def draw(canvas: Canvas) -> None:
        write(canvas, ["Name:"])
        canvas.acroForm.textfield(name="name", value="Ada Lovelace", x=140, y=752, width=200)

    assert "Ada Lovelace" in read(draw).text
