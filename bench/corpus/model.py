"""The content and style of a generated document, and its Markdown."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Rules = Literal["grid", "lines", "none", "zebra"]
A4, A5, LETTER, SLIDE = (595, 842), (420, 595), (612, 792), (720, 405)


@dataclass(frozen=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """Words between `**` are bold. A boxed paragraph has a frame, but is no table."""

    text: str
    boxed: bool = False
    small: bool = False
    footnote: str | None = None


@dataclass(frozen=True)
class Entry:
    text: str
    entries: tuple["Entry", ...] = ()


@dataclass(frozen=True)
class Listing:
    entries: tuple[Entry, ...]
    numbered: bool = False


@dataclass(frozen=True)
class Table:
    """The first row is the header; `figures` are the right-aligned columns."""

    rows: tuple[tuple[str, ...], ...]
    figures: frozenset[int] = frozenset()
    #: Relative widths of the columns.
    widths: tuple[int, ...] = ()

    def shares(self) -> list[float]:
        widths = self.widths or (1,) * len(self.rows[0])
        return [width / sum(widths) for width in widths]


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class NewPage:
    pass


Block = Heading | Paragraph | Listing | Table | Code | NewPage


@dataclass(frozen=True)
class Style:
    page: tuple[int, int] = A4
    margin: int = 60
    columns: int = 1
    serif: bool = False
    size: float = 10.5
    justified: bool = False
    rules: Rules = "grid"
    #: Sizes of headings by level, as multiples of `size`.
    heads: tuple[float, ...] = (1.7, 1.35, 1.15)
    heads_bold: bool = True
    heads_centred: bool = False
    running_head: str | None = None
    page_numbers: bool = False
    #: Before and after the page number.
    number_marks: tuple[str, str] = ("", "")
    #: Whether a table repeats its header on the next page.
    heads_again: bool = False


@dataclass(frozen=True)
class Document:
    language: Literal["en", "de"]
    blocks: tuple[Block, ...]
    style: Style = field(default_factory=Style)

    def markdown(self) -> str:
        return "\n\n".join(part for block in self.blocks for part in _markdown(block)) + "\n"


def plain(text: str) -> str:
    return text.replace("**", "")


def spans(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a text, and whether each is bold."""
    for index, part in enumerate(text.split("**")):
        if part:
            yield part, index % 2 == 1


def _markdown(block: Block) -> Iterator[str]:
    match block:
        case Heading(level, text):
            yield f"{'#' * level} {text}"
        case Paragraph(text=text, footnote=footnote):
            yield text
            if footnote:
                yield footnote
        case Listing(entries, numbered):
            yield "\n".join(_entries(entries, numbered, indent=""))
        case Table(rows):
            head, *others = [f"| {' | '.join(cells)} |" for cells in rows]
            yield "\n".join([head, "|" + " --- |" * len(rows[0]), *others])
        case Code(text):
            yield f"```\n{text}\n```"


def _entries(entries: tuple[Entry, ...], numbered: bool, indent: str) -> Iterator[str]:
    for number, entry in enumerate(entries, 1):
        mark = f"{number}." if numbered else "-"
        yield f"{indent}{mark} {entry.text}"
        yield from _entries(entry.entries, False, indent + " " * (len(mark) + 1))
