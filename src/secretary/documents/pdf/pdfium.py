"""Fast bindings to PDFium: opens files and pages, reads text layers and structure trees.

A page has thousands of characters: calls take plain pointers without conversion, so that `map` can
write the answers into one array."""

import ctypes
import io
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_char, c_double, c_float, c_int, c_ulong, c_void_p
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as raw

from ...core.errors import FileCorrupt, FileEncrypted


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
object_bounds = _bind(raw.FPDFPageObj_GetBounds, c_int, *[c_void_p] * 5)
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


@lru_cache(256)
def _array_type(kind: Any, count: int) -> Any:
    # In ctypes, creating an array type takes longer than creating an array.
    return kind * count


def _array(kind: Any, count: int) -> Any:
    """Return an array for at least this many values."""
    return _array_type(kind, count if count <= 64 else -(-count // 512) * 512)()


floats, doubles, chars = (partial(_array, kind) for kind in (c_float, c_double, c_char))


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
        count = max(count_chars(text_page), 0)
        # Characters beyond the basic multilingual plane take two code units.
        buffer = chars(4 * count + 4)
        written = get_text(text_page, 0, count, buffer) if count else 0
        content = ctypes.string_at(buffer, max(2 * written - 2, 0))
        yield TextLayer(text_page, content.decode("utf-16-le", "ignore"), count)
    finally:
        close_text(text_page)


#: Bytes. The repaired file is held in memory, in addition to what QPDF needs.
MAX_REPAIR_BYTES = 200 * 1024 * 1024
DAMAGED = "The PDF is damaged and cannot be opened"
ENCRYPTED = "The PDF is encrypted: the password is missing or wrong"
#: PDFium's error code for a missing or wrong password.
WRONG_PASSWORD = 4
#: The file is scanned from its end in chunks of this size.
SCAN_CHUNK_BYTES = 64 * 1024
END_MARKERS = (b"%%EOF", b"startxref")
OBJECT_END = b"endobj"


def require_complete(path: str) -> None:
    """Reject a truncated file: much of it could be read, but nobody knows how much is missing. Any
    data except further objects may follow the end marker."""
    with open(path, "rb") as file:
        position, overlap = file.seek(0, os.SEEK_END), b""
        while position > 0:
            size = min(SCAN_CHUNK_BYTES, position)
            position -= size
            file.seek(position)
            chunk = file.read(size) + overlap
            end, last_object = max(map(chunk.rfind, END_MARKERS)), chunk.rfind(OBJECT_END)
            if end > last_object:
                return
            if last_object >= 0:
                break
            overlap = chunk[: len(max(END_MARKERS, key=len))]  # a marker may cross the boundary
    raise FileCorrupt("The PDF is cut short: its end is missing")


class PdfFile(pypdfium2.PdfDocument):  # type: ignore[misc]  # untyped library
    """An open PDF file."""

    def __init__(self, source: str | bytes, path: str, password: str | None = None) -> None:
        super().__init__(source, password=password)
        status = os.stat(path)
        #: Changes whenever the file does.
        self.identity = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        #: Damaged, and some content may be missing: the source is what could be repaired.
        self.is_repaired = isinstance(source, bytes)
        self.is_tagged = bool(raw.FPDFCatalog_IsTagged(self))
        self.has_form = raw.FPDF_GetFormType(self) != raw.FORMTYPE_NONE


@contextmanager
def open_pdf(path: str, password: str | None = None) -> Iterator[PdfFile]:
    try:
        document = PdfFile(path, path, password)
    except pypdfium2.PdfiumError as error:
        if error.err_code == WRONG_PASSWORD:
            raise FileEncrypted(ENCRYPTED) from None
        document = _open_repaired(path, password)
    if not len(document):
        document.close()
        document = _open_repaired(path, password)
    with document:
        yield document


def _open_repaired(path: str, password: str | None) -> PdfFile:
    # Rarely needed, and slow to import.
    import pikepdf

    if Path(path).stat().st_size > MAX_REPAIR_BYTES:
        raise FileCorrupt(DAMAGED)
    content = io.BytesIO()
    try:
        with pikepdf.open(path, password=password or "", suppress_warnings=True) as document:
            if not len(document.pages):
                raise FileCorrupt(DAMAGED)
            document.save(content, fix_metadata_version=False)
        return PdfFile(content.getvalue(), path)
    except pikepdf.PasswordError:
        raise FileEncrypted(ENCRYPTED) from None
    except (pikepdf.PdfError, pypdfium2.PdfiumError, ValueError, RuntimeError):
        raise FileCorrupt(DAMAGED) from None


class BarePage(pypdfium2.PdfPage):  # type: ignore[misc]  # untyped library
    """A page without pypdfium2's bookkeeping, which takes longer than reading a short page."""

    def __init__(self, handle: Any, document: pypdfium2.PdfDocument) -> None:
        self.raw, self.pdf, self.formenv = handle, document, None


@contextmanager
def open_page(document: PdfFile, number: int) -> Iterator[pypdfium2.PdfPage]:
    """Open a page; numbers start at 1. Close everything opened from the page before it."""
    damaged = f"Page {number} of the PDF is damaged"
    handle = raw.FPDF_LoadPage(document, number - 1)
    is_form = handle and document.has_form
    if is_form and raw.FPDFPage_Flatten(handle, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS:
        # Flattened form fields appear only after the page is loaded again.
        raw.FPDF_ClosePage(handle)
        handle = raw.FPDF_LoadPage(document, number - 1)
    if not handle:
        raise FileCorrupt(damaged, page=number)
    page = BarePage(handle, document)
    try:
        yield page
    except pypdfium2.PdfiumError:
        raise FileCorrupt(damaged, page=number) from None
    finally:
        page.raw = None
        raw.FPDF_ClosePage(handle)


MAX_ELEMENTS = 20_000
MAX_DEPTH = 40
HEADING = re.compile(r"H([1-6])")
BLOCKS = frozenset({"P", "Caption", "Note", "BlockQuote", "TOCI", "Figure", "Formula", "Index"})


class Tag(NamedTuple):
    """The structure element that marked content belongs to."""

    #: H, LI, Code or P.
    kind: str
    #: Of a heading from 1, of a list item from 0.
    level: int
    #: Shared by all content of one paragraph, heading or list item.
    block: int


@dataclass(slots=True)
class Structure:
    """The structure of one page."""

    #: By marked-content ID (MCID).
    tags: dict[int, Tag] = field(default_factory=dict)
    #: Rows of cells, each a list of MCIDs.
    tables: list[list[list[list[int]]]] = field(default_factory=list)
    elements: int = 0

    @property
    def has_headings(self) -> bool:
        return any(tag.kind == "H" for tag in self.tags.values())


def read_structure(page: int) -> Structure:
    structure = Structure()
    tree = load_structure(page)
    if not tree:
        return structure
    try:
        for number in range(max(count_roots(tree), 0)):
            if root := get_root(tree, number):
                _walk(structure, root, None, 0, 0)
    finally:
        close_structure(tree)
    return structure


def _walk(structure: Structure, element: int, tag: Tag | None, lists: int, depth: int) -> None:
    structure.elements += 1
    if structure.elements > MAX_ELEMENTS or depth > MAX_DEPTH:
        return
    kind = _kind(element)
    # A table that contains another one is used for page layout.
    if kind == "Table" and not any(_descendants(element, ("Table",), 6)):
        rows = [
            [list(_mcids(cell, 0)) for cell in _descendants(row, ("TD", "TH"), 3)]
            for row in _descendants(element, ("TR",), 3)
        ]
        structure.tables.append([row for row in rows if row])
        structure.elements += sum(map(len, rows))
        return
    tag = _tag(kind, tag, lists, structure.elements)
    for child, mcid in _children(element):
        if child:
            _walk(structure, child, tag, lists + (kind == "L"), depth + 1)
        elif mcid >= 0:
            structure.tags[mcid] = tag or Tag("P", 0, structure.elements)


def _tag(kind: str, tag: Tag | None, lists: int, number: int) -> Tag | None:
    if match := HEADING.fullmatch(kind):
        return Tag("H", int(match[1]), number)
    if kind == "Title":
        return Tag("H", 1, number)
    if kind == "LI":
        return Tag("LI", max(lists - 1, 0), number)
    if kind == "Code" and tag is None:
        return Tag("Code", 0, number)
    is_paragraph = kind in BLOCKS and (tag is None or tag.kind != "LI")
    return Tag("P", 0, number) if is_paragraph else tag


def _kind(element: int) -> str:
    buffer = chars(64)
    written = element_type(element, buffer, 64)
    size = written - 2 if 2 <= written <= 64 else 0
    return bytes(buffer)[:size].decode("utf-16-le", "ignore")


def _children(element: int) -> Iterator[tuple[int | None, int]]:
    """Yield child elements, or MCIDs of marked content."""
    for number in range(max(count_children(element), 0)):
        child = get_child(element, number)
        yield child, -1 if child else child_mcid(element, number)


def _descendants(element: int, kinds: tuple[str, ...], depth: int) -> Iterator[int]:
    """Yield the nearest elements of these kinds, with at most `depth` others around them."""
    for child, _ in _children(element):
        if child and _kind(child) in kinds:
            yield child
        elif child and depth:
            yield from _descendants(child, kinds, depth - 1)


def _mcids(element: int, depth: int) -> Iterator[int]:
    for child, mcid in _children(element):
        if child and depth < MAX_DEPTH:
            yield from _mcids(child, depth + 1)
        elif mcid >= 0:
            yield mcid
