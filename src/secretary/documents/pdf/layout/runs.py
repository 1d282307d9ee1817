"""Reads the text of a page as runs: parts of a line in one style, with their positions.

PDFium answers queries for one character at a time. A line drawn by one text object is queried at
its two ends only; words are queried singly where a line is composed or has gaps."""

import ctypes
import re
from collections import Counter
from functools import lru_cache
from itertools import repeat
from math import atan2, hypot, isfinite, pi
from statistics import median
from typing import NamedTuple

from .. import pdfium
from ..pdfium import TextLayer

#: Points; coordinates are clamped to this range.
MAX_COORDINATE = 1e5
BOLD_NAME = re.compile(
    "bold|black|heavy|demi|fett|medi(?!um)|(?:cm|sf|ec|cmss|lm)bx|[- ]bd", re.IGNORECASE
)
ITALIC_NAME = re.compile("italic|oblique|kursiv|cmti|cmsl", re.IGNORECASE)
MONO_NAME = re.compile(
    "mono(?!type)|monl|courier|consol|typewriter|(?:cm|sf|ec|lm|tx)(?:sl|it|v)?tt|menlo|fixed",
    re.IGNORECASE,
)
FIXED_PITCH, ITALIC_FLAG, FORCE_BOLD = 1 << 0, 1 << 6, 1 << 18
BOLD_WEIGHT = 700
LINE = re.compile("[^\\s\ufffe](?:[^\\r\\n\ufffe]*[^\\s\ufffe])?")
WORD = re.compile("\\S+")
#: In ems: a gap that cannot be a space.
WORD_GAP = 1.0
#: Runs with fewer characters are not used to estimate the character width.
MIN_RUN_CHARACTERS = 8
#: Ems per character above which a run must contain gaps, and the ratio to the page's median
#: above which it may.
MAX_CHAR_WIDTH, MAX_WIDTH_RATIO = 0.72, 1.25
#: Fonts count as bold from this ratio to the body font's weight, and from this weight.
BOLD_WEIGHT_RATIO, MIN_BOLD_WEIGHT = 1.35, 480


class Style(NamedTuple):
    size: float
    bold: bool
    italic: bool
    mono: bool
    hidden: bool


class Run(NamedTuple):
    text: str
    left: float
    right: float
    #: The y coordinate of the baseline, upwards.
    baseline: float
    style: Style
    #: The number of the line, as PDFium splits them.
    line: int
    #: Ends with a hyphen that splits a word.
    hyphenated: bool
    #: The marked-content ID, -1 if none.
    mcid: int
    #: The offset in the text layer.
    start: int


class PageRuns(NamedTuple):
    runs: list[Run]
    #: Runs with another rotation than the rest.
    rotated: list[Run]
    #: Counterclockwise quarter turns of the text in page coordinates.
    rotation: int


class _TextObject(NamedTuple):
    """A PDF text object: text drawn by one operator."""

    style: Style
    #: Font weight, 0 if unknown.
    weight: int
    #: Counterclockwise quarter turns.
    rotation: int
    x: float
    y: float
    mcid: int


class _TextSpan(NamedTuple):
    start: int
    end: int
    line: int
    hyphenated: bool = False
    #: The address of the text object that draws it.
    owner: int | None = None


