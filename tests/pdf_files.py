"""PDFs as real programs write them, generated here."""

import io
from collections.abc import Callable, Iterable, Sequence

from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

A4 = (595.0, 842.0)
PROSE = (
    "The harbour office keeps a ledger of every ship that came in, what it carried and who paid. "
    "Most of the entries are short, and some of them were written by candlelight. Nobody has "
    "counted them since the fire, although the council asks for the number every spring. "
)

Draw = Callable[[Canvas], object]


def pdf_of(*pages: Draw, size: tuple[float, float] = A4) -> bytes:
    """Each page is drawn by a function."""
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=size, invariant=True)
    for draw in pages:
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def lines_of(text: str, width: int) -> list[str]:
    """Broken at spaces, with at most this many characters per line."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def write(
    canvas: Canvas, lines: Iterable[str], *, x: float = 72, y: float = 760, size: float = 11,
    font: str = "Helvetica", pitch: float = 1.2,
) -> float:  # fmt: skip
    """One line below the other; returns the position of the next."""
    canvas.setFont(font, size)
    for line in lines:
        canvas.drawString(x, y, line)
        y -= pitch * size
    return y


def table(
    canvas: Canvas, cells: Sequence[Sequence[str]], *, xs: Sequence[float], y: float,
    height: float = 20, rules: str = "grid",
) -> None:  # fmt: skip
    """`xs`: the edges of its columns; `rules`: grid, lines or none."""
    canvas.setFont("Helvetica", 10)
    for number, row in enumerate(cells):
        for x, text in zip(xs, row, strict=False):
            canvas.drawString(x + 4, y - number * height - 14, text)
    bottom = y - len(cells) * height
    if rules == "grid":
        canvas.grid(list(xs), [y - n * height for n in range(len(cells) + 1)])
    elif rules == "lines":
        for edge in (y, y - height, bottom):
            canvas.line(xs[0], edge, xs[-1], edge)


def picture(width: int = 40, height: int = 56) -> ImageReader:
    return ImageReader(Image.new("RGB", (width, height), "lightgrey"))
