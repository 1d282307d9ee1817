"""Printed pages as images, rendered from PDFs: the fonts come with the rendering library."""

from collections.abc import Iterable
from typing import NamedTuple

import pypdfium2
from PIL import Image

from .minimal_files import written

ENGLISH = [
    "The committee met on Tuesday to discuss the annual budget and the",
    "plans for the new library. Several members asked whether the costs of",
    "heating could be reduced without closing rooms in winter. The treasurer",
    "replied that a modern boiler would pay for itself within seven years.",
    "Nobody objected to the repair of the roof, which leaks since 1987. The",
    "neighbouring school needs 240 additional books for its youngest pupils;",
    "it was decided to lend them, and to send an invoice of $1,350.75.",
]
GERMAN = [
    "Der Ausschuss tagte am Dienstag, um über den jährlichen Haushalt und",
    "die Pläne für die neue Bücherei zu beraten. Mehrere Mitglieder fragten,",
    "ob sich die Heizkosten senken ließen, ohne im Winter Räume zu schließen.",
    "Ölheizungen müssten ohnehin bis 2030 ersetzt werden, sagte der Kämmerer.",
    "Niemand widersprach der Ausbesserung des Daches. Die Grundschule benötigt",
    "240 zusätzliche Bücher; Äpfel und Süßes gibt es beim nächsten Sommerfest,",
    "und die Rechnung über 1.350,75 Euro geht an den größten Landkreis.",
]


class Print(NamedTuple):
    x: float
    y: float
    text: str
    size: float = 11
    font: str = "Helvetica"


def page(lines: Iterable[str], *, size: float = 11, dpi: float = 150) -> Image.Image:
    """Lines below each other, on a page no higher than they need."""
    lines = list(lines)
    prints = [Print(50, 40 + 1.4 * size * (i + 1), line, size) for i, line in enumerate(lines)]
    return sheet(prints, height=80 + 1.4 * size * len(lines), dpi=dpi)


def sheet(
    prints: Iterable[Print], *, width: float = 480, height: float = 400, dpi: float = 150
) -> Image.Image:
    """Sizes and positions are in points, from the top left corner."""
    with pypdfium2.PdfDocument(_pdf(list(prints), width, height)) as document:
        bitmap = document[0].render(scale=dpi / 72)
        picture: Image.Image = bitmap.to_pil().convert("L")
        return picture


def _pdf(prints: list[Print], width: float, height: float) -> bytes:
    fonts = sorted({item.font for item in prints})
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"]
    names = " ".join(f"/F{index} {5 + index} 0 R" for index in range(len(fonts)))
    objects.append(
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents 4 0 R"
        f" /Resources << /Font << {names} >> >> >>".encode()
    )
    stream = b"\n".join(_shown(item, fonts.index(item.font), height) for item in prints)
    objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    objects += [
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>".encode()
        for font in fonts
    ]
    return written(objects)


def _shown(item: Print, font: int, height: float) -> bytes:
    code = item.text.encode("cp1252").hex()
    return f"BT /F{font} {item.size} Tf {item.x} {height - item.y} Td <{code}> Tj ET".encode()