def read_runs(layer: TextLayer) -> PageRuns:
    spans = _text_spans(layer)
    if not spans:
        return PageRuns([], [], 0)
    text_objects = _read_text_objects(layer, spans)
    rotations: Counter[int] = Counter()
    weights: Counter[int] = Counter()
    for span in spans:
        rotations[text_objects[span.owner].rotation] += span.end - span.start
        weights[text_objects[span.owner].weight] += span.end - span.start
    rotation = rotations.most_common(1)[0][0]
    bold_weight = max(BOLD_WEIGHT_RATIO * weights.most_common(1)[0][0], MIN_BOLD_WEIGHT)
    runs: list[Run] = []
    rotated: list[Run] = []
    extents = _extents(layer, spans, rotation)
    widths = [
        (right - left) / ((span.end - span.start) * text_objects[span.owner].style.size)
        for span, (left, right) in zip(spans, extents, strict=True)
        if span.end - span.start > MIN_RUN_CHARACTERS
    ]
    width_limit = min(MAX_WIDTH_RATIO * median(widths or [MAX_CHAR_WIDTH]), MAX_CHAR_WIDTH)
    for span, (left, right) in zip(spans, extents, strict=True):
        text_object = text_objects[span.owner]
        x, y, style = text_object.x, text_object.y, text_object.style
        if text_object.weight >= bold_weight and not style.bold:
            style = style._replace(bold=True)
        run = Run(
            layer.text[span.start : span.end], left, right, (y, -x, -y, x)[rotation], style,
            span.line, span.hyphenated, text_object.mcid, span.start,
        )  # fmt: skip
        if text_object.rotation != rotation:
            rotated.append(run)
        elif right - left > width_limit * run.style.size * len(run.text) and " " in run.text:
            runs += split_at_gaps(layer, run, rotation)
        else:
            runs.append(run)
    return PageRuns(runs, rotated, rotation)


def _text_spans(layer: TextLayer) -> list[_TextSpan]:
    """Return the parts of lines drawn by one text object."""
    text, handle = layer.text, layer.handle
    ends = [match.span() for match in LINE.finditer(text)]
    first_indexes = layer.char_indexes([start for start, _ in ends])
    last_indexes = layer.char_indexes([end - 1 for _, end in ends])
    firsts = map(pdfium.char_object, repeat(handle), first_indexes)
    lasts = map(pdfium.char_object, repeat(handle), last_indexes)
    spans: list[_TextSpan] = []
    for line, ((start, end), first, last) in enumerate(zip(ends, firsts, lasts, strict=True)):
        hyphenated = text[end : end + 1] == "\ufffe"
        span = _TextSpan(start, end, line, hyphenated, first)
        spans += [span] if first == last else _split_mixed_line(layer, span)
    return spans


def _split_mixed_line(layer: TextLayer, line: _TextSpan) -> list[_TextSpan]:
    words = [match.span() for match in WORD.finditer(layer.text, line.start, line.end)]
    char_indexes = layer.char_indexes([start for start, _ in words])
    owners = map(pdfium.char_object, repeat(layer.handle), char_indexes)
    spans: list[_TextSpan] = []
    for (start, end), owner in zip(words, owners, strict=True):
        if spans and spans[-1].owner == owner:
            spans[-1] = spans[-1]._replace(end=end)
        else:
            spans.append(_TextSpan(start, end, line.line, owner=owner))
    spans[-1] = spans[-1]._replace(hyphenated=line.hyphenated)
    return spans


def _read_text_objects(layer: TextLayer, spans: list[_TextSpan]) -> dict[int | None, _TextObject]:
    fonts: dict[int | None, tuple[bool, bool, bool, int]] = {}
    text_objects: dict[int | None, _TextObject] = {
        None: _TextObject(Style(1.0, False, False, False, False), 0, 0, 0.0, 0.0, -1)
    }
    origin, matrix, size = pdfium.doubles(2), pdfium.floats(6), pdfium.floats(1)
    to_x, to_matrix, to_size = map(ctypes.addressof, (origin, matrix, size))
    char_indexes = layer.char_indexes([span.start for span in spans])
    for span, char_index in zip(spans, char_indexes, strict=True):
        address = span.owner
        if address in text_objects:
            continue
        pdfium.char_origin(layer.handle, char_index, to_x, to_x + 8)
        pdfium.object_matrix(address, to_matrix)
        pdfium.text_size(address, to_size)
        font = pdfium.text_font(address)
        if font not in fonts:
            fonts[font] = font_traits(font)
        a, b, c, d, _, _ = matrix
        height = size[0] * (d if c == 0 and d > 0 else hypot(c, d) or 1.0)
        height = abs(round(clamp(height), 1)) or 1.0
        hidden = pdfium.text_mode(address) == pdfium.INVISIBLE
        x, y = origin
        bold, italic, mono, weight = fonts[font]
        style = Style(height, bold, italic, mono, hidden)
        mcid = pdfium.object_mcid(address)
        is_upright = (b == 0 and a > 0) or not (isfinite(a) and isfinite(b))
        rotation = 0 if is_upright else round(atan2(b, a) / (pi / 2)) % 4
        text_objects[address] = _TextObject(style, weight, rotation, clamp(x), clamp(y), mcid)
    return text_objects


