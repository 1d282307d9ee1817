"""PDFium's text as it comes, with nothing around it."""

from importlib.metadata import version

import pypdfium2

VERSION = version("pypdfium2")


def read(path: str) -> str:
    pages = []
    with pypdfium2.PdfDocument(path) as document:
        for number in range(len(document)):
            page = document[number]
            text_page = page.get_textpage()
            pages.append(text_page.get_text_bounded())
            text_page.close()
            page.close()
    return "\n\n".join(pages)
