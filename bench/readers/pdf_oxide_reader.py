"""pdf_oxide's Markdown, without running heads and feet where it knows them."""

from importlib.metadata import version

import pdf_oxide  # type: ignore[import-not-found]  # only in its own environment

VERSION = version("pdf_oxide")


def read(path: str) -> str:
    return str(pdf_oxide.PdfDocument(path).to_markdown_all())
