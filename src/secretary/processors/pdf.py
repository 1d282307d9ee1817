"""The text of PDF files. PDFium is not thread-safe: this runs in a process of its own."""

from dataclasses import dataclass

import pypdfium2

from ..errors import FileCorrupt, FileEncrypted, InvalidParameters

#: PDFium's own number for a missing or wrong password.
WRONG_PASSWORD = 4


@dataclass(frozen=True, slots=True)
class PdfText:
    page_count: int
    #: Page numbers begin with 1.
    pages: list[tuple[int, str]]


def read_text(path: str, password: str | None, first: int | None, last: int | None) -> PdfText:
    try:
        document = pypdfium2.PdfDocument(path, password=password)
    except pypdfium2.PdfiumError as error:
        if error.err_code == WRONG_PASSWORD:
            raise FileEncrypted("The PDF needs a password, or another one") from None
        raise FileCorrupt("The PDF is damaged and cannot be opened") from None
    with document:
        count = len(document)
        first, last = first or 1, min(last or count, count)
        if first > last:
            raise InvalidParameters(f"page_start: the PDF has {count} pages")
        return PdfText(count, [(n, _text(document, n)) for n in range(first, last + 1)])


def _text(document: pypdfium2.PdfDocument, number: int) -> str:
    try:
        page = document[number - 1]
        text = page.get_textpage()
        content: str = text.get_text_bounded()
    except pypdfium2.PdfiumError:
        raise FileCorrupt(f"Page {number} of the PDF is damaged") from None
    text.close()
    page.close()
    return content.replace("\r\n", "\n")
