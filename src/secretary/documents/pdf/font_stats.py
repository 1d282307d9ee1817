"""The sizes of type in a document, told from a few of its pages."""

import ctypes
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import repeat

from ...core.errors import FileCorrupt
from . import pdfium
from .document import PdfFile, open_page
from .layout.headings import LARGER, FontSizes
from .layout.runs import font_traits
from .structure import read_structure

MOST_PAGES = 6
MOST_OBJECTS = 1_500
#: More sizes than these are no levels of headings.
MOST_SIZES = 5
#: Of the body's letters: a size that has more is another body, for instance of a second column.
ANOTHER_BODY = 0.2
#: Sizes that differ by less are the same.
ALIKE = 1.06


#: Of files read lately: a process reads a document in several calls, some pages in each.
_known: dict[tuple[object, ...], FontSizes | None] = {}
MOST_KNOWN = 16


class FontStats:
    """The same for all who read a part of the document; looked at when the first page is read."""

    def __init__(self, document: PdfFile) -> None:
        self._document = document

    @cached_property
    def scale(self) -> FontSizes | None:
        identity = self._document.identity
        if identity not in _known:
            if len(_known) >= MOST_KNOWN:
                _known.clear()
            pages = [_sizes(page) for page in self._pages()]
            texts, listings = [text for text, _ in pages], [listing for _, listing in pages]
            # Listings say nothing about the text around them, unless there is none.
            _known[identity] = _scale(_without_front(texts) or _without_front(listings))
        return _known[identity]

    @cached_property
    def tagged(self) -> bool:
        """The file says which lines are headings, on some page at least."""
        return any(read_structure(page).has_headings for page in self._pages())

    def _pages(self) -> Iterator[int]:
        for number in _sample(len(self._document)):
            # A page that no one asked for may be damaged.
            with suppress(FileCorrupt), open_page(self._document, number) as page:
                yield pdfium.handle(page)


def _sample(count: int) -> list[int]:
    """The first pages and some of the others."""
    if count <= MOST_PAGES:
        return list(range(1, count + 1))
    return [1, 2, 3, *(count * step // (MOST_PAGES - 2) for step in range(1, MOST_PAGES - 2))]


def _sizes(page: int) -> tuple[Counter[float], Counter[float]]:
    """How much is set in which size, in letters, as their widths tell: in text, and in listings."""
    count = min(pdfium.count_objects(page), MOST_OBJECTS)
    room = pdfium.floats(11)
    base = ctypes.addressof(room)
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
        size, _, _, c, d, _, _, left, bottom, right, top = room
        height = round(2 * size * (c * c + d * d) ** 0.5) / 2
        if 1 < height < 500:
            kind = code if fonts[font] else weights
            kind[height] += max(right - left, top - bottom) / height
    return weights, code


def _without_front(pages: Sequence[Counter[float]]) -> Counter[float]:
    """On the first page much is large; only the largest is a heading, unless others have it too."""
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


def _scale(weights: Counter[float]) -> FontSizes | None:
    if not weights:
        return None
    body, most = weights.most_common(1)[0]
    sizes: list[float] = []
    for size in sorted(weights, reverse=True):
        if size < LARGER * body or weights[size] > ANOTHER_BODY * most:
            continue
        if not sizes or size * ALIKE < sizes[-1]:
            sizes.append(size)
        else:
            sizes[-1] = size
    return FontSizes(body, tuple(sizes[:MOST_SIZES]))
