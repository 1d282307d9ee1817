"""Plain pages: the fast path gives the same result as the layout analysis."""

from collections.abc import Callable
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from secretary.documents.pdf import pdfium
from secretary.documents.pdf.layout.analysis import analyse_page
from secretary.documents.pdf.layout.blocks import to_markdown
from secretary.documents.pdf.layout.drawings import Box
from secretary.documents.pdf.layout.plain_pages import read_plain_page
from secretary.documents.pdf.pdfium import open_page, open_pdf, open_text_layer

from ..pdf_files import PROSE, lines_of, pdf_of, write


def both(tmp_path: Path, draw: Callable[[Canvas], object]) -> tuple[str | None, str]:
    """Read by the fast path, and by the layout analysis."""
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_of(draw))
    with (
        open_pdf(str(path)) as document,
        open_page(document, 1) as page,
        open_text_layer(page) as layer,
    ):
        box = Box(*page.get_bbox())
        blocks = read_plain_page(pdfium.handle(page), layer, box)
        # A tagged file never takes the fast path.
        analysed = analyse_page(pdfium.handle(page), layer, box, tagged=True)
        return None if blocks is None else to_markdown(blocks), to_markdown(analysed.blocks)


def paragraphs(canvas: Canvas) -> None:
    y = write(canvas, lines_of(PROSE, 70))
    y = write(canvas, lines_of(PROSE, 70), y=y - 9)
    write(canvas, ["3"], x=290, y=30)


def indented(canvas: Canvas) -> None:
    y = 760.0
    for _ in range(3):
        first, *others = lines_of(PROSE, 70)
        y = write(canvas, [first], x=90, y=y)
        y = write(canvas, others, y=y)


def headed(canvas: Canvas) -> None:
    write(canvas, ["A heading"], size=18, y=790)
    write(canvas, lines_of(PROSE * 3, 70))


def hyphenated(canvas: Canvas) -> None:
    write(canvas, ["It is of great impor-", "tance to us", *lines_of(PROSE * 2, 70)])


@pytest.mark.parametrize("draw", [paragraphs, indented, headed, hyphenated])
def test_a_plain_page_is_read_the_same_either_way(
    tmp_path: Path, draw: Callable[[Canvas], None]
) -> None:
    quick, analysed = both(tmp_path, draw)
    assert quick == analysed


def listed(canvas: Canvas) -> None:
    write(canvas, [*lines_of(PROSE * 2, 70), "1. one", "2. two", "3. three"])


def in_columns(canvas: Canvas) -> None:
    write(canvas, lines_of(PROSE, 40), x=50)
    write(canvas, lines_of(PROSE, 40), x=320)


def with_a_line(canvas: Canvas) -> None:
    paragraphs(canvas)
    canvas.line(72, 400, 300, 400)


def in_cells(canvas: Canvas) -> None:
    for number in range(12):
        write(canvas, [f"{word} {number}" for word in ("a", "b")], y=700 - 40 * number)
        write(canvas, ["12"], x=300, y=700 - 40 * number)


@pytest.mark.parametrize("draw", [listed, in_columns, with_a_line, in_cells])
def test_a_page_with_more_to_it_is_left_to_the_analysis(
    tmp_path: Path, draw: Callable[[Canvas], None]
) -> None:
    assert both(tmp_path, draw)[0] is None
