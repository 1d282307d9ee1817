"""The figures on a page: which images they are, and where they stand in the text."""

from pathlib import Path

from reportlab.pdfgen.canvas import Canvas

from secretary.documents.pdf.figures import MAX_IMAGES, PageFigure, find_figures
from secretary.documents.pdf.pages import FontStats, read_page
from secretary.documents.pdf.pdfium import open_page, open_pdf

from ..pdf_files import PROSE, Draw, lines_of, pdf_of, picture, write

Box = tuple[float, float, float, float]


def images(*boxes: Box) -> Draw:
    """`boxes`: left, bottom, width and height in points."""

    def draw(canvas: Canvas) -> None:
        for box in boxes:
            canvas.drawImage(picture(), *box)

    return draw


def figures_of(tmp_path: Path, draw: Draw) -> list[PageFigure]:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_of(draw))
    with open_pdf(str(path)) as document, open_page(document, 1) as page:
        return find_figures(page, 1)


def markdown_of(tmp_path: Path, draw: Draw) -> tuple[str, str]:
    """The text and the Markdown."""
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_of(draw))
    with open_pdf(str(path)) as document, open_page(document, 1) as page:
        reading = read_page(page, FontStats(document), find_figures(page, 1))
        return reading.text, reading.markdown


def boxes_of(figures: list[PageFigure]) -> list[tuple[int, ...]]:
    return [tuple(round(side) for side in figure.box) for figure in figures]


def test_figures_are_numbered_from_top_to_bottom(tmp_path: Path) -> None:
    found = figures_of(tmp_path, images((100, 100, 80, 50), (100, 500, 80, 50)))
    assert [figure.file for figure in found] == ["figure_001_0.jpeg", "figure_001_1.jpeg"]
    assert boxes_of(found) == [(100, 500, 180, 550), (100, 100, 180, 150)]


def test_tiles_that_touch_are_one_figure(tmp_path: Path) -> None:
    tiles = [(100.0 + 50 * x, 300.0 + 40 * y, 50.0, 40.0) for x in range(3) for y in range(3)]
    assert boxes_of(figures_of(tmp_path, images(*tiles))) == [(100, 300, 250, 420)]


def test_icons_and_lines_are_no_figures(tmp_path: Path) -> None:
    found = figures_of(tmp_path, images((100, 500, 10, 10), (100, 300, 300, 5)))
    assert found == []


def test_an_image_is_cut_off_at_the_edge_of_the_page(tmp_path: Path) -> None:
    found = figures_of(tmp_path, images((500, 300, 300, 100), (700, 100, 50, 50)))
    assert boxes_of(found) == [(500, 300, 595, 400)]


def test_the_scan_of_a_page_fills_it(tmp_path: Path) -> None:
    strips = [(0.0, 84.2 * number, 595.0, 84.2) for number in range(10)]
    (scan,) = figures_of(tmp_path, images(*strips))
    assert scan.fills_page
    (photo,) = figures_of(tmp_path, images((72, 300, 400, 300)))
    assert not photo.fills_page


def test_a_page_of_countless_images_is_read_in_time(tmp_path: Path) -> None:
    dots = [(10.0 + 5 * (n % 100), 10.0 + 5 * (n // 100), 1.0, 1.0) for n in range(3 * MAX_IMAGES)]
    assert figures_of(tmp_path, images(*dots)) == []


def test_a_figure_in_a_column_stands_in_the_text_of_that_column(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        write(canvas, lines_of(PROSE * 2, 42), x=50, y=740, size=10)
        write(canvas, lines_of(PROSE.upper(), 36), x=310, y=740, size=10)
        images((310, 480, 200, 120))(canvas)
        write(canvas, lines_of(f"Below it: {PROSE}", 42), x=310, y=450, size=10)

    _, markdown = markdown_of(tmp_path, draw)
    before, _, after = markdown.partition("![figure_001_0.jpeg](figure_001_0.jpeg)")
    assert before.rstrip().endswith("EVERY SPRING.")
    assert after.lstrip().startswith("Below it: The harbour office")


def test_a_figure_above_all_text_comes_first(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        images((72, 700, 200, 100))(canvas)
        write(canvas, lines_of(PROSE, 80), y=650)

    text, markdown = markdown_of(tmp_path, draw)
    assert markdown.startswith("![figure_001_0.jpeg](figure_001_0.jpeg)\n\nThe harbour")
    assert text.startswith("The harbour")


def test_a_page_of_figures_only_has_no_text(tmp_path: Path) -> None:
    text, markdown = markdown_of(tmp_path, images((72, 500, 200, 100), (72, 100, 200, 100)))
    assert text == ""
    assert markdown.splitlines() == [
        "![figure_001_0.jpeg](figure_001_0.jpeg)", "", "![figure_001_1.jpeg](figure_001_1.jpeg)",
    ]  # fmt: skip
