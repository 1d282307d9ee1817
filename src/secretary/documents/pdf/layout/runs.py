"""Runs of text: pieces of a line that are set alike, with their places.

PDFium answers about one character at a time. A line that one operator has drawn is asked about
at its two ends only; words are looked at singly where a line is put together or has holes."""

import ctypes
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from math import atan2, hypot, isfinite, pi
from statistics import median
from typing import NamedTuple

from .. import pdfium
from ..text_layer import TextLayer

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


LINE = re.compile("[^\\s\ufffe](?:[^\\r\\n\ufffe]*[^\\s\ufffe])?")
WORD = re.compile("\\S+")
#: In ems: a gap that is no space between two words of a sentence.
HOLE = 1.0
#: Characters: shorter runs say little about how wide letters are.
LONG = 8
#: In ems, for a character: wider than this on the average, a run must have holes; beside most of
#: the page's, so much wider may have.
WIDE, WIDER = 0.72, 1.25


#: A font whose name does not say that it is bold: beside the font of most of the text, and at all.
HEAVIER, HEAVY = 1.35, 480


class Run(NamedTuple):
    text: str
    left: float
    right: float
    #: The height of the line it stands on, upwards.
    base: float
    style: Style
    #: Which line it is in, as PDFium reads them.
    line: int
    #: Goes on in the next line: a word is cut here.
    cut: bool
    #: The marked content it belongs to, -1 if none.
    mark: int
    #: Where it begins in the text of the layer.
    start: int


@dataclass(frozen=True, slots=True)
class PageRuns:
    runs: list[Run]
    #: Those that are turned against the others.
    turned: list[Run]
    #: Quarter turns of the text against the clock, in the page's own coordinates.
    quarter: int


class Span(NamedTuple):
    start: int
    end: int
    line: int
    cut: bool


def read_runs(layer: TextLayer) -> PageRuns:
    spans, addresses = _spans(layer)
    if not spans:
        return PageRuns([], [], 0)
    firsts = layer.places([span.start for span in spans])
    drawn = drawn_texts(layer.handle, addresses, firsts)
    quarters: Counter[int] = Counter()
    weights: Counter[int] = Counter()
    for span, address in zip(spans, addresses, strict=True):
        quarters[drawn[address].quarter] += span.end - span.start
        weights[drawn[address].weight] += span.end - span.start
    quarter = quarters.most_common(1)[0][0]
    heavy = max(HEAVIER * weights.most_common(1)[0][0], HEAVY)
    runs: list[Run] = []
    turned: list[Run] = []
    places = _extents(layer, spans, quarter)
    wide = _wide([
        (right - left) / ((span.end - span.start) * drawn[address].style.size)
        for span, address, (left, right) in zip(spans, addresses, places, strict=True)
        if span.end - span.start > LONG
    ])  # fmt: skip
    for span, address, (left, right) in zip(spans, addresses, places, strict=True):
        thing = drawn[address]
        run = _run(layer.text, span, left, right, thing, quarter)
        if thing.weight >= heavy and not run.style.bold:
            run = run._replace(style=run.style._replace(bold=True))
        if thing.quarter != quarter:
            turned.append(run)
        elif right - left > wide * run.style.size * len(run.text) and " " in run.text:
            runs += words_of(layer, run, quarter)
        else:
            runs.append(run)
    return PageRuns(runs, turned, quarter)


def _wide(widths: list[float]) -> float:
    return min(WIDER * median(widths), WIDE) if widths else WIDE


def words_of(layer: TextLayer, run: Run, quarter: int, hole: float = HOLE) -> list[Run]:
    """The run in pieces without holes."""
    return joined(single_words(layer, run, quarter), hole * run.style.size)


def single_words(layer: TextLayer, run: Run, quarter: int) -> list[Run]:
    found = [match.span() for match in WORD.finditer(run.text)]
    spans = [Span(run.start + start, run.start + end, run.line, False) for start, end in found]
    words = [
        run._replace(
            text=layer.text[span.start : span.end],
            left=left, right=right, start=span.start, cut=False,
        )
        for span, (left, right) in zip(spans, _extents(layer, spans, quarter), strict=True)
    ]  # fmt: skip
    if words and run.cut:
        words[-1] = words[-1]._replace(cut=True)
    return words


def joined(words: Iterable[Run], hole: float) -> list[Run]:
    runs: list[Run] = []
    for word in words:
        if runs and -hole < word.left - runs[-1].right < hole:
            last = runs[-1]
            runs[-1] = last._replace(
                text=f"{last.text} {word.text}", right=max(last.right, word.right), cut=word.cut
            )
        else:
            runs.append(word)
    return runs


def _spans(layer: TextLayer) -> tuple[list[Span], list[int | None]]:
    """Pieces of lines, each drawn by one operator, and the addresses of what they are drawn by."""
    text, handle = layer.text, layer.handle
    ends = [match.span() for match in LINE.finditer(text)]
    firsts = map(pdfium.char_object, repeat(handle), layer.places([start for start, _ in ends]))
    lasts = map(pdfium.char_object, repeat(handle), layer.places([end - 1 for _, end in ends]))
    spans: list[Span] = []
    addresses: list[int | None] = []
    for line, ((start, end), first, last) in enumerate(zip(ends, firsts, lasts, strict=True)):
        cut = text[end : end + 1] == "\ufffe"
        if first == last:
            spans.append(Span(start, end, line, cut))
            addresses.append(first)
        else:
            _mixed_line(layer, Span(start, end, line, cut), spans, addresses)
    return spans, addresses


