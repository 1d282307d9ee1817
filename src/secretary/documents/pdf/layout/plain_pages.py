"""Fast path for plain pages, without looking at single characters.

If each line is drawn by one text object, one below the other, the text objects contain all that is
needed. This is true for most pages of books and reports, and ten times as fast as the analysis."""

import ctypes
from collections.abc import Sequence
from itertools import pairwise, repeat
from operator import le, sub
from struct import unpack_from
from typing import NamedTuple

from .. import pdfium
from ..pdfium import TextLayer
from .blocks import Block, BlockKind
from .drawings import Box
from .rows import BULLETS, MARGIN, PAGE_NUMBER, RIGHT_TO_LEFT, TextLine, parse_list_marker
from .runs import MAX_CHAR_WIDTH, font_traits, join_lines

MIN_LINES, MAX_LINES = 6, 200
#: Ems by which lines of one column may be indented.
MAX_INDENT = 4.0
#: Share of the lines that must have the style of the body text.
MIN_BODY_SHARE = 0.7
#: How many lines are measured to check for gaps.
SAMPLED_LINES = 8
#: How many lines may end with a number; more of them indicate a table.
MAX_NUMBERED_LINES = 4
#: First characters of list items.
LIST_MARKER_STARTS = frozenset(BULLETS + "-\u2013\u2014*(")
#: Follows the number or letter of a list item.
AFTER_NUMBER = frozenset(".)")


class TextStyle(NamedTuple):
    size: float
    bold: bool
    italic: bool


class PlainLines(NamedTuple):
    """Lines from top to bottom; all lists have one entry per line."""

    texts: list[str]
    xs: Sequence[float]
    ys: Sequence[float]
    styles: list[TextStyle]


def read_plain_page(page: int, layer: TextLayer, box: Box) -> list[Block] | None:
    """Return the blocks of a plain page, or None if the page is not plain."""
    texts, hyphenated_lines = _split_lines(layer.text)
    count = len(texts)
    if not MIN_LINES <= count <= MAX_LINES or pdfium.count_objects(page) != count:
        return None
    if not _is_plain(layer.text, texts):
        return None
    addresses = list(map(pdfium.get_object, repeat(page), range(count)))
    lines = _read_lines(texts, addresses)
    if lines is None or not _has_no_gaps(lines, addresses):
        return None
    body = max(set(lines.styles), key=lines.styles.count)
    # The first and the last line may be a header or the page number.
    inner = zip(lines.xs[1:-1], lines.styles[1:-1], strict=True)
    lefts = [x for x, style in inner if style == body]
    size = body.size
    if len(lefts) < MIN_BODY_SHARE * (count - 2) or max(lefts) > min(lefts) + MAX_INDENT * size:
        return None
    starts = _paragraph_starts(lines, hyphenated_lines, size)
    blocks = [_block(lines, hyphenated_lines, *ends) for ends in pairwise([*starts, count])]
    _mark_page_number(blocks[0], box)
    _mark_page_number(blocks[-1], box)
    return blocks


def _split_lines(text: str) -> tuple[list[str], set[int]]:
    """Return the lines, and the numbers of those that end with a hyphenated word."""
    parts = text.replace("\ufffe", "\ufffe\r\n").split("\r\n")
    lines = [line for part in parts if (line := part.strip())]
    if "\ufffe" not in text:
        return lines, set()
    hyphenated_lines = {number for number, line in enumerate(lines) if line[-1] == "\ufffe"}
    return [line.rstrip("\ufffe") or "-" for line in lines], hyphenated_lines


def _is_plain(text: str, lines: Sequence[str]) -> bool:
    if "\t" in text or sum([line[-1].isdigit() for line in lines]) > MAX_NUMBERED_LINES:
        return False
    if not text.isascii() and RIGHT_TO_LEFT.search(text):
        return False
    candidates = [line for line in lines if line[0] in LIST_MARKER_STARTS]
    # Checked at once, for speed: numbered lines are rare.
    if not AFTER_NUMBER.isdisjoint("".join([line[1:4] for line in lines])):
        candidates += [line for line in lines if not AFTER_NUMBER.isdisjoint(line[1:4])]
    return not candidates or all(parse_list_marker(line) is None for line in candidates)


