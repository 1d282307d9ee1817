"""The result of reading an office file: its pages and pictures."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import FileTooLarge
from ..page_store import Page
from .blocks import Block
from .markdown import to_markdown, to_text

MAX_PICTURES = 5000

#: Detected by content, since file names inside a document are not trustworthy.
_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"\xd7\xcd\xc6\x9a", "wmf"),
    (b"\x01\x00\x09\x00", "wmf"),
)


class Pictures:
    """Saves the pictures of a document; without a directory none is saved."""

    def __init__(self, directory: str | None) -> None:
        self._directory = Path(directory) if directory is not None else None
        self._names: dict[bytes, str] = {}
        self._on_page: dict[str, None] = {}

    @property
    def are_kept(self) -> bool:
        return self._directory is not None

    def keep(self, data: bytes) -> str | None:
        """Save a picture and return its file name; None if it is not saved or not an image."""
        extension = _extension(data)
        if self._directory is None or extension is None:
            return None
        digest = hashlib.sha256(data).digest()
        name = self._names.get(digest)
        if name is None:
            if len(self._names) >= MAX_PICTURES:
                text = f"The document has more than {MAX_PICTURES} pictures"
                raise FileTooLarge(text, limit=MAX_PICTURES)
            name = f"image_{len(self._names) + 1:03}.{extension}"
            (self._directory / name).write_bytes(data)
            self._names[digest] = name
        self._on_page[name] = None
        return name

    def turn_page(self) -> tuple[str, ...]:
        """Return the pictures of the page that ends here."""
        names = tuple(self._on_page)
        self._on_page.clear()
        return names


def _extension(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data[40:44] == b" EMF":
        return "emf"
    if b"<svg" in data[:1024]:
        return "svg"
    return next((name for start, name in _BEGINNINGS if data.startswith(start)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeDocument:
    pages: list[Page]
    #: Title, author and the like, as far as the file contains them.
    facts: Mapping[str, Any] = field(default_factory=dict)


def page_of(number: int, blocks: Sequence[Block], pictures: Pictures, **facts: Any) -> Page:
    return Page(
        number=number,
        text=to_text(blocks),
        markdown=to_markdown(blocks),
        pictures=pictures.turn_page(),
        facts=facts,
    )
