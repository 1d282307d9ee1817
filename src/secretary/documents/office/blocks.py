"""The document model that every office format is read into: blocks and their inline content."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ...core.errors import FileTooLarge


class Style(NamedTuple):
    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    #: The text is LaTeX.
    math: bool = False
    link: str | None = None

    def with_marks(self, other: "Style") -> "Style":
        return self._replace(
            bold=self.bold or other.bold,
            italic=self.italic or other.italic,
            strike=self.strike or other.strike,
            code=self.code or other.code,
        )


PLAIN = Style()


class Run(NamedTuple):
    """Text in one style; a line feed in it is a line break."""

    text: str
    style: Style = PLAIN


class Picture(NamedTuple):
    alt: str
    #: Its file name in the document's directory, None if it was not saved.
    file: str | None = None


class NoteMark(NamedTuple):
    """The reference to a note; the note with the same label follows."""

    label: str


Inline: TypeAlias = Run | Picture | NoteMark
Inlines: TypeAlias = Sequence[Inline]


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    content: Inlines


@dataclass(frozen=True, slots=True)
class Paragraph:
    content: Inlines


@dataclass(frozen=True, slots=True)
class Item:
    """One list item. Levels start at 0."""

    level: int
    #: `-`, or a number with a full stop; empty for a further paragraph of the previous item.
    marker: str
    content: Inlines


@dataclass(frozen=True, slots=True)
class Code:
    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Quote:
    blocks: "Sequence[Block]"


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose cells contain blocks. Its first row becomes the header."""

    rows: "Sequence[Sequence[Cell]]"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table whose cells are strings: a sheet can have a million of them."""

    rows: Sequence[Sequence[str]]
    #: By row and column.
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Note:
    """A footnote, endnote or comment."""

    label: str
    blocks: "Sequence[Block]"


@dataclass(frozen=True, slots=True)
class Rule:
    pass


Block: TypeAlias = Heading | Paragraph | Item | Code | Quote | Table | Grid | Note | Rule
Cell: TypeAlias = Sequence[Block]


def words(content: Inlines) -> str:
    """Return the plain text of inline content."""
    return "".join(inline.text for inline in content if isinstance(inline, Run))


def is_blank(content: Inlines) -> bool:
    """Return whether there is nothing visible."""
    return not words(content).strip() and all(isinstance(inline, Run) for inline in content)


def signed(blocks: "list[Block]", author: str | None) -> "list[Block]":
    """Put the name of its author in front of a comment."""
    if not author or not blocks or not isinstance(blocks[0], Paragraph):
        return blocks
    name = Run(f"{author}:", Style(italic=True))
    return [Paragraph([name, Run(" "), *blocks[0].content]), *blocks[1:]]


MAX_CELLS = 1_000_000
#: Longer or more complex cells are not repeated where they span rows.
REPEATED_CHARACTERS = 200
_MAX_ACROSS = 1000


class Spanning(NamedTuple):
    cell: Cell
    across: int = 1
    down: int = 1


def laid_out(rows: Iterable[Sequence[Spanning]]) -> list[list[Cell]]:
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
                reaching[len(line)] = (repeated(spanning.cell), spanning.down - 1)
                for further in range(1, across):
                    reaching[len(line) + further] = ((), spanning.down - 1)
            line.append(spanning.cell)
            line.extend([()] * (across - 1))
        _fill(line, reaching)
        count += max(len(line), 1)
        refuse_beyond(count)
        grid.append(line)
    return grid


def refuse_beyond(cells: int) -> None:
    if cells > MAX_CELLS:
        raise FileTooLarge(f"A table has more than {MAX_CELLS:,} cells", limit=MAX_CELLS)


def _fill(line: list[Cell], reaching: dict[int, tuple[Cell, int]]) -> None:
    while len(line) in reaching:
        cell, rows = reaching.pop(len(line))
        if rows > 1:
            reaching[len(line)] = (cell, rows - 1)
        line.append(cell)


def repeated(cell: Cell) -> Cell:
    size = 0
    for block in cell:
        if not isinstance(block, Paragraph | Item):
            return ()
        if not all(isinstance(inline, Run) for inline in block.content):
            return ()
        size += len(words(block.content))
    return cell if size <= REPEATED_CHARACTERS else ()
