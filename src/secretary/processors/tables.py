"""Tables among recognised lines: rows whose words leave the same gaps."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from ..engines.ocr import Line
from .escapes import print_escaped
from .pipe_tables import pipe_table

#: A gap between words that is so many letters' heights wide parts two cells.
WIDE_GAP = 2.2
MIN_ROWS = 3
#: Longer cells are columns of a text.
MAX_CELL_CHARACTERS = 60
MARK = re.compile(r"[^\w\s]|(\d{1,3}|[A-Za-z])[.)]|[eo]")


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Table:
    #: Of equal length; the first is the heading.
    rows: list[list[str]]

    def markdown(self) -> str:
        return pipe_table(
            [[print_escaped(text).replace("|", "\\|") for text in row] for row in self.rows]
        )


def with_tables(lines: Sequence[Line]) -> Iterator[list[Line] | Table]:
    """The lines in their order, with tables in place of those that are their rows."""
    plain: list[Line] = []
    for _, block in groupby(lines, key=lambda line: line.block):
        for has_cells, group in groupby(block, key=lambda line: len(_cells(line)) > 1):
            rows = list(group)
            table = _table(rows) if has_cells else None
            if table is None:
                plain += rows
                continue
            if plain:
                yield plain
            yield table
            plain = []
    if plain:
        yield plain


def _cells(line: Line) -> list[Cell]:
    cells: list[Cell] = []
    for word in line.words:
        if cells and word.left - cells[-1].right <= WIDE_GAP * line.height:
            last = cells.pop()
            word_left, text = last.left, f"{last.text} {word.text}"
        else:
            word_left, text = word.left, word.text
        cells.append(Cell(text, word_left, word.right))
    return cells


def _table(lines: Sequence[Line]) -> Table | None:
    rows = [_cells(line) for line in lines]
    columns = _columns(rows)
    if len(rows) < MIN_ROWS or len(columns) < 2:
        return None
    placed = [[_column_of(cell, columns) for cell in row] for row in rows]
    if any(first == second for row in placed for first, second in pairwise(row)):
        return None  # two cells of a row in one column: the gaps are chance
    if any(len(cell.text) > MAX_CELL_CHARACTERS for row in rows for cell in row):
        return None
    if len(columns) == 2 and all(MARK.fullmatch(row[0].text) for row in rows):
        return None  # a list, far from its bullets
    return Table(
        [_filled(row, where, len(columns)) for row, where in zip(rows, placed, strict=True)]
    )


def _columns(rows: Sequence[Sequence[Cell]]) -> list[tuple[int, int]]:
    """Where they reach from and to: cells that lie above one another share one."""
    columns: list[tuple[int, int]] = []
    for left, right in sorted((cell.left, cell.right) for row in rows for cell in row):
        if columns and left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(right, columns[-1][1]))
        else:
            columns.append((left, right))
    return columns


def _column_of(cell: Cell, columns: Sequence[tuple[int, int]]) -> int:
    return next(index for index, (_, right) in enumerate(columns) if cell.right <= right)


def _filled(row: Sequence[Cell], where: Sequence[int], count: int) -> list[str]:
    texts = [""] * count
    for cell, column in zip(row, where, strict=True):
        texts[column] = cell.text
    return texts