def _read_lines(texts: list[str], addresses: Sequence[int]) -> PlainLines | None:
    """Return None unless all lines are upright and below each other."""
    count = len(addresses)
    buffer = pdfium.floats(7 * count)
    base = ctypes.addressof(buffer)
    middle = base + 24 * count
    if not all(map(pdfium.text_size, addresses, range(middle, middle + 4 * count, 4))):
        # Something other than text is drawn as well.
        return None
    all(map(pdfium.object_matrix, addresses, range(base, base + 24 * count, 24)))
    numbers = unpack_from(f"{7 * count}f", buffer)
    end = 6 * count
    xs, ys, scales = numbers[4:end:6], numbers[5:end:6], numbers[3:end:6]
    turned = any(numbers[1:end:6]) or any(numbers[2:end:6]) or min(numbers[0:end:6]) <= 0
    if turned or min(scales) <= 0 or any(map(le, ys, ys[1:])):
        return None
    handles = map(pdfium.text_font, addresses)
    fonts = list(zip(handles, numbers[end:], scales, strict=True))
    styles: dict[tuple[int, float, float], TextStyle] = {}
    for handle, size, scale in set(fonts):
        bold, italic, mono, _ = font_traits(handle)
        if mono:
            return None
        styles[handle, size, scale] = TextStyle(round(size * scale, 1), bold, italic)
    return PlainLines(texts, xs, ys, [styles[font] for font in fonts])


def _has_no_gaps(lines: PlainLines, addresses: Sequence[int]) -> bool:
    """Sample some lines for gaps: a table has several rows."""
    sides = pdfium.floats(4)
    base = ctypes.addressof(sides)
    for number in range(0, len(addresses), max(len(addresses) // SAMPLED_LINES, 3)):
        text, size = lines.texts[number], lines.styles[number].size
        pdfium.object_bounds(addresses[number], base, base + 4, base + 8, base + 12)
        is_wide = sides[2] - sides[0] > MAX_CHAR_WIDTH * size * len(text)
        if (is_wide and " " in text) or "   " in text:
            return False
    return True


def _paragraph_starts(lines: PlainLines, hyphenated_lines: set[int], size: float) -> list[int]:
    """Return the numbers of the lines that begin a paragraph."""
    texts, xs, ys, styles = lines
    steps = list(map(sub, ys, ys[1:]))
    # Most steps are line spacing, not paragraph spacing.
    widest = sorted(steps)[len(steps) // 3] * 1.25 + 0.12 * size
    full = 0.8 * max(map(len, texts))
    em = 0.8 * size
    starts = [0]
    for number, step in enumerate(steps):
        after, text = number + 1, texts[number]
        if step > widest or (
            number not in hyphenated_lines
            and (
                styles[number] != styles[after]
                or xs[after] - xs[number] > em
                or (len(text) < full and text[-1] in ".!?:" and not texts[after][0].islower())
            )
        ):
            starts.append(after)
    return starts


def _block(lines: PlainLines, hyphenated_lines: set[int], start: int, end: int) -> Block:
    texts, style = lines.texts[start:end], lines.styles[start]
    if any(text[-1] == "-" for text in texts) or not hyphenated_lines.isdisjoint(range(start, end)):
        text = texts[0]
        for number in range(start + 1, end):
            text = join_lines(text, lines.texts[number], number - 1 in hyphenated_lines)
    else:
        text = " ".join(texts)
    x, y = lines.xs[start], lines.ys[start]
    hyphenated = end - 1 in hyphenated_lines
    line = TextLine(text, x, x, y, style.size, style.bold, style.italic, False, hyphenated)
    return Block(BlockKind.PARAGRAPH, [line])


def _mark_page_number(block: Block, box: Box) -> None:
    margin = MARGIN * (box.top - box.bottom)
    line = block.lines[0]
    in_text = box.bottom + margin < line.baseline < box.top - margin
    if not in_text and PAGE_NUMBER.fullmatch(line.text):
        block.kind = BlockKind.MARGIN
