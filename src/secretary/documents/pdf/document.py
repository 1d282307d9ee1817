"""Opens PDF files, repairing damaged ones where possible."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pypdfium2.raw

from ...core.errors import FileCorrupt, FileEncrypted

#: Bytes. The repaired file is held in memory, in addition to what QPDF needs.
MAX_REPAIR_BYTES = 200 * 1024 * 1024

DAMAGED = "The PDF is damaged and cannot be opened"


def _repair_content(path: str, password: str | None) -> bytes:
    # Rarely needed, and slow to import.
    import pikepdf

    if Path(path).stat().st_size > MAX_REPAIR_BYTES:
        raise FileCorrupt(DAMAGED)
    rebuild_words = io.BytesIO()
    try:
        with pikepdf.open(path, password=password or "", suppress_warnings=True) as document:
            if not len(document.pages):
                raise FileCorrupt(DAMAGED)
            document.save(rebuild_words, fix_metadata_version=False)
    except pikepdf.PasswordError:
        raise FileEncrypted("The PDF is encrypted: the password is missing or wrong") from None
    except (pikepdf.PdfError, ValueError, RuntimeError):
        raise FileCorrupt(DAMAGED) from None
    return rebuild_words.getvalue()


#: PDFium's error code for a missing or wrong password.
WRONG_PASSWORD = 4
FLATTEN_SUCCESS = pypdfium2.raw.FLATTEN_SUCCESS

_flatten = pypdfium2.raw.FPDFPage_Flatten


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
        self.is_tagged = bool(pypdfium2.raw.FPDFCatalog_IsTagged(self))
        self.has_form = pypdfium2.raw.FPDF_GetFormType(self) != pypdfium2.raw.FORMTYPE_NONE


class RepairedPdf(PdfFile):
    """A damaged file as far as it could be repaired: some content may be missing."""


@contextmanager
def open_pdf(path: str, password: str | None = None) -> Iterator[PdfFile]:
    with _open(path, password) as document:
        yield document


def _open(path: str, password: str | None) -> PdfFile:
    try:
        document = PdfFile(path, path, password)
    except pypdfium2.PdfiumError as error:
        if error.err_code == WRONG_PASSWORD:
            raise FileEncrypted("The PDF is encrypted: the password is missing or wrong") from None
        return _open_repaired(path, password)
    if not len(document):
        document.close()
        return _open_repaired(path, password)
    return document


def _open_repaired(path: str, password: str | None) -> PdfFile:
    content = _repair_content(path, password)
    try:
        return RepairedPdf(content, path)
    except pypdfium2.PdfiumError:
        raise FileCorrupt(DAMAGED) from None


class BarePage(pypdfium2.PdfPage):  # type: ignore[misc]  # untyped library
    """A page without pypdfium2's bookkeeping, which takes longer than reading a short page."""

    def __init__(self, raw: Any, document: pypdfium2.PdfDocument) -> None:
        self.raw, self.pdf, self.formenv = raw, document, None


@contextmanager
def open_page(document: PdfFile, number: int) -> Iterator[pypdfium2.PdfPage]:
    """Open a page; numbers start at 1. Close everything opened from the page before it."""
    raw = _load_page(document, number)
    if document.has_form and _flatten(raw, pypdfium2.raw.FLAT_NORMALDISPLAY) == FLATTEN_SUCCESS:
        # Flattened form fields appear only after the page is loaded again.
        pypdfium2.raw.FPDF_ClosePage(raw)
        raw = _load_page(document, number)
    page = BarePage(raw, document)
    try:
        yield page
    except pypdfium2.PdfiumError:
        raise FileCorrupt(f"Page {number} of the PDF is damaged", page=number) from None
    finally:
        page.raw = None
        pypdfium2.raw.FPDF_ClosePage(raw)


def _load_page(document: PdfFile, number: int) -> Any:
    raw = pypdfium2.raw.FPDF_LoadPage(document, number - 1)
    if not raw:
        raise FileCorrupt(f"Page {number} of the PDF is damaged", page=number)
    return raw
