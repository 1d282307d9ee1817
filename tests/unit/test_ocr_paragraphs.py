"""Recognized lines assembled into text and Markdown."""

import re

import pytest

from secretary.documents.ocr.engines import OcrLine, OcrWord, open_engine
from secretary.documents.ocr.recognition import as_markdown, as_text, recognise

from ..rendered_pages import GERMAN, Print, sheet


def lines(*texts: str, pitch: float = 30, height: float = 15, block: int = 1) -> list[OcrLine]:
    """Below each other; an empty one leaves a gap, a `#` makes one high."""
    ocr_lines = []
    for index, text in enumerate(texts):
        baseline = 100 + index * pitch
        high = text.startswith("# ")
        text = text.removeprefix("# ")
        box = (100, int(baseline - height), 100 + 10 * len(text), int(baseline + 4))
        if text:
            ocr_lines.append(
                OcrLine(
                    text=text,
                    words=words(text),
                    confidence=95,
                    box=box,
                    baseline=baseline,
                    height=height * (1.5 if high else 1),
                    block=block,
                )
            )
    return ocr_lines


def words(text: str, left: int = 100) -> tuple[OcrWord, ...]:
    """Each letter and each space is ten pixels wide."""
    return tuple(
        OcrWord(match[0], left + 10 * match.start(), left + 10 * match.end())
        for match in re.finditer(r"\S+", text)
    )


def test_text_keeps_its_lines_and_markdown_joins_them() -> None:
    page = lines("The first paragraph has", "two lines that belong", "", "The second has one.")
    assert as_text(page) == (
        "The first paragraph has\ntwo lines that belong\n\nThe second has one."
    )
    assert as_markdown(page) == (
        "The first paragraph has two lines that belong\n\nThe second has one."
    )


def test_a_short_line_with_a_full_stop_ends_its_paragraph() -> None:
    texts = ["Here begins a paragraph that", "ends soon.", "And here is the following", "one."]
    page = lines(*texts)
    assert as_markdown(page).split("\n\n") == [
        "Here begins a paragraph that ends soon.",
        "And here is the following one.",
    ]


def test_blocks_are_separate_paragraphs() -> None:
    assert as_text(lines("left") + lines("right", block=2)) == "left\n\nright"


@pytest.mark.parametrize(
    ("above", "below", "joined"),
    [
        ("die Bundes-", "regierung tagt", "die Bundesregierung tagt"),
        ("der Ein-", "und Ausgang", "der Ein- und Ausgang"),
        ("die CDU-", "Fraktion sagt", "die CDU-Fraktion sagt"),
        ("Seiten 10-", "20 sind neu", "Seiten 10-20 sind neu"),
        ("a break -", "and then more", "a break - and then more"),
    ],
)
def test_hyphenated_words_are_joined(above: str, below: str, joined: str) -> None:
    assert as_markdown(lines(above, below)) == joined


def test_large_lines_are_headings() -> None:
    page = lines("# Minutes", "Ordinary text follows here, and there is", "more of it below.")
    assert as_markdown(page) == (
        "## Minutes\n\nOrdinary text follows here, and there is more of it below."
    )


def test_a_page_in_one_size_has_no_headings() -> None:
    assert "#" not in as_markdown(lines("All of this", "is of the same size"))


@pytest.mark.parametrize(
    ("texts", "markdown"),
    [
        (["• apples", "• pears and", "plums"], "- apples\n- pears and plums"),
        (["1. first", "2. second"], "1. first\n2. second"),
        (["a) first", "b) second"], "a) first\nb) second"),
        (["e Apples", "e Pears"], "- Apples\n- Pears"),
        (["- one"], "- one"),
        (["e Apples are read as they are"], "e Apples are read as they are"),
        (["We met on the", "14. March was a Saturday"], "We met on the 14. March was a Saturday"),
    ],
)
def test_bullets_become_a_list(texts: list[str], markdown: str) -> None:
    assert as_markdown(lines(*texts)) == markdown


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("# of items", "\\# of items"),
        ("2 * 3 = 6", "2 \\* 3 = 6"),
        ("<script>", "\\<script>"),
        ("a < b", "a < b"),
        ("snake_case", "snake_case"),
        ("> quoted", "\\> quoted"),
    ],
)
def test_text_that_looks_like_markup_is_escaped(text: str, markdown: str) -> None:
    only = OcrLine(
        text=text, words=(), confidence=95, box=(1, 1, 9, 9), baseline=9, height=15, block=1
    )
    assert as_markdown([only]) == markdown


