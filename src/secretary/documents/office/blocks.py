"""The document model that every office format is read into: blocks and their inline content."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ...core.errors import FileTooLarge, SecretaryError
from ..pages import Page


class Style(NamedTuple):
    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    #: The text is LaTeX.
    math: bool = False
    link: str | None = None

    def with_marks(self, other: "Style") -> "Style":
        return Style._make(mine or theirs for mine, theirs in zip(self, other, strict=True))


PLAIN = Style()


class Run(NamedTuple):
    """Text in one style; a line feed in it is a line break."""

    text: str
    style: Style = PLAIN


class Picture(NamedTuple):
    alt: str
    #: Its file name in the document's directory, None if it was not saved.
    file: str | None = None


class NoteReference(NamedTuple):
    """The reference to a note; the note with the same label follows."""

    label: str


Inline: TypeAlias = Run | Picture | NoteReference
Inlines: TypeAlias = Sequence[Inline]


class Heading(NamedTuple):
    level: int
    content: Inlines


class Paragraph(NamedTuple):
    content: Inlines


class Item(NamedTuple):
    """One list item. Levels start at 0."""

    level: int
    #: `-`, or a number with a full stop; empty for a further paragraph of the previous item.
    marker: str
    content: Inlines


class Code(NamedTuple):
    text: str
    language: str = ""


class Quote(NamedTuple):
    blocks: "Sequence[Block]"


class Table(NamedTuple):
    """A table whose cells contain blocks. Its first row becomes the header."""

    rows: "Sequence[Sequence[Cell]]"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table whose cells are strings: a sheet can have a million of them."""

    rows: Sequence[Sequence[str]]
    #: By row and column.
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)


class Note(NamedTuple):
    """A footnote, endnote or comment."""

    label: str
    blocks: "Sequence[Block]"


@dataclass(frozen=True, slots=True)
class Rule:
    pass


Block: TypeAlias = Heading | Paragraph | Item | Code | Quote | Table | Grid | Note | Rule
Cell: TypeAlias = Sequence[Block]


def plain_text(content: Inlines) -> str:
    """Return the plain text of inline content."""
    return "".join(inline.text for inline in content if isinstance(inline, Run))


def is_blank(content: Inlines) -> bool:
    """Return whether there is nothing visible."""
    return not plain_text(content).strip() and all(isinstance(inline, Run) for inline in content)


def with_author(blocks: "list[Block]", author: str | None) -> "list[Block]":
    """Put the name of its author in front of a comment."""
    if not author or not blocks or not isinstance(blocks[0], Paragraph):
        return blocks
    name = Run(f"{author}:", Style(italic=True))
    return [Paragraph([name, Run(" "), *blocks[0].content]), *blocks[1:]]


MAX_CELLS = 1_000_000
#: Longer or more complex cells are not repeated where they span rows.
REPEATED_CHARACTERS = 200
_MAX_ACROSS = 1000


class SpannedCell(NamedTuple):
    cell: Cell
    across: int = 1
    down: int = 1


def lay_out_cells(rows: Iterable[Sequence[SpannedCell]]) -> list[list[Cell]]:
    """Lay out rows as HTML has them, without the cells that others cover."""
    grid: list[list[Cell]] = []
    #: Column -> the cell that spans down into it, and for how many more rows.
    reaching: dict[int, tuple[Cell, int]] = {}
    count = 0
    for row in rows:
        line: list[Cell] = []
        for spanning in row:
            _fill(line, reaching)
            across = min(max(spanning.across, 1), _MAX_ACROSS)
            if spanning.down > 1:
                reaching[len(line)] = (repeatable_cell(spanning.cell), spanning.down - 1)
                for further in range(1, across):
                    reaching[len(line) + further] = ((), spanning.down - 1)
            line += [spanning.cell, *[()] * (across - 1)]
        _fill(line, reaching)
        count += max(len(line), 1)
        check_cell_count(count)
        grid.append(line)
    return grid


def check_cell_count(cells: int) -> None:
    if cells > MAX_CELLS:
        raise FileTooLarge(f"A table has more than {MAX_CELLS:,} cells", limit=MAX_CELLS)


def repeatable_cell(cell: Cell) -> Cell:
    """Return the cell, or an empty one if it is too long or complex to be repeated."""
    blocks = [block for block in cell if isinstance(block, Paragraph | Item)]
    inlines = [inline for block in blocks for inline in block.content]
    is_plain = len(blocks) == len(cell) and all(isinstance(inline, Run) for inline in inlines)
    return cell if is_plain and len(plain_text(inlines)) <= REPEATED_CHARACTERS else ()


def _fill(line: list[Cell], reaching: dict[int, tuple[Cell, int]]) -> None:
    while len(line) in reaching:
        cell, rows = reaching.pop(len(line))
        if rows > 1:
            reaching[len(line)] = (cell, rows - 1)
        line.append(cell)


MAX_PICTURES = 5000

#: Detected by content, since file names inside a document are not trustworthy.
_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg", b"GIF8": "gif", b"BM": "bmp",
    b"II*\x00": "tiff", b"MM\x00*": "tiff", b"\xd7\xcd\xc6\x9a": "wmf", b"\x01\x00\x09\x00": "wmf",
}  # fmt: skip


#: Formats that are converted to PNG.
_CONVERTED = (".gif", ".bmp", ".tiff", ".webp")
#: Larger pictures are not converted.
MAX_PIXELS = 40_000_000


class Pictures:
    """Saves the pictures of a document; without a directory none is saved."""

    def __init__(self, directory: str | None) -> None:
        self._directory = Path(directory) if directory is not None else None
        self._names: dict[bytes, str] = {}
        self._on_page: dict[str, None] = {}

    @property
    def are_saved(self) -> bool:
        return self._directory is not None

    def save(self, data: bytes) -> str | None:
        """Save a picture and return its file name; None if it is not saved or not an image."""
        extensions = (name for start, name in _BEGINNINGS.items() if data.startswith(start))
        extension = next(extensions, None)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            extension = "webp"
        elif data[40:44] == b" EMF":
            extension = "emf"
        elif b"<svg" in data[:1024]:
            extension = "svg"
        if self._directory is None or extension is None:
            return None
        digest = hashlib.sha256(data).digest()
        name = self._names.get(digest)
        if name is None:
            if len(self._names) >= MAX_PICTURES:
                text = f"The document has more than {MAX_PICTURES} pictures"
                raise FileTooLarge(text, limit=MAX_PICTURES)
            # Not `image_001`: that is what the images of pages are called.
            path = self._directory / f"img-{len(self._names) + 1:03}.{extension}"
            path.write_bytes(data)
            name = self._names[digest] = convert_to_png(path).name
        self._on_page[name] = None
        return name

    def end_page(self) -> tuple[str, ...]:
        """Return the pictures of the page that ends here."""
        names, self._on_page = tuple(self._on_page), {}
        return names


def convert_to_png(path: Path) -> Path:
    """Convert a picture in a format that many programs cannot display; return its new path. It
    stays as it is if it cannot be decoded."""
    if path.suffix not in _CONVERTED:
        return path
    from ..ocr.images import open_frame  # loads an image library

    try:
        picture = open_frame(str(path), 1, max_pixels=MAX_PIXELS)
    except SecretaryError:
        return path
    converted = path.with_suffix(".png")
    picture.save(converted, "PNG")
    path.unlink()
    return converted


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeDocument:
    pages: list[Page]
    #: Title, author and the like, as far as the file contains them.
    facts: Mapping[str, Any] = field(default_factory=dict)
