"""PyMuPDF's plain text (AGPL: measured, never shipped)."""

from importlib.metadata import version

import pymupdf  # type: ignore[import-not-found]  # only in its own environment

VERSION = version("pymupdf")


def read(path: str) -> str:
    with pymupdf.open(path) as document:
        return "\n\n".join(page.get_text() for page in document)