def test_rows_with_aligned_gaps_are_a_table() -> None:
    page = lines(
        "The following was delivered:",
        "",
        "Item         Pieces",
        "Screws       200",
        "A|B          1",
        "Total        201",
        "",
        "With kind regards",
    )
    assert as_markdown(page) == (
        "The following was delivered:\n\n"
        "| Item | Pieces |\n| --- | --- |\n| Screws | 200 |\n| A\\|B | 1 |\n| Total | 201 |\n\n"
        "With kind regards"
    )


@pytest.mark.parametrize(
    "texts",
    [
        # The gaps are at different positions.
        ["this is      spaced out", "and so is that        line", "as       is the third of them"],
        # Two rows are not enough to tell.
        ["Name:        Miller", "Place:       Berlin"],
        # A list, far from its numbers.
        ["1.       apples", "2.       pears", "3.       plums"],
    ],
)
def test_unaligned_gaps_are_not_a_table(texts: list[str]) -> None:
    assert "|" not in as_markdown(lines(*texts))


def test_no_lines_give_no_text() -> None:
    assert (as_text([]), as_markdown([])) == ("", "")


def test_a_printed_table_is_detected() -> None:
    rows = [
        ["Artikel", "Menge", "Preis"],
        ["Schrauben", "200", "0,05 Euro"],
        ["Muttern", "150", "0,04 Euro"],
        ["Dübel 8 mm", "50", "0,10 Euro"],
    ]
    prints = [
        Print(x, 60 + 18 * i, cell)
        for i, row in enumerate(rows)
        for x, cell in zip((50, 200, 300), row, strict=True)
    ]
    picture = sheet(prints, height=160, dpi=200)
    recognised = recognise(picture, engine=open_engine(), languages="deu", dpi=200)
    assert recognised.text.splitlines()[1] == "Schrauben 200 0,05 Euro"
    assert recognised.markdown.splitlines() == [
        "| Artikel | Menge | Preis |",
        "| --- | --- | --- |",
        "| Schrauben | 200 | 0,05 Euro |",
        "| Muttern | 150 | 0,04 Euro |",
        "| Dübel 8 mm | 50 | 0,10 Euro |",
    ]


def test_the_structure_of_a_printed_page_is_recovered() -> None:
    body = [*GERMAN[:3], "", *GERMAN[3:]]
    prints = [Print(50, 70, "Protokoll der Sitzung", 22, "Helvetica-Bold")]
    prints += [Print(50, 110 + 15 * i, line) for i, line in enumerate(body) if line]
    prints.append(Print(50, 260, "Beschlüsse", 15, "Helvetica-Bold"))
    items = ["Das Dach wird ausgebessert", "Die Bücher werden verliehen", "Das Fest findet statt"]
    prints += [Print(50, 285 + 15 * i, f"{i + 1}. {item}") for i, item in enumerate(items)]
    picture = sheet(prints, height=360, dpi=200)
    recognised = recognise(picture, engine=open_engine(), languages="deu", dpi=200)
    assert recognised.markdown == (
        "# Protokoll der Sitzung\n\n"
        f"{' '.join(GERMAN[:3])}\n\n"
        f"{' '.join(GERMAN[3:])}\n\n"
        "## Beschlüsse\n\n"
        "1. Das Dach wird ausgebessert\n"
        "2. Die Bücher werden verliehen\n"
        "3. Das Fest findet statt"
    )
