"""PDFium's functions as calls that cost little: plain pointers in, no conversion on the way.

A page has thousands of characters, so each call is made through `map` into one array."""

import ctypes
from collections.abc import Callable
from ctypes import c_char, c_double, c_float, c_int, c_ulong, c_void_p
from functools import lru_cache
from typing import Any

import pypdfium2.raw as raw


def _quick(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    address = ctypes.cast(function, c_void_p).value
    return ctypes.PYFUNCTYPE(result, *arguments)(address)  # type: ignore[arg-type]


def handle(thing: Any) -> int:
    """The address behind a page or another object of pypdfium2."""
    return ctypes.cast(thing.raw, c_void_p).value or 0


load_text = _quick(raw.FPDFText_LoadPage, c_void_p, c_void_p)
close_text = _quick(raw.FPDFText_ClosePage, None, c_void_p)
count_chars = _quick(raw.FPDFText_CountChars, c_int, c_void_p)
get_text = _quick(raw.FPDFText_GetText, c_int, c_void_p, c_int, c_int, c_void_p)
char_index = _quick(raw.FPDFText_GetCharIndexFromTextIndex, c_int, c_void_p, c_int)
char_origin = _quick(raw.FPDFText_GetCharOrigin, c_int, c_void_p, c_int, c_void_p, c_void_p)
char_box = _quick(raw.FPDFText_GetLooseCharBox, c_int, c_void_p, c_int, c_void_p)
char_object = _quick(raw.FPDFText_GetTextObject, c_void_p, c_void_p, c_int)

count_objects = _quick(raw.FPDFPage_CountObjects, c_int, c_void_p)
get_object = _quick(raw.FPDFPage_GetObject, c_void_p, c_void_p, c_int)
object_type = _quick(raw.FPDFPageObj_GetType, c_int, c_void_p)
object_bounds = _quick(
    raw.FPDFPageObj_GetBounds, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p
)
object_matrix = _quick(raw.FPDFPageObj_GetMatrix, c_int, c_void_p, c_void_p)
object_mark = _quick(raw.FPDFPageObj_GetMarkedContentID, c_int, c_void_p)
count_form_objects = _quick(raw.FPDFFormObj_CountObjects, c_int, c_void_p)
get_form_object = _quick(raw.FPDFFormObj_GetObject, c_void_p, c_void_p, c_ulong)

text_size = _quick(raw.FPDFTextObj_GetFontSize, c_int, c_void_p, c_void_p)
text_font = _quick(raw.FPDFTextObj_GetFont, c_void_p, c_void_p)
text_mode = _quick(raw.FPDFTextObj_GetTextRenderMode, c_int, c_void_p)
font_name = _quick(raw.FPDFFont_GetBaseFontName, c_ulong, c_void_p, c_void_p, c_ulong)
font_flags = _quick(raw.FPDFFont_GetFlags, c_int, c_void_p)
font_weight = _quick(raw.FPDFFont_GetWeight, c_int, c_void_p)

load_structure = _quick(raw.FPDF_StructTree_GetForPage, c_void_p, c_void_p)
close_structure = _quick(raw.FPDF_StructTree_Close, None, c_void_p)
count_roots = _quick(raw.FPDF_StructTree_CountChildren, c_int, c_void_p)
get_root = _quick(raw.FPDF_StructTree_GetChildAtIndex, c_void_p, c_void_p, c_int)
element_type = _quick(raw.FPDF_StructElement_GetType, c_ulong, c_void_p, c_void_p, c_ulong)
count_children = _quick(raw.FPDF_StructElement_CountChildren, c_int, c_void_p)
get_child = _quick(raw.FPDF_StructElement_GetChildAtIndex, c_void_p, c_void_p, c_int)
child_mark = _quick(raw.FPDF_StructElement_GetChildMarkedContentID, c_int, c_void_p, c_int)

path_mode = _quick(raw.FPDFPath_GetDrawMode, c_int, c_void_p, c_void_p, c_void_p)
path_segments = _quick(raw.FPDFPath_CountSegments, c_int, c_void_p)
path_segment = _quick(raw.FPDFPath_GetPathSegment, c_void_p, c_void_p, c_int)
segment_point = _quick(raw.FPDFPathSegment_GetPoint, c_int, c_void_p, c_void_p, c_void_p)
segment_type = _quick(raw.FPDFPathSegment_GetType, c_int, c_void_p)
segment_close = _quick(raw.FPDFPathSegment_GetClose, c_int, c_void_p)

PATH, PICTURE, FORM = raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_FORM
MOVE, LINE = raw.FPDF_SEGMENT_MOVETO, raw.FPDF_SEGMENT_LINETO
INVISIBLE = raw.FPDF_TEXTRENDERMODE_INVISIBLE


def floats(count: int) -> Any:
    """Room for so many, or some more."""
    return _room(c_float, count)()


def doubles(count: int) -> Any:
    return _room(c_double, count)()


def letters(count: int) -> Any:
    return _room(c_char, count)()


def _room(kind: Any, count: int) -> Any:
    return _array(kind, count if count <= 64 else -(-count // 512) * 512)


@lru_cache(256)
def _array(kind: Any, count: int) -> Any:
    # ctypes takes longer to make the type of an array than to make an array of it.
    return kind * count
