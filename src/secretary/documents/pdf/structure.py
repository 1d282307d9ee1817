"""What a tagged PDF says about its own structure: headings, items of lists, cells of tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from . import pdfium

MOST_ELEMENTS = 20_000
DEEPEST = 40
HEADING = re.compile(r"H([1-6])")
BLOCKS = frozenset(
    {"P", "Caption", "Note", "BlockQuote", "TOCI", "Figure", "Formula", "Index", "Title"}
)
ROWS = frozenset({"TR"})
CELLS = frozenset({"TD", "TH"})

Cell = list[int]


class Tag(NamedTuple):
    """What a piece of marked content belongs to."""

    #: H, LI, Code or P.
    kind: str
    #: Of a heading from 1; of an item from 0.
    level: int
    #: The same for all pieces of one paragraph, heading or item.
    block: int


@dataclass(slots=True)
class Structure:
    #: By the numbers of marked content on the page.
    tags: dict[int, Tag] = field(default_factory=dict)
    #: Rows of cells of numbers.
    tables: list[list[list[Cell]]] = field(default_factory=list)
    elements: int = 0

    @property
    def has_headings(self) -> bool:
        return any(tag.kind == "H" for tag in self.tags.values())


def read_structure(page: int) -> Structure:
    found = Structure()
    tree = pdfium.load_structure(page)
    if not tree:
        return found
    try:
        for number in range(max(pdfium.count_roots(tree), 0)):
            root = pdfium.get_root(tree, number)
            if root:
                _walk(found, root, None, 0, 0)
    finally:
        pdfium.close_structure(tree)
    return found


def _walk(found: Structure, element: int, tag: Tag | None, lists: int, depth: int) -> None:
    found.elements += 1
    if found.elements > MOST_ELEMENTS or depth > DEEPEST:
        return
    kind = _kind(element)
    if kind == "Table" and not _holds_table(element, 0):
        _add_table(found, element)
        return
    tag = _tag(kind, tag, lists, found.elements)
    for child, mark in _children(element):
        if child:
            _walk(found, child, tag, lists + (kind == "L"), depth + 1)
        elif mark >= 0:
            found.tags[mark] = tag or Tag("P", 0, found.elements)


def _tag(kind: str, tag: Tag | None, lists: int, number: int) -> Tag | None:
    if match := HEADING.fullmatch(kind):
        return Tag("H", int(match[1]), number)
    if kind == "LI":
        return Tag("LI", max(lists - 1, 0), number)
    if kind == "Code" and tag is None:
        return Tag("Code", 0, number)
    if kind == "Title":
        return Tag("H", 1, number)
    if kind in BLOCKS and (tag is None or tag.kind != "LI"):
        return Tag("P", 0, number)
    return tag


def _kind(element: int) -> str:
    buffer = pdfium.letters(64)
    written = pdfium.element_type(element, buffer, 64)
    if not 2 <= written <= 64:
        return ""
    return bytes(buffer)[: written - 2].decode("utf-16-le", "ignore")


def _children(element: int) -> Iterator[tuple[int | None, int]]:
    """Elements, or the numbers of marked content."""
    for number in range(max(pdfium.count_children(element), 0)):
        child = pdfium.get_child(element, number)
        yield child, -1 if child else pdfium.child_mark(element, number)


def _holds_table(element: int, depth: int) -> bool:
    """A table in a table is a way of arranging a page."""
    if depth > 6:
        return False
    return any(
        child and (_kind(child) == "Table" or _holds_table(child, depth + 1))
        for child, _ in _children(element)
    )


def _add_table(found: Structure, element: int) -> None:
    rows = [
        [list(_marks(cell, 0)) for cell in _below(row, CELLS, 0)]
        for row in _below(element, ROWS, 0)
    ]
    found.tables.append([row for row in rows if row])
    found.elements += sum(map(len, rows))


def _below(element: int, kinds: frozenset[str], depth: int) -> Iterator[int]:
    for child, _ in _children(element):
        if not child:
            continue
        if _kind(child) in kinds:
            yield child
        elif depth < 3:
            yield from _below(child, kinds, depth + 1)


def _marks(element: int, depth: int) -> Iterator[int]:
    for child, mark in _children(element):
        if child and depth < DEEPEST:
            yield from _marks(child, depth + 1)
        elif mark >= 0:
            yield mark
