"""Words that stand close together: PDFium leaves out spaces between what is drawn apart."""

import ctypes
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .. import pdfium
from ..text_layer import TextLayer

#: Of the height of a letter with its room: wider than any kerning, narrower than any space.
SPACE = 0.13
#: Characters of the parts on the average, at least: letters that are set apart make one word.
LETTERS = 2
LONGEST = 100

Word = tuple[int, int]


def parted_words(
    layer: TextLayer, words: Sequence[Word], drawers: Sequence[int | None]
) -> Iterator[tuple[int, int, int | None]]:
    """The words of a line, from where to where, and what draws them."""
    for number, ((start, end), drawer) in enumerate(zip(words, drawers, strict=True)):
        whole = number + 1 < len(words) and drawers[number + 1] == drawer
        if whole or end - start > LONGEST or _drawer(layer, end - 1) == drawer:
            yield start, end, drawer
        else:
            for first, last in _parts(layer, start, end):
                yield first, last, _drawer(layer, first)


def _drawer(layer: TextLayer, index: int) -> int | None:
    drawer: int | None = pdfium.char_object(layer.handle, layer.places([index])[0])
    return drawer


def _parts(layer: TextLayer, start: int, end: int) -> list[Word]:
    drawers = [_drawer(layer, index) for index in range(start, end)]
    edges = [
        start + number + 1
        for number, (before, after) in enumerate(pairwise(drawers))
        if before != after
    ]
    if LETTERS * (len(edges) + 1) > end - start:
        return [(start, end)]
    cuts = [start, *(edge for edge in edges if _is_space(layer, edge)), end]
    return list(pairwise(cuts))


def _is_space(layer: TextLayer, edge: int) -> bool:
    """Whether the letters before and behind it stand apart, whichever way they are turned."""
    (left, top, right, bottom), (left_b, top_b, right_b, bottom_b) = (
        _box(layer, index) for index in (edge - 1, edge)
    )
    across = max(left_b - right, left - right_b)
    along = max(bottom_b - top, bottom - top_b)
    if across >= along:
        return across > SPACE * min(top - bottom, top_b - bottom_b)
    return along > SPACE * min(right - left, right_b - left_b)


def _box(layer: TextLayer, index: int) -> tuple[float, float, float, float]:
    sides = pdfium.floats(4)
    pdfium.char_box(layer.handle, layer.places([index])[0], ctypes.addressof(sides))
    left, top, right, bottom = sides[:4]
    return left, top, right, bottom
