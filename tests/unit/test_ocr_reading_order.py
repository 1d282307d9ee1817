"""Pieces of text put into reading order, whatever order the engine returns."""

import math
import random

from secretary.documents.ocr.rapidocr import Point, TextBox, in_reading_order

HEIGHT = 20.0


def piece(text: str, x: float, y: float, *, height: float = HEIGHT) -> TextBox:
    """Ten pixels for each letter, as wide as its text."""
    width = 10.0 * len(text)
    corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    return TextBox(text, 90.0, corners, ((text, 0.0, 1.0),))


def column(name: str, x: float, *, count: int, y: float = 0, pitch: float = 28) -> list[TextBox]:
    return [piece(f"{name} line number {i:02d} of it", x, y + pitch * i) for i in range(count)]


def turned(pieces: list[TextBox], degrees: float) -> list[TextBox]:
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))

    def point(origin: Point) -> Point:
        x, y = origin
        return x * cosine - y * sine, x * sine + y * cosine

    return [
        TextBox(
            piece.text,
            piece.confidence,
            (
                point(piece.corners[0]),
                point(piece.corners[1]),
                point(piece.corners[2]),
                point(piece.corners[3]),
            ),
            piece.words,
        )
        for piece in pieces
    ]


def read(pieces: list[TextBox]) -> list[str]:
    """In whatever order they are found."""
    shuffled = pieces[:]
    random.Random(4).shuffle(shuffled)
    return [line.text for line in in_reading_order(shuffled)]


def texts(pieces: list[TextBox]) -> list[str]:
    return [piece.text for piece in pieces]


def test_no_boxes_give_no_lines() -> None:
    assert in_reading_order([]) == []


def test_columns_are_read_one_after_the_other() -> None:
    left, right = column("left", 0, count=8), column("right", 280, count=9, y=9, pitch=25)
    assert read(left + right) == texts(left + right)


def test_three_columns_are_read_one_after_the_other() -> None:
    columns = [column(name, 300.0 * i, count=6, y=3.0 * i) for i, name in enumerate("abc")]
    assert read([line for one in columns for line in one]) == [
        text for one in columns for text in texts(one)
    ]


def test_text_above_and_below_columns_is_read_before_and_after() -> None:
    above = [piece("A heading across both of the columns below it", 60, 0)]
    left, right = column("left", 0, count=5, y=60), column("right", 300, count=5, y=60)
    below = column("what comes after the two columns, across them,", 0, count=3, y=300)
    assert read(above + left + right + below) == texts(above + left + right + below)


def test_columns_are_separate_blocks() -> None:
    left, right = column("left", 0, count=4), column("right", 300, count=4)
    assert [line.block for line in in_reading_order(left + right)] == [1] * 4 + [2] * 4


def test_table_cells_stay_in_their_row() -> None:
    rows = [("Screws", "120", "4.50"), ("Nails", "80", "2.20"), ("Dowels", "60", "3.10")]
    cells = [
        piece(text, 200.0 * index, 30.0 * number + index)
        for number, row in enumerate(rows)
        for index, text in enumerate(row)
    ]
    assert read(cells) == ["Screws 120 4.50", "Nails 80 2.20", "Dowels 60 3.10"]


def test_words_have_positions() -> None:
    corners = ((100.0, 0.0), (300.0, 0.0), (300.0, 20.0), (100.0, 20.0))
    words = (("one", 0.0, 0.25), ("two", 0.5, 0.75))
    (line,) = in_reading_order([TextBox("one two", 80.0, corners, words)])
    assert line.words == (("one", 100, 150), ("two", 200, 250))
    assert line.box == (100, 0, 300, 20)


def test_skewed_lines_are_deskewed() -> None:
    left, right = column("left", 0, count=6), column("right", 300, count=6)
    for degrees in (-30, -8, 8, 30, 90):
        assert read(turned(left + right, degrees)) == texts(left + right)


def test_the_confidence_of_a_line_is_weighted_by_letters() -> None:
    sure, unsure = piece("surely", 0, 0), piece("no", 100, 0)
    unsure = TextBox(unsure.text, 50.0, unsure.corners, unsure.words)
    (line,) = in_reading_order([sure, unsure])
    assert line.confidence == 80