def clamp(number: float) -> float:
    if -MAX_COORDINATE < number < MAX_COORDINATE:
        return number
    return min(max(number, -MAX_COORDINATE), MAX_COORDINATE) if number == number else 0.0


def font_traits(font: int | None) -> tuple[bool, bool, bool, int]:
    """Return whether a font is bold, italic and monospaced, and its weight."""
    buffer = pdfium.chars(128)
    pdfium.font_name(font, buffer, 128)
    flags = max(pdfium.font_flags(font), 0)
    weight = max(pdfium.font_weight(font), 0)
    bold, italic, mono = _traits_by_name(buffer.value)
    bold = bold or bool(flags & FORCE_BOLD) or weight >= BOLD_WEIGHT
    return bold, italic or bool(flags & ITALIC_FLAG), mono or bool(flags & FIXED_PITCH), weight


@lru_cache(1_000)
def _traits_by_name(name: bytes) -> tuple[bool, bool, bool]:
    text = name.decode("utf-8", "ignore")
    bold, italic, mono = (bool(name.search(text)) for name in (BOLD_NAME, ITALIC_NAME, MONO_NAME))
    return bold, italic, mono


def split_at_gaps(
    layer: TextLayer, run: Run, rotation: int, max_gap: float = WORD_GAP
) -> list[Run]:
    """Split a run at its gaps."""
    max_gap *= run.style.size
    runs: list[Run] = []
    for word in split_words(layer, run, rotation):
        if runs and -max_gap < word.left - runs[-1].right < max_gap:
            last = runs[-1]
            text, right = f"{last.text} {word.text}", max(last.right, word.right)
            runs[-1] = last._replace(text=text, right=right, hyphenated=word.hyphenated)
        else:
            runs.append(word)
    return runs


def split_words(layer: TextLayer, run: Run, rotation: int) -> list[Run]:
    matches = WORD.finditer(run.text)
    spans = [_TextSpan(run.start + m.start(), run.start + m.end(), run.line) for m in matches]
    words = [
        run._replace(
            text=layer.text[span.start : span.end],
            left=left, right=right, start=span.start, hyphenated=False,
        )
        for span, (left, right) in zip(spans, _extents(layer, spans, rotation), strict=True)
    ]  # fmt: skip
    if words and run.hyphenated:
        words[-1] = words[-1]._replace(hyphenated=True)
    return words


def _extents(layer: TextLayer, spans: list[_TextSpan], rotation: int) -> list[tuple[float, float]]:
    """Return start and end of each span in reading direction."""
    firsts = layer.char_indexes([span.start for span in spans])
    lasts = layer.char_indexes([span.end - 1 for span in spans])
    boxes = _boxes(layer.handle, firsts + lasts)
    near_side, far_side = (0, 2) if rotation in (0, 2) else (1, 3)
    half = 4 * len(spans)
    sides = zip(
        boxes[near_side:half:4], boxes[far_side:half:4],
        boxes[half + near_side :: 4], boxes[half + far_side :: 4], strict=True,
    )  # fmt: skip
    if rotation in (0, 1):
        return [(min(each), max(each)) for each in sides]
    return [(-max(each), -min(each)) for each in sides]


