"""Plain pages, read without looking at their letters.

Where each line is drawn by one operator, one below the other, the operators say all there is to
know: that is most pages of books and reports, at a tenth of the price of the analysis."""

import ctypes
from collections.abc import Sequence
from itertools import pairwise, repeat
from operator import le, sub
from struct import unpack_from
from typing import NamedTuple

from .. import pdfium
from ..text_layer import TextLayer
from .blocks import BULLETS, Block, Kind, item_mark
from .columns import MARGIN, PAGE_NUMBER
from .drawings import Box
from .rows import RIGHT_TO_LEFT, Line
from .runs import WIDE, font_traits, joined_lines

FEWEST_LINES, MOST_LINES = 6, 200
#: Ems that lines of one column are set in, at most.
INDENT = 4.0
#: Of the lines: fewer are set like the body, and the page has more to it.
BODY = 0.7
#: Lines that are measured, to see whether they have holes.
LOOKS = 8
#: Lines that end with a number, at most: more are a table or its like.
MOST_NUMBERS = 4
#: How an item of a list may begin.
MARKS = frozenset(BULLETS + "-\u2013\u2014*(")
#: What follows its number or letter.
AFTER_NUMBER = frozenset(".)")


class Look(NamedTuple):
    size: float
    bold: bool
    italic: bool


class Lines(NamedTuple):
    """From the top down; all but `looks` have an entry for each line."""

    texts: list[str]
    xs: Sequence[float]
    ys: Sequence[float]
    #: What it looks like, by its place in `looks`.
    kinds: list[int]
    looks: list[Look]


def plain_blocks(page: int, layer: TextLayer, box: Box) -> list[Block] | None:
    """None: the page is not plain enough."""
    texts, cuts = _texts(layer.text)
    count = len(texts)
    if not FEWEST_LINES <= count <= MOST_LINES or pdfium.count_objects(page) != count:
        return None
    if not _is_plain(layer.text, texts):
        return None
    addresses = list(map(pdfium.get_object, repeat(page), range(count)))
    lines = _lines(texts, addresses)
    if lines is None or not _without_holes(lines, addresses):
        return None
    body = max(set(lines.kinds), key=lines.kinds.count)
    # The first and the last may be a running head or the number of the page.
    inner = zip(lines.xs[1:-1], lines.kinds[1:-1], strict=True)
    lefts = [x for x, kind in inner if kind == body]
    size = lines.looks[body].size
    if len(lefts) < BODY * (count - 2) or max(lefts) > min(lefts) + INDENT * size:
        return None
    starts = _breaks(lines, cuts, size)
    blocks = [_block(lines, cuts, *ends) for ends in pairwise([*starts, count])]
    _number_page(blocks[0], box)
    _number_page(blocks[-1], box)
    return blocks


def _texts(text: str) -> tuple[list[str], set[int]]:
    """The lines, and the numbers of those whose last word goes on in the next."""
    if "\ufffe" not in text:
        return [line for part in text.split("\r\n") if (line := part.strip())], set()
    parts = text.replace("\ufffe", "\ufffe\r\n").split("\r\n")
    lines = [line for part in parts if (line := part.strip())]
    cuts = {number for number, line in enumerate(lines) if line[-1] == "\ufffe"}
    return [line.rstrip("\ufffe") or "-" for line in lines], cuts


def _is_plain(text: str, lines: Sequence[str]) -> bool:
    if "\t" in text or sum([line[-1].isdigit() for line in lines]) > MOST_NUMBERS:
        return False
    if not text.isascii() and RIGHT_TO_LEFT.search(text):
        return False
    marked = [line for line in lines if line[0] in MARKS]
    # All at once, for speed: among so many lines numbers are rare.
    if not AFTER_NUMBER.isdisjoint("".join([line[1:4] for line in lines])):
        marked += [line for line in lines if not AFTER_NUMBER.isdisjoint(line[1:4])]
    return not marked or all(item_mark(line) is None for line in marked)


