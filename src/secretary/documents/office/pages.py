"""Reads office files: dispatches to the reader of each format and saves the pages."""

import os
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import cast

from ...core.callables import LazyCallable
from ...core.errors import FileCorrupt, UnsupportedFile
from ..pages import DocumentInfo, PageStore
from .blocks import OfficeDocument, Pictures
from .containers import MIB, detect_ole_type, open_archive
from .text import read_text

#: Readers are imported when needed: processes that only send work to others load no parsers.
_ZIPPED: dict[str, LazyCallable[OfficeDocument]] = {
    "docx": LazyCallable("documents.office.docx", "read_docx"),
    "epub": LazyCallable("documents.office.html", "read_epub"),
    "odp": LazyCallable("documents.office.odf", "read_odp"),
    "ods": LazyCallable("documents.office.odf", "read_ods"),
    "odt": LazyCallable("documents.office.odf", "read_odt"),
    "pptx": LazyCallable("documents.office.pptx", "read_pptx"),
    "xlsx": LazyCallable("documents.office.xlsx", "read_xlsx"),
}
_SHEETS = {"ods", "xlsx"}
_READ_HTML: LazyCallable[OfficeDocument] = LazyCallable("documents.office.html", "read_html")
_READ_RTF: LazyCallable[OfficeDocument] = LazyCallable("documents.office.rtf", "read_rtf")
_HTML_EXTENSIONS = {".html", ".htm", ".xhtml"}


def process_office_document(
    path: str, kind: str, name: str, page_store: PageStore, scratch: str, images: bool
) -> DocumentInfo:
    """Read the document, save all its pages and return what is known about it."""
    # Written to a temporary directory first: files in the store may be linked and never change.
    with TemporaryDirectory(dir=scratch) as directory:
        document = read_office(path, kind, directory, include_images=images, name=name)
        for picture in sorted(os.listdir(directory)):
            page_store.write(picture, Path(directory, picture).read_bytes())
        for page in document.pages:
            page_store.save(page)
    return cast(DocumentInfo, {**document.facts, "page_count": len(document.pages)})


def read_office(
    path: str,
    kind: str,
    directory: str,
    *,
    include_images: bool = False,
    name: str | None = None,
    max_expanded_bytes: int = 1024 * MIB,
    max_cells: int = 2_000_000,
) -> OfficeDocument:
    """Read a file of the given type (see `core.files`) into pages.

    Pictures are saved in `directory` if `include_images` is set. `name` is the original file name:
    only its extension tells whether a text file is a table.
    """
    from lxml import etree

    pictures = Pictures(directory if include_images else None)
    # HTML without a doctype is detected as text: a fragment, or XHTML.
    is_html = PurePath(name or path).suffix.lower() in _HTML_EXTENSIONS
    try:
        if kind in _ZIPPED:
            limits = [max_cells] if kind in _SHEETS else []
            with open_archive(path, max_expanded_bytes) as archive:
                document = _ZIPPED[kind](archive, pictures, *limits)
        elif kind == "html" or (kind == "text" and is_html):
            document = _READ_HTML(path, pictures)
        elif kind == "rtf":
            document = _READ_RTF(path, pictures)
        elif kind == "text":
            document = read_text(path, name, pictures, max_cells)
        elif kind == "ole":
            text = f"The legacy format .{detect_ole_type(path)} can only be read as a PDF"
            raise UnsupportedFile(f"{text}: use via_pdf")
        else:
            raise UnsupportedFile(f"{kind!r} files are not office files")
    except (etree.LxmlError, RecursionError, ValueError, LookupError, OverflowError) as error:
        # Anything that is not as the format requires: an invalid number, a part without a root.
        raise FileCorrupt(f"The {kind} file is damaged and cannot be read") from error
    if not document.pages:
        raise FileCorrupt(f"There is nothing in the {kind} file: no sheet, no slide, no chapter")
    return document
