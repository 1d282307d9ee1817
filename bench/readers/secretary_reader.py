"""This project's own reading of the text layer, without jobs and files around it."""

from secretary.documents.assembly import running_lines, without_running_lines
from secretary.documents.pdf.document import opened_page, opened_pdf
from secretary.documents.pdf.font_stats import Typography
from secretary.documents.pdf.pages import read_page
from secretary.version import __version__ as VERSION  # noqa: F401


def read(path: str) -> str:
    pages = []
    with opened_pdf(path) as document:
        typography = Typography(document)
        for number in range(1, len(document) + 1):
            with opened_page(document, number) as page:
                pages.append(read_page(page, typography).markdown)
    running = running_lines(pages)
    left = (without_running_lines(page.strip(), running) for page in pages)
    return "\n\n".join(filter(None, left))
