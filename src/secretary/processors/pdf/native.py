"""The text layer of a page."""

from dataclasses import dataclass

import pypdfium2


@dataclass(frozen=True, slots=True)
class NativePage:
    text: str
    markdown: str
    #: Why the text layer is of no use, None if it is: no text, garbage, a scan behind it.
    fault: str | None = None


def read_page(page: pypdfium2.PdfPage) -> NativePage:
    text_page = page.get_textpage()
    try:
        text: str = text_page.get_text_bounded().replace("\r\n", "\n")
    finally:
        text_page.close()
    return NativePage(text, text, None if text.strip() else "The page has no text")
