"""The font sizes in a document."""

from pathlib import Path

from reportlab.pdfgen.canvas import Canvas

from secretary.documents.pdf.layout.headings import FontSizes
from secretary.documents.pdf.pages import FontStats
from secretary.documents.pdf.pdfium import open_pdf

from ..pdf_files import PROSE, Draw, lines_of, pdf_of, write


def scale_of(path: Path, *pages: Draw) -> FontSizes | None:
    path.write_bytes(pdf_of(*pages))
    with open_pdf(str(path)) as document:
        return FontStats(document).font_sizes


def page(*heads: float, body: float = 10, font: str = "Helvetica") -> Draw:
    def draw(canvas: Canvas) -> None:
        y = 780.0
        for size in heads:
            y = write(canvas, ["A heading"], size=size, y=y) - 10
        write(canvas, lines_of(PROSE * 4, 70), size=body, y=y, font=font)

    return draw


def test_the_body_is_what_most_of_the_text_is_set_in(tmp_path: Path) -> None:
    assert scale_of(tmp_path / "a.pdf", page(24, 14), page(14)) == FontSizes(10, (24, 14))


def test_of_the_front_only_the_largest_counts(tmp_path: Path) -> None:
    assert scale_of(tmp_path / "a.pdf", page(30, 20, 18), page(14)) == FontSizes(10, (30, 14))


def test_listings_are_not_the_body(tmp_path: Path) -> None:
    listing = page(body=8, font="Courier")
    assert scale_of(tmp_path / "a.pdf", page(14), listing, listing) == FontSizes(10, (14,))


def test_a_file_that_changed_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    assert scale_of(path, page(24)) == FontSizes(10, (24,))
    assert scale_of(path, page(20, body=12)) == FontSizes(12, (20,))


def test_a_document_without_text_has_none(tmp_path: Path) -> None:
    assert scale_of(tmp_path / "a.pdf", lambda canvas: None) is None
