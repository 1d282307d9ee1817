"""Estimates the font sizes of a document's body text and headings from a few pages."""

import ctypes
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import repeat

from ...core.errors import FileCorrupt
from . import pdfium
from .document import PdfFile, open_page
from .layout.headings import LARGER_SIZE, FontSizes
from .layout.runs import font_traits
from .structure import read_structure

SAMPLE_PAGES = 6
MAX_OBJECTS = 1_500
#: More sizes than this are not heading levels.
MAX_HEADING_SIZES = 5
#: A size with more than this share of the body's characters is other body text, such as a second
#: column.
SECOND_BODY_SHARE = 0.2
#: Sizes within this ratio are the same.
SAME_SIZE_RATIO = 1.06


#: Results for recent files: a process reads a document in several calls.
_cache: dict[tuple[object, ...], FontSizes | None] = {}
MAX_CACHED = 16


class FontStats:
    """Font statistics of a document, computed when the first page is read."""

    def __init__(self, document: PdfFile) -> None:
        self._document = document

    @cached_property
    def font_sizes(self) -> FontSizes | None:
        identity = self._document.identity
        if identity not in _cache:
            if len(_cache) >= MAX_CACHED:
                _cache.clear()
            pages = [_characters_by_size(page) for page in self._pages()]
            texts, codes = [text for text, _ in pages], [code for _, code in pages]
            # Source code says nothing about the text around it, unless there is nothing else.
            _cache[identity] = _estimate_sizes(_merge_pages(texts) or _merge_pages(codes))
        return _cache[identity]

    @cached_property
    def has_tagged_headings(self) -> bool:
        """Whether the structure tree marks headings on any of the sampled pages."""
        return any(read_structure(page).has_headings for page in self._pages())

    def _pages(self) -> Iterator[int]:
        for number in _sample_pages(len(self._document)):
            # Other pages than the requested one may be damaged.
            with suppress(FileCorrupt), open_page(self._document, number) as page:
                yield pdfium.handle(page)


def _sample_pages(count: int) -> list[int]:
    """Return the first pages and some of the others."""
    if count <= SAMPLE_PAGES:
        return list(range(1, count + 1))
    return [1, 2, 3, *(count * step // (SAMPLE_PAGES - 2) for step in range(1, SAMPLE_PAGES - 2))]


def _characters_by_size(page: int) -> tuple[Counter[float], Counter[float]]:
    """Return the number of characters per font size, estimated by width: of text and of code."""
    count = min(pdfium.count_objects(page), MAX_OBJECTS)
    buffer = pdfium.floats(11)
    base = ctypes.addressof(buffer)
    weights: Counter[float] = Counter()
    code: Counter[float] = Counter()
    fonts: dict[int, bool] = {}
    for address in map(pdfium.get_object, repeat(page), range(count)):
        if not pdfium.text_size(address, base):
            continue
        font = pdfium.text_font(address)
        if font not in fonts:
            fonts[font] = font_traits(font)[2]
        pdfium.object_matrix(address, base + 4)
        pdfium.object_bounds(address, base + 28, base + 32, base + 36, base + 40)
        size, _, _, c, d, _, _, left, bottom, right, top = buffer
        height = round(2 * size * (c * c + d * d) ** 0.5) / 2
        if 1 < height < 500:
            kind = code if fonts[font] else weights
            kind[height] += max(right - left, top - bottom) / height
    return weights, code


def _merge_pages(pages: Sequence[Counter[float]]) -> Counter[float]:
    """Merge the pages; of the first one, which is a title page, only its largest size counts
    unless other pages use it too."""
    weights: Counter[float] = Counter()
    for page in pages[1:]:
        weights.update(page)
    if not weights:
        return pages[0] if pages else weights
    largest = max(pages[0], default=0.0)
    for size, weight in pages[0].items():
        if size == largest or size in weights:
            weights[size] += weight
    return weights


def _estimate_sizes(weights: Counter[float]) -> FontSizes | None:
    if not weights:
        return None
    body, body_weight = weights.most_common(1)[0]
    sizes: list[float] = []
    for size in sorted(weights, reverse=True):
        if size < LARGER_SIZE * body or weights[size] > SECOND_BODY_SHARE * body_weight:
            continue
        if not sizes or size * SAME_SIZE_RATIO < sizes[-1]:
            sizes.append(size)
        else:
            sizes[-1] = size
    return FontSizes(body, tuple(sizes[:MAX_HEADING_SIZES]))
