"""Secretary's own extraction of the text layer, without jobs and files around it."""

from collections.abc import Callable

from secretary.processors.pdf.document import opened_page, opened_pdf
from secretary.processors.pdf.native import read_page
from secretary.processors.pdf.typography import Typography
from secretary.processors.running_lines import running_lines, without_running_lines
from secretary.version import __version__


def text_layer() -> tuple[str, Callable[[str], str]]:
    return __version__, _read


def _read(path: str) -> str:
    pages = []
    with opened_pdf(path) as document:
        typography = Typography(document)
        for number in range(1, len(document) + 1):
            with opened_page(document, number) as page:
                pages.append(read_page(page, typography).markdown)
    running = running_lines(pages)
    cleaned = (without_running_lines(page.strip(), running) for page in pages)
    return "\n\n".join(filter(None, cleaned))
