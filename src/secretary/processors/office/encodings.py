"""Text of unknown encoding."""

import codecs
import re
from pathlib import Path

from ...errors import FileTooLarge
from .archive import MIB

MAX_TEXT_BYTES = 64 * MIB
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I
)
_DECLARED_WITHIN = 4096


def text_at(path: str) -> bytes:
    size = Path(path).stat().st_size
    if size > MAX_TEXT_BYTES:
        raise FileTooLarge("The text is larger than allowed", limit_bytes=MAX_TEXT_BYTES)
    return Path(path).read_bytes()


def decoded(data: bytes) -> str:
    """By its mark, else as UTF-8, else as Windows writes it in the west: that never fails."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def decoded_markup(data: bytes) -> str:
    """As HTML and XML declare it, unless a mark says otherwise."""
    found = _DECLARED.search(data[:_DECLARED_WITHIN])
    if found and not data.startswith(tuple(mark for mark, _ in _MARKS)):
        try:
            name = codecs.lookup(found[1].decode("ascii")).name
            # What declares itself Latin-1 is Windows' variant of it on the web.
            return data.decode("cp1252" if name in ("iso8859-1", "ascii") else name, "replace")
        except (LookupError, UnicodeError):
            pass
    return decoded(data)
