"""PDF files, opened, or refused by name."""

from collections.abc import Iterator
from contextlib import contextmanager

import pypdfium2

from ...errors import FileCorrupt, FileEncrypted

#: PDFium's own number for a missing or wrong password.
WRONG_PASSWORD = 4


@contextmanager
def opened_pdf(path: str, password: str | None = None) -> Iterator[pypdfium2.PdfDocument]:
    try:
        document = pypdfium2.PdfDocument(path, password=password)
    except pypdfium2.PdfiumError as error:
        if error.err_code == WRONG_PASSWORD:
            raise FileEncrypted("The PDF needs a password, or another one") from None
        raise FileCorrupt("The PDF is damaged and cannot be opened") from None
    with document:
        yield document


@contextmanager
def opened_page(document: pypdfium2.PdfDocument, number: int) -> Iterator[pypdfium2.PdfPage]:
    """Page numbers begin with 1."""
    try:
        page = document[number - 1]
    except pypdfium2.PdfiumError:
        raise FileCorrupt(f"Page {number} of the PDF is damaged", page=number) from None
    try:
        yield page
    finally:
        page.close()
