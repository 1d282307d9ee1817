"""markitdown as its users call it."""

from importlib.metadata import version

from markitdown import MarkItDown  # type: ignore[import-not-found]  # only in its own environment

VERSION = version("markitdown")
CONVERTER = MarkItDown()


def read(path: str) -> str:
    return str(CONVERTER.convert(path).markdown)
