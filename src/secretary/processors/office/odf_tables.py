"""Rows and cells of OpenDocument tables, whose repetitions are written once."""

from collections.abc import Iterator

from .spans import refuse_beyond
from .xml_parts import Element, integer

TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
#: What a sheet can have at most: more is a lie.
_MAX_ROWS, _MAX_COLUMNS = 1_048_576, 16_384
_GROUPS = {f"{TABLE}{name}" for name in ("table-header-rows", "table-rows", "table-row-group")}


def rows_of(table: Element) -> Iterator[tuple[Element, int]]:
    """Each row, and how many times it is there."""
    for child in table:
        if child.tag == f"{TABLE}table-row":
            yield child, repeats(child, "number-rows-repeated", _MAX_ROWS)
        elif child.tag in _GROUPS:
            yield from rows_of(child)


def cells_of(row: Element) -> Iterator[tuple[Element, int, bool]]:
    """Each cell, how many times it is there, and whether another covers it."""
    for cell in row.iterchildren(f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
        count = repeats(cell, "number-columns-repeated", _MAX_COLUMNS)
        yield cell, count, cell.tag == f"{TABLE}covered-table-cell"


def spanning_rows(table: Element) -> Iterator[list[tuple[Element, int, int]]]:
    """For small tables: every cell that is not covered, with its width and height."""
    for row, times in rows_of(table):
        cells: list[tuple[Element, int, int]] = []
        for cell, count, is_covered in cells_of(row):
            if not is_covered:
                across = repeats(cell, "number-columns-spanned")
                down = repeats(cell, "number-rows-spanned")
                cells += [(cell, across, down)] * count
                refuse_beyond(len(cells))
        for _ in range(times):
            yield cells


def repeats(element: Element, name: str, largest: int = 1000) -> int:
    return min(max(integer(element.get(f"{TABLE}{name}"), 1), 1), largest)
