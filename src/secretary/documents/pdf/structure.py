"""Reads the structure tree of a tagged PDF: headings, list items and table cells."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from . import pdfium

MAX_ELEMENTS = 20_000
MAX_DEPTH = 40
HEADING = re.compile(r"H([1-6])")
BLOCKS = frozenset(
    {"P", "Caption", "Note", "BlockQuote", "TOCI", "Figure", "Formula", "Index", "Title"}
)
_ROWS = frozenset({"TR"})
_CELLS = frozenset({"TD", "TH"})

Cell = list[int]


class Tag(NamedTuple):
    """The structure element that marked content belongs to."""

    #: H, LI, Code or P.
    kind: str
    #: Of a heading from 1, of a list item from 0.
    level: int
    #: Shared by all content of one paragraph, heading or list item.
    block: int


@dataclass(slots=True)
class Structure:
    """The structure of one page."""

    #: By marked-content ID (MCID).
    tags: dict[int, Tag] = field(default_factory=dict)
    #: Rows of cells, each a list of MCIDs.
    tables: list[list[list[Cell]]] = field(default_factory=list)
    elements: int = 0

    @property
    def has_headings(self) -> bool:
        return any(tag.kind == "H" for tag in self.tags.values())


def read_structure(page: int) -> Structure:
    structure = Structure()
    tree = pdfium.load_structure(page)
    if not tree:
        return structure
    try:
        for number in range(max(pdfium.count_roots(tree), 0)):
            root = pdfium.get_root(tree, number)
            if root:
                _walk(structure, root, None, 0, 0)
    finally:
        pdfium.close_structure(tree)
    return structure


def _walk(structure: Structure, element: int, tag: Tag | None, lists: int, depth: int) -> None:
    structure.elements += 1
    if structure.elements > MAX_ELEMENTS or depth > MAX_DEPTH:
        return
    kind = _kind(element)
    if kind == "Table" and not _contains_table(element, 0):
        _add_table(structure, element)
        return
    tag = _tag(kind, tag, lists, structure.elements)
    for child, mcid in _children(element):
        if child:
            _walk(structure, child, tag, lists + (kind == "L"), depth + 1)
        elif mcid >= 0:
            structure.tags[mcid] = tag or Tag("P", 0, structure.elements)


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
    buffer = pdfium.chars(64)
    written = pdfium.element_type(element, buffer, 64)
    if not 2 <= written <= 64:
        return ""
    return bytes(buffer)[: written - 2].decode("utf-16-le", "ignore")


def _children(element: int) -> Iterator[tuple[int | None, int]]:
    """Yield child elements, or MCIDs of marked content."""
    for number in range(max(pdfium.count_children(element), 0)):
        child = pdfium.get_child(element, number)
        yield child, -1 if child else pdfium.child_mcid(element, number)


def _contains_table(element: int, depth: int) -> bool:
    """Return whether a table contains another one, so that it is used for page layout."""
    if depth > 6:
        return False
    return any(
        child and (_kind(child) == "Table" or _contains_table(child, depth + 1))
        for child, _ in _children(element)
    )


def _add_table(structure: Structure, element: int) -> None:
    rows = [
        [list(_mcids(cell, 0)) for cell in _descendants(row, _CELLS, 0)]
        for row in _descendants(element, _ROWS, 0)
    ]
    structure.tables.append([row for row in rows if row])
    structure.elements += sum(map(len, rows))


def _descendants(element: int, kinds: frozenset[str], depth: int) -> Iterator[int]:
    for child, _ in _children(element):
        if not child:
            continue
        if _kind(child) in kinds:
            yield child
        elif depth < 3:
            yield from _descendants(child, kinds, depth + 1)


def _mcids(element: int, depth: int) -> Iterator[int]:
    for child, mcid in _children(element):
        if child and depth < MAX_DEPTH:
            yield from _mcids(child, depth + 1)
        elif mcid >= 0:
            yield mcid
