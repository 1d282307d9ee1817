"""How text is set: size, weight, slant, direction."""

import ctypes
import re
from functools import lru_cache
from math import atan2, hypot, isfinite, pi
from typing import NamedTuple

from .. import pdfium

#: Points; nothing farther away is on any page.
FAR = 1e5
BOLD = re.compile(
    "bold|black|heavy|demi|fett|medi(?!um)|(?:cm|sf|ec|cmss|lm)bx|[- ]bd", re.IGNORECASE
)
ITALIC = re.compile("italic|oblique|kursiv|cmti|cmsl", re.IGNORECASE)
MONO = re.compile(
    "mono(?!type)|monl|courier|consol|typewriter|(?:cm|sf|ec|lm|tx)(?:sl|it|v)?tt|menlo|fixed",
    re.IGNORECASE,
)
FIXED_PITCH, ITALIC_FLAG, FORCE_BOLD = 1 << 0, 1 << 6, 1 << 18
BOLD_WEIGHT = 700


class Style(NamedTuple):
    size: float
    bold: bool
    italic: bool
    mono: bool
    hidden: bool


class Drawn(NamedTuple):
    """A piece of text as one operator draws it."""

    style: Style
    #: Of the strokes, as its font says; 0 if it does not.
    weight: int
    #: Quarter turns against the clock.
    quarter: int
    x: float
    y: float
    mark: int


def drawn_texts(
    handle: int, addresses: list[int | None], places: list[int]
) -> dict[int | None, Drawn]:
    fonts: dict[int | None, tuple[bool, bool, bool, int]] = {}
    found: dict[int | None, Drawn] = {
        None: Drawn(Style(1.0, False, False, False, False), 0, 0, 0.0, 0.0, -1)
    }
    origin, matrix, size = pdfium.doubles(2), pdfium.floats(6), pdfium.floats(1)
    to_x, to_matrix, to_size = map(ctypes.addressof, (origin, matrix, size))
    for address, place in zip(addresses, places, strict=True):
        if address in found:
            continue
        pdfium.char_origin(handle, place, to_x, to_x + 8)
        pdfium.object_matrix(address, to_matrix)
        pdfium.text_size(address, to_size)
        font = pdfium.text_font(address)
        if font not in fonts:
            fonts[font] = font_traits(font)
        a, b, c, d, _, _ = matrix
        height = size[0] * (d if c == 0 and d > 0 else hypot(c, d) or 1.0)
        height = abs(round(near(height), 1)) or 1.0
        hidden = pdfium.text_mode(address) == pdfium.INVISIBLE
        x, y = origin
        bold, italic, mono, weight = fonts[font]
        style = Style(height, bold, italic, mono, hidden)
        mark = pdfium.object_mark(address)
        found[address] = Drawn(style, weight, _quarter(a, b), near(x), near(y), mark)
    return found


def near(number: float) -> float:
    if -FAR < number < FAR:
        return number
    return min(max(number, -FAR), FAR) if number == number else 0.0


def _quarter(a: float, b: float) -> int:
    if (b == 0 and a > 0) or not (isfinite(a) and isfinite(b)):
        return 0
    return round(atan2(b, a) / (pi / 2)) % 4


def font_traits(font: int | None) -> tuple[bool, bool, bool, int]:
    """Bold, italic, of a fixed pitch, and the weight of its strokes."""
    buffer = pdfium.letters(128)
    pdfium.font_name(font, buffer, 128)
    flags = max(pdfium.font_flags(font), 0)
    weight = max(pdfium.font_weight(font), 0)
    bold, italic, mono = _named_traits(buffer.value)
    return (
        bold or bool(flags & FORCE_BOLD) or weight >= BOLD_WEIGHT,
        italic or bool(flags & ITALIC_FLAG),
        mono or bool(flags & FIXED_PITCH),
        weight,
    )


@lru_cache(1_000)
def _named_traits(name: bytes) -> tuple[bool, bool, bool]:
    text = name.decode("utf-8", "ignore")
    return bool(BOLD.search(text)), bool(ITALIC.search(text)), bool(MONO.search(text))
