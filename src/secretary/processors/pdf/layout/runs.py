"""Runs of text: pieces of a line that are set alike, with their places.

PDFium answers about one character at a time. A line that one operator has drawn is asked about
at its two ends only; words are looked at singly where a line is put together or has holes."""

import ctypes
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from math import isfinite
from statistics import median
from typing import NamedTuple

from .. import pdfium
from ..text_layer import TextLayer
from .styles import FAR, Drawn, Style, drawn_texts, near

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
