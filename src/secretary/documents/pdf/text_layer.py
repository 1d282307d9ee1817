"""The characters of a page as PDFium reads them, with the calls that say where they stand."""

import ctypes
import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pypdfium2

from ...core.errors import FileCorrupt
from . import pdfium

#: PDFium counts these as two.
BEYOND_FIRST_PLANE = re.compile("[\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class TextLayer:
    handle: int
    #: Lines end with \r\n; where a word is cut at the end of a line stands U+FFFE instead.
    text: str
    count: int

    def places(self, indexes: list[int]) -> list[int]:
        """PDFium's own numbers of these characters: it also counts some that have no text."""
        if self.count == len(self.text):
            return indexes
        wide = [match.start() for match in BEYOND_FIRST_PLANE.finditer(self.text)]
        if wide:
            indexes = [index + bisect_left(wide, index) for index in indexes]
        if self.count == len(self.text) + len(wide):
            return indexes
        return [pdfium.char_index(self.handle, index) for index in indexes]


@contextmanager
def opened_text(page: pypdfium2.PdfPage) -> Iterator[TextLayer]:
    handle = pdfium.load_text(pdfium.handle(page))
    if not handle:
        raise FileCorrupt("The text of a page of the PDF is damaged")
    try:
        yield _read(handle)
    finally:
        pdfium.close_text(handle)


def _read(handle: int) -> TextLayer:
    count = pdfium.count_chars(handle)
    if count <= 0:
        return TextLayer(handle, "", 0)
    # Characters beyond the first plane take two places.
    buffer = pdfium.letters(4 * count + 4)
    written = pdfium.get_text(handle, 0, count, buffer)
    letters = ctypes.string_at(buffer, max(2 * written - 2, 0))
    return TextLayer(handle, letters.decode("utf-16-le", "ignore"), count)
