"""The text of a PDF, page by page."""

from dataclasses import dataclass

from ...errors import InvalidParameters
from .document import opened_page, opened_pdf
from .native import read_page


@dataclass(frozen=True, slots=True)
class PdfText:
    page_count: int
    #: Page numbers begin with 1.
    pages: list[tuple[int, str]]


def read_text(path: str, password: str | None, first: int | None, last: int | None) -> PdfText:
    with opened_pdf(path, password) as document:
        count = len(document)
        first, last = first or 1, min(last or count, count)
        if first > last:
            raise InvalidParameters(f"page_start: the PDF has {count} pages")
        pages = []
        for number in range(first, last + 1):
            with opened_page(document, number) as page:
                pages.append((number, read_page(page).text))
        return PdfText(count, pages)
