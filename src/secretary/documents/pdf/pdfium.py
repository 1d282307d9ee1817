"""Fast bindings to PDFium, and the text layer of a page.

A page has thousands of characters: calls take plain pointers without conversion, so that `map` can
write the answers into one array."""

import ctypes
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_char, c_double, c_float, c_int, c_ulong, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pypdfium2
import pypdfium2.raw as raw

from ...core.errors import FileCorrupt


def _bind(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    address = ctypes.cast(function, c_void_p).value
    return ctypes.PYFUNCTYPE(result, *arguments)(address)  # type: ignore[arg-type]


def handle(thing: Any) -> int:
    """Return the address of a page or another object of pypdfium2."""
    return ctypes.cast(thing.raw, c_void_p).value or 0


load_text = _bind(raw.FPDFText_LoadPage, c_void_p, c_void_p)
close_text = _bind(raw.FPDFText_ClosePage, None, c_void_p)
count_chars = _bind(raw.FPDFText_CountChars, c_int, c_void_p)
get_text = _bind(raw.FPDFText_GetText, c_int, c_void_p, c_int, c_int, c_void_p)
char_index = _bind(raw.FPDFText_GetCharIndexFromTextIndex, c_int, c_void_p, c_int)
char_origin = _bind(raw.FPDFText_GetCharOrigin, c_int, c_void_p, c_int, c_void_p, c_void_p)
char_box = _bind(raw.FPDFText_GetLooseCharBox, c_int, c_void_p, c_int, c_void_p)
char_object = _bind(raw.FPDFText_GetTextObject, c_void_p, c_void_p, c_int)

count_objects = _bind(raw.FPDFPage_CountObjects, c_int, c_void_p)
get_object = _bind(raw.FPDFPage_GetObject, c_void_p, c_void_p, c_int)
object_type = _bind(raw.FPDFPageObj_GetType, c_int, c_void_p)
object_bounds = _bind(
    raw.FPDFPageObj_GetBounds, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p
)
object_matrix = _bind(raw.FPDFPageObj_GetMatrix, c_int, c_void_p, c_void_p)
object_mcid = _bind(raw.FPDFPageObj_GetMarkedContentID, c_int, c_void_p)
count_form_objects = _bind(raw.FPDFFormObj_CountObjects, c_int, c_void_p)
get_form_object = _bind(raw.FPDFFormObj_GetObject, c_void_p, c_void_p, c_ulong)

text_size = _bind(raw.FPDFTextObj_GetFontSize, c_int, c_void_p, c_void_p)
text_font = _bind(raw.FPDFTextObj_GetFont, c_void_p, c_void_p)
text_mode = _bind(raw.FPDFTextObj_GetTextRenderMode, c_int, c_void_p)
font_name = _bind(raw.FPDFFont_GetBaseFontName, c_ulong, c_void_p, c_void_p, c_ulong)
font_flags = _bind(raw.FPDFFont_GetFlags, c_int, c_void_p)
font_weight = _bind(raw.FPDFFont_GetWeight, c_int, c_void_p)

load_structure = _bind(raw.FPDF_StructTree_GetForPage, c_void_p, c_void_p)
close_structure = _bind(raw.FPDF_StructTree_Close, None, c_void_p)
count_roots = _bind(raw.FPDF_StructTree_CountChildren, c_int, c_void_p)
get_root = _bind(raw.FPDF_StructTree_GetChildAtIndex, c_void_p, c_void_p, c_int)
element_type = _bind(raw.FPDF_StructElement_GetType, c_ulong, c_void_p, c_void_p, c_ulong)
count_children = _bind(raw.FPDF_StructElement_CountChildren, c_int, c_void_p)
get_child = _bind(raw.FPDF_StructElement_GetChildAtIndex, c_void_p, c_void_p, c_int)
child_mcid = _bind(raw.FPDF_StructElement_GetChildMarkedContentID, c_int, c_void_p, c_int)

path_mode = _bind(raw.FPDFPath_GetDrawMode, c_int, c_void_p, c_void_p, c_void_p)
path_segments = _bind(raw.FPDFPath_CountSegments, c_int, c_void_p)
path_segment = _bind(raw.FPDFPath_GetPathSegment, c_void_p, c_void_p, c_int)
segment_point = _bind(raw.FPDFPathSegment_GetPoint, c_int, c_void_p, c_void_p, c_void_p)
segment_type = _bind(raw.FPDFPathSegment_GetType, c_int, c_void_p)
segment_close = _bind(raw.FPDFPathSegment_GetClose, c_int, c_void_p)

PATH, PICTURE, FORM = raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_FORM
MOVE, LINE = raw.FPDF_SEGMENT_MOVETO, raw.FPDF_SEGMENT_LINETO
INVISIBLE = raw.FPDF_TEXTRENDERMODE_INVISIBLE


def floats(count: int) -> Any:
    """Return an array for at least this many numbers."""
    return _array_type(c_float, count)()


def doubles(count: int) -> Any:
    return _array_type(c_double, count)()


def chars(count: int) -> Any:
    return _array_type(c_char, count)()


def _array_type(kind: Any, count: int) -> Any:
    return _exact_array_type(kind, count if count <= 64 else -(-count // 512) * 512)


@lru_cache(256)
def _exact_array_type(kind: Any, count: int) -> Any:
    # In ctypes, creating an array type takes longer than creating an array.
    return kind * count


#: PDFium counts characters beyond the basic multilingual plane as two.
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class TextLayer:
    """The characters of a page as PDFium reads them."""

    handle: int
    #: Lines end with CR LF. U+FFFE stands for the hyphen of a word split at a line end.
    text: str
    count: int

    def char_indexes(self, offsets: list[int]) -> list[int]:
        """Return PDFium's character indexes, which also count characters without text."""
        if self.count == len(self.text):
            return offsets
        wide = [match.start() for match in _ASTRAL.finditer(self.text)]
        if wide:
            offsets = [offset + bisect_left(wide, offset) for offset in offsets]
        if self.count == len(self.text) + len(wide):
            return offsets
        return [char_index(self.handle, offset) for offset in offsets]


@contextmanager
def open_text_layer(page: pypdfium2.PdfPage) -> Iterator[TextLayer]:
    text_page = load_text(handle(page))
    if not text_page:
        raise FileCorrupt("The text of a page of the PDF is damaged")
    try:
        yield _read_text_layer(text_page)
    finally:
        close_text(text_page)


def _read_text_layer(text_page: int) -> TextLayer:
    count = count_chars(text_page)
    if count <= 0:
        return TextLayer(text_page, "", 0)
    # Characters beyond the basic multilingual plane take two code units.
    buffer = chars(4 * count + 4)
    written = get_text(text_page, 0, count, buffer)
    content = ctypes.string_at(buffer, max(2 * written - 2, 0))
    return TextLayer(text_page, content.decode("utf-16-le", "ignore"), count)
