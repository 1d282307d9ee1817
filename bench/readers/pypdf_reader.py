"""pypdf's plain text."""

from importlib.metadata import version

import pypdf  # type: ignore[import-not-found]  # only in its own environment

VERSION = version("pypdf")


def read(path: str) -> str:
    return "\n\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages)