def _boxes(handle: int, char_indexes: list[int]) -> list[float]:
    """Return left, top, right and bottom of each character in one list."""
    numbers = pdfium.floats(4 * len(char_indexes))
    base = ctypes.addressof(numbers)
    targets = range(base, base + 16 * len(char_indexes), 16)
    for _ in map(pdfium.char_box, repeat(handle), char_indexes, targets):
        pass
    boxes: list[float] = numbers[: 4 * len(char_indexes)]
    is_plausible = isfinite(sum(boxes)) and max(map(abs, boxes), default=0) <= MAX_COORDINATE
    return boxes if is_plausible else [clamp(number) for number in boxes]


UNCLEAN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xa0\xad\u2000-\u200b\u2028\u2029\u202f\u2060\ufeff\uf02d\uf06e\uf071\uf076\uf0a7\uf0a8\uf0b7\uf0d8\uf0fc\ufb00-\ufb06\ufffe\uffff]"
)
#: The ASCII characters among them.
CONTROLS = bytes({*range(32), 127} - set(b"\r\n\t"))
REPLACEMENTS = {
    "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
    "\ufb05": "st", "\ufb06": "st", "\r": "", "\ufffe": "-",
    **dict.fromkeys("\xa0\u2000\u2001\u2002\u2003\u2004\u2005", " "),
    **dict.fromkeys("\u2006\u2007\u2008\u2009\u200a\u202f", " "),
    # Symbol fonts use the private use area.
    "\uf02d": "-", "\uf0fc": "\u2713",
    **dict.fromkeys("\uf06e\uf071\uf076\uf0a7\uf0a8\uf0b7\uf0d8", "\u2022"),
    **dict.fromkeys("\x0b\x0c\x85\u2028\u2029", "\n"),
}  # fmt: skip


def is_clean(text: str) -> bool:
    if text.isascii():
        letters = text.encode("ascii")
        return len(letters.translate(None, CONTROLS)) == len(letters)
    return UNCLEAN.search(text.replace("\r\n", "")) is None


def clean_text(text: str) -> str:
    return UNCLEAN.sub(lambda match: REPLACEMENTS.get(match.group(), ""), text)


LAST_PART = re.compile(r"[^\W\d_]+$")
FIRST_PART = re.compile(r"[^\W\d_]+")
#: After these prefixes a hyphen at the end of a line is usually part of the word.
COMPOUND_PREFIXES = frozenset(
    {"self", "non", "well", "half", "cross", "co", "ex", "all", "anti", "pre", "post", "semi"}
    | {"multi", "high", "low", "long", "short", "state", "twenty", "thirty", "forty", "fifty"}
    | {"sixty", "seventy", "eighty", "ninety", "one", "two", "three", "four", "five", "six"}
    | {"seven", "eight", "nine", "ten"}
)
#: Scripts written without spaces.
IDEOGRAPH = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff00-\uff65]")
#: URLs are broken at line ends without a hyphen.
ADDRESS = re.compile(r"(?:://|\bwww\.)\S*$")
ADDRESS_BREAKS = frozenset("/.-_=&?%#")
LETTER_HYPHEN = re.compile(r"[^\W\d_][-\u2010\xad]$")


def join_lines(before: str, after: str, hyphenated: bool) -> str:
    """Join two lines of a paragraph. `hyphenated`: PDFium removed a hyphen between them."""
    if not hyphenated and before[-1:] in ADDRESS_BREAKS and ADDRESS.search(before):
        return before + after
    if not hyphenated and LETTER_HYPHEN.search(before):
        before, hyphenated = before[:-1], True
    if not hyphenated:
        ideographs = IDEOGRAPH.match(before[-1:]) and IDEOGRAPH.match(after)
        return before + after if ideographs else f"{before} {after}"
    last, first = LAST_PART.search(before), FIRST_PART.match(after)
    if last is None or first is None or not first.group()[0].islower():
        return f"{before}-{after}"
    compound = "-" in before[max(last.start() - 1, 0) : last.start()]
    if compound or last.group().lower() in COMPOUND_PREFIXES:
        return f"{before}-{after}"
    return before + after
