"""pdf-inspector's Markdown of the text layer."""

from importlib.metadata import version

import pdf_inspector  # type: ignore[import-not-found]  # only in its own environment

VERSION = version("pdf-inspector")


def read(path: str) -> str:
    return str(pdf_inspector.process_pdf(path).markdown or "")
