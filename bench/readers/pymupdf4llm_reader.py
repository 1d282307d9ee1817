"""pymupdf4llm on PyMuPDF (AGPL: measured, never shipped)."""

from importlib.metadata import version

import pymupdf4llm  # type: ignore[import-not-found]  # only in its own environment

VERSION = version("pymupdf4llm")


def read(path: str) -> str:
    return str(pymupdf4llm.to_markdown(path, show_progress=False))