def _lines(texts: list[str], addresses: Sequence[int]) -> Lines | None:
    """None, unless they stand upright below each other."""
    count = len(addresses)
    room = pdfium.floats(7 * count)
    base = ctypes.addressof(room)
    middle = base + 24 * count
    if not all(map(pdfium.text_size, addresses, range(middle, middle + 4 * count, 4))):
        # Something else than text is drawn as well.
        return None
    all(map(pdfium.object_matrix, addresses, range(base, base + 24 * count, 24)))
    numbers = unpack_from(f"{7 * count}f", room)
    end = 6 * count
    xs, ys, scales = numbers[4:end:6], numbers[5:end:6], numbers[3:end:6]
    turned = any(numbers[1:end:6]) or any(numbers[2:end:6]) or min(numbers[0:end:6]) <= 0
    if turned or min(scales) <= 0 or any(map(le, ys, ys[1:])):
        return None
    fonts = map(pdfium.text_font, addresses)
    drawn = list(zip(fonts, numbers[end:], scales, strict=True))
    kinds: dict[tuple[int, float, float], int] = {}
    looks: list[Look] = []
    for one in set(drawn):
        look = _look(*one)
        if look is None:
            return None
        if look not in looks:
            looks.append(look)
        kinds[one] = looks.index(look)
    return Lines(texts, xs, ys, [kinds[one] for one in drawn], looks)


def _look(font: int, size: float, scale: float) -> Look | None:
    bold, italic, mono, _ = font_traits(font)
    return None if mono else Look(round(size * scale, 1), bold, italic)


def _without_holes(lines: Lines, addresses: Sequence[int]) -> bool:
    """A look at some of the lines: a table has more rows than one."""
    sides = pdfium.floats(4)
    base = ctypes.addressof(sides)
    for number in range(0, len(addresses), max(len(addresses) // LOOKS, 3)):
        text, size = lines.texts[number], lines.looks[lines.kinds[number]].size
        pdfium.object_bounds(addresses[number], base, base + 4, base + 8, base + 12)
        if (sides[2] - sides[0] > WIDE * size * len(text) and " " in text) or "   " in text:
            return False
    return True


def _breaks(lines: Lines, cuts: set[int], size: float) -> list[int]:
    """The numbers of the lines that begin a paragraph."""
    texts, xs, ys, kinds, _ = lines
    steps = list(map(sub, ys, ys[1:]))
    # Most steps are from line to line, not from paragraph to paragraph.
    widest = sorted(steps)[len(steps) // 3] * 1.25 + 0.12 * size
    full = 0.8 * max(map(len, texts))
    em = 0.8 * size
    found = [0]
    for number, step in enumerate(steps):
        after = number + 1
        if (
            step > widest
            or kinds[number] != kinds[after]
            or xs[after] - xs[number] > em
            or (len(texts[number]) < full and _is_end(texts[number], texts[after]))
        ) and (number not in cuts or step > widest):
            found.append(after)
    return found


def _is_end(text: str, after: str) -> bool:
    return text[-1] in ".!?:" and not after[0].islower()


def _block(lines: Lines, cuts: set[int], start: int, end: int) -> Block:
    texts, look = lines.texts[start:end], lines.looks[lines.kinds[start]]
    if any(text[-1] == "-" for text in texts) or not cuts.isdisjoint(range(start, end)):
        text = texts[0]
        for number in range(start + 1, end):
            text = joined_lines(text, lines.texts[number], number - 1 in cuts)
    else:
        text = " ".join(texts)
    x, y = lines.xs[start], lines.ys[start]
    cut = end - 1 in cuts
    whole = Line(text, x, x, y, look.size, look.bold, look.italic, False, cut)
    return Block(Kind.PARAGRAPH, [whole])


def _number_page(block: Block, box: Box) -> None:
    margin = MARGIN * (box.top - box.bottom)
    line = block.lines[0]
    in_text = box.bottom + margin < line.base < box.top - margin
    if not in_text and PAGE_NUMBER.fullmatch(line.text):
        block.kind = Kind.MARGIN
