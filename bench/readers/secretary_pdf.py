"""Secretary's own extraction of the text layer, without jobs and files around it."""

from collections.abc import Callable

from secretary.documents.assembly import find_headers_footers, strip_headers_footers
from secretary.documents.pdf.pages import FontStats, read_page
from secretary.documents.pdf.pdfium import open_page, open_pdf
from secretary.version import __version__


def text_layer() -> tuple[str, Callable[[str], str]]:
    return __version__, _read


def _read(path: str) -> str:
    pages = []
    with open_pdf(path) as document:
        typography = FontStats(document)
        for number in range(1, len(document) + 1):
            with open_page(document, number) as page:
                pages.append(read_page(page, typography).markdown)
    running = find_headers_footers(pages)
    cleaned = (strip_headers_footers(page.strip(), running) for page in pages)
    return "\n\n".join(filter(None, cleaned))
