"""Merged cells laid out on a grid.

Down, the text is repeated, so that each row can be read by itself; across, it stands once.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...errors import FileTooLarge
from .blocks import Cell, Item, Paragraph, Run, words

MAX_CELLS = 1_000_000
#: What is longer, or more than text, would only swell the table.
REPEATED_CHARACTERS = 200
_MAX_ACROSS = 1000


class Spanning(NamedTuple):
    cell: Cell
    across: int = 1
    down: int = 1


def laid_out(rows: Iterable[Sequence[Spanning]]) -> list[list[Cell]]:
    """Rows as HTML has them: cells that are covered by others are not among them."""
    grid: list[list[Cell]] = []
    #: Column -> what reaches down into it, and for how many more rows.
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