def _mixed_line(
    layer: TextLayer, line: Span, spans: list[Span], addresses: list[int | None]
) -> None:
    words = [match.span() for match in WORD.finditer(layer.text, line.start, line.end)]
    places = layer.places([start for start, _ in words])
    begun = len(spans)
    drawers = list(map(pdfium.char_object, repeat(layer.handle), places))
    for (start, end), drawer in zip(words, drawers, strict=True):
        if len(spans) > begun and addresses[-1] == drawer:
            spans[-1] = spans[-1]._replace(end=end)
        else:
            spans.append(Span(start, end, line.line, False))
            addresses.append(drawer)
    if line.cut:
        spans[-1] = spans[-1]._replace(cut=True)


def _run(text: str, span: Span, left: float, right: float, thing: Drawn, quarter: int) -> Run:
    base = (thing.y, -thing.x, -thing.y, thing.x)[quarter]
    piece = text[span.start : span.end]
    return Run(
        piece, left, right, base, thing.style, span.line, span.cut, thing.mark, span.start,
    )  # fmt: skip


def _extents(layer: TextLayer, spans: list[Span], quarter: int) -> list[tuple[float, float]]:
    """From where to where each goes in the direction of reading."""
    firsts = layer.places([span.start for span in spans])
    lasts = layer.places([span.end - 1 for span in spans])
    boxes = _boxes(layer.handle, firsts + lasts)
    near_side, far_side = (0, 2) if quarter in (0, 2) else (1, 3)
    sign = 1 if quarter in (0, 1) else -1
    half = 4 * len(spans)
    a = boxes[near_side:half:4]
    b = boxes[far_side:half:4]
    c = boxes[half + near_side :: 4]
    d = boxes[half + far_side :: 4]
    if sign < 0:
        return [(-max(e), -min(e)) for e in zip(a, b, c, d, strict=True)]
    return [(min(e), max(e)) for e in zip(a, b, c, d, strict=True)]


def _boxes(handle: int, places: list[int]) -> list[float]:
    """Left, top, right and bottom of each character."""
    numbers = pdfium.floats(4 * len(places))
    base = ctypes.addressof(numbers)
    targets = range(base, base + 16 * len(places), 16)
    for _ in map(pdfium.char_box, repeat(handle), places, targets):
        pass
    boxes: list[float] = numbers[: 4 * len(places)]
    if not isfinite(sum(boxes)) or max(boxes, default=0) > FAR or min(boxes, default=0) < -FAR:
        boxes = [near(number) for number in boxes]
    return boxes


ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xa0\xad\u2000-\u200b\u2028\u2029\u202f\u2060\ufeff\uf02d\uf06e\uf071\uf076\uf0a7\uf0a8\uf0b7\uf0d8\uf0fc\ufb00-\ufb06\ufffe\uffff]"
)
#: Those of them that ASCII has.
CONTROLS = bytes({*range(32), 127} - set(b"\r\n\t"))
INSTEAD = {
    "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
    "\ufb05": "st", "\ufb06": "st", "\r": "", "\ufffe": "-",
    **dict.fromkeys("\xa0\u2000\u2001\u2002\u2003\u2004\u2005", " "),
    **dict.fromkeys("\u2006\u2007\u2008\u2009\u200a\u202f", " "),
    # Symbol fonts have no letters of their own.
    "\uf02d": "-", "\uf0fc": "\u2713",
    **dict.fromkeys("\uf06e\uf071\uf076\uf0a7\uf0a8\uf0b7\uf0d8", "\u2022"),
    **dict.fromkeys("\x0b\x0c\x85\u2028\u2029", "\n"),
}  # fmt: skip
#: Before these a hyphen at the end of a line is most often meant.
COMPOUND = frozenset(
    {"self", "non", "well", "half", "cross", "co", "ex", "all", "anti", "pre", "post", "semi"}
    | {"multi", "high", "low", "long", "short", "state", "twenty", "thirty", "forty", "fifty"}
    | {"sixty", "seventy", "eighty", "ninety", "one", "two", "three", "four", "five", "six"}
    | {"seven", "eight", "nine", "ten"}
)


def is_clean(text: str) -> bool:
    if text.isascii():
        letters = text.encode("ascii")
        return len(letters.translate(None, CONTROLS)) == len(letters)
    return ODD.search(text.replace("\r\n", "")) is None


def clean(text: str) -> str:
    return ODD.sub(_instead, text)


def _instead(match: re.Match[str]) -> str:
    return INSTEAD.get(match.group(), "")


LAST_PART = re.compile(r"[^\W\d_]+$")
FIRST_PART = re.compile(r"[^\W\d_]+")
#: Written without spaces.
IDEOGRAPH = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff00-\uff65]")
#: Of the web, broken where lines end.
ADDRESS = re.compile(r"(?:://|\bwww\.)\S*$")
ADDRESS_BREAKS = frozenset("/.-_=&?%#")
LETTER_HYPHEN = re.compile(r"[^\W\d_][-\u2010\xad]$")


def ends_cut(text: str) -> bool:
    return LETTER_HYPHEN.search(text) is not None


def joined_lines(before: str, after: str, cut: bool) -> str:
    """Two lines of a paragraph; `cut`: PDFium saw a hyphen between them and left it out."""
    if not cut and before[-1:] in ADDRESS_BREAKS and ADDRESS.search(before):
        return before + after
    if not cut and ends_cut(before):
        before, cut = before[:-1], True
    if not cut:
        ideographs = IDEOGRAPH.match(before[-1:]) and IDEOGRAPH.match(after)
        return before + after if ideographs else f"{before} {after}"
    last, first = LAST_PART.search(before), FIRST_PART.match(after)
    if last is None or first is None or not first.group()[0].islower():
        return f"{before}-{after}"
    compound = "-" in before[max(last.start() - 1, 0) : last.start()]
    if compound or last.group().lower() in COMPOUND:
        return f"{before}-{after}"
    return before + after
