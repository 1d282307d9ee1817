"""PDF files, opened, or refused by name."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pypdfium2.raw

from ...core.errors import FileCorrupt, FileEncrypted

#: Bytes: the mended file is held in memory, beside what QPDF holds of the torn one.
LARGEST = 200 * 1024 * 1024

DAMAGED = "The PDF is damaged and cannot be opened"


def repaired_pdf(path: str, password: str | None) -> bytes:
    # Hardly ever needed, and it takes a while to load.
    import pikepdf

    if Path(path).stat().st_size > LARGEST:
        raise FileCorrupt(DAMAGED)
    mended = io.BytesIO()
    try:
        with pikepdf.open(path, password=password or "", suppress_warnings=True) as document:
            if not len(document.pages):
                raise FileCorrupt(DAMAGED)
            document.save(mended, fix_metadata_version=False)
    except pikepdf.PasswordError:
        raise FileEncrypted("The PDF needs a password, or another one") from None
    except (pikepdf.PdfError, ValueError, RuntimeError):
        raise FileCorrupt(DAMAGED) from None
    return mended.getvalue()


#: PDFium's own number for a missing or wrong password.
WRONG_PASSWORD = 4
FLATTENED = pypdfium2.raw.FLATTEN_SUCCESS

_flatten = pypdfium2.raw.FPDFPage_Flatten


#: A file is looked at from its end, in pieces of this size.
PIECE = 64 * 1024
ENDS = (b"%%EOF", b"startxref")
OBJECT = b"endobj"


def require_complete(path: str) -> None:
    """Much of a file that was cut short can be read, but nobody knows how much is missing. Behind
    its end there may be anything but further objects."""
    with open(path, "rb") as file:
        place, later = file.seek(0, os.SEEK_END), b""
        while place > 0:
            size = min(PIECE, place)
            place -= size
            file.seek(place)
            piece = file.read(size) + later
            end, other = max(map(piece.rfind, ENDS)), piece.rfind(OBJECT)
            if end > other:
                return
            if other >= 0:
                break
            later = piece[: len(max(ENDS, key=len))]  # a word may lie across the border
    raise FileCorrupt("The PDF is cut short: its end is missing")


class PdfFile(pypdfium2.PdfDocument):  # type: ignore[misc]  # it has no types
    """An open PDF that knows which file it is of."""

    def __init__(self, source: str | bytes, path: str, password: str | None = None) -> None:
        super().__init__(source, password=password)
        state = os.stat(path)
        #: Another for another file, or for the same after a change.
        self.identity = (path, state.st_ino, state.st_size, state.st_mtime_ns)
        self.is_tagged = bool(pypdfium2.raw.FPDFCatalog_IsTagged(self))
        self.has_form = pypdfium2.raw.FPDF_GetFormType(self) != pypdfium2.raw.FORMTYPE_NONE


class RepairedPdf(PdfFile):
    """What could be saved of a torn file: some of it may be missing."""


@contextmanager
def open_pdf(path: str, password: str | None = None) -> Iterator[PdfFile]:
    with _opened(path, password) as document:
        yield document


def _opened(path: str, password: str | None) -> PdfFile:
    try:
        document = PdfFile(path, path, password)
    except pypdfium2.PdfiumError as error:
        if error.err_code == WRONG_PASSWORD:
            raise FileEncrypted("The PDF needs a password, or another one") from None
        return _mended(path, password)
    if not len(document):
        document.close()
        return _mended(path, password)
    return document


def _mended(path: str, password: str | None) -> PdfFile:
    content = repaired_pdf(path, password)
    try:
        return RepairedPdf(content, path)
    except pypdfium2.PdfiumError:
        raise FileCorrupt(DAMAGED) from None


class BarePage(pypdfium2.PdfPage):  # type: ignore[misc]  # it has no types
    """A page without pypdfium2's own bookkeeping, which takes longer than a short page does."""

    def __init__(self, raw: Any, document: pypdfium2.PdfDocument) -> None:
        self.raw, self.pdf, self.formenv = raw, document, None


@contextmanager
def open_page(document: PdfFile, number: int) -> Iterator[pypdfium2.PdfPage]:
    """Page numbers begin with 1. What is opened from the page has to be closed before it."""
    raw = _loaded(document, number)
    if document.has_form and _flatten(raw, pypdfium2.raw.FLAT_NORMALDISPLAY) == FLATTENED:
        # What was filled in is part of the page only when it is read again.
        pypdfium2.raw.FPDF_ClosePage(raw)
        raw = _loaded(document, number)
    page = BarePage(raw, document)
    try:
        yield page
    except pypdfium2.PdfiumError:
        raise FileCorrupt(f"Page {number} of the PDF is damaged", page=number) from None
    finally:
        page.raw = None
        pypdfium2.raw.FPDF_ClosePage(raw)


def _loaded(document: PdfFile, number: int) -> Any:
    raw = pypdfium2.raw.FPDF_LoadPage(document, number - 1)
    if not raw:
        raise FileCorrupt(f"Page {number} of the PDF is damaged", page=number)
    return raw
