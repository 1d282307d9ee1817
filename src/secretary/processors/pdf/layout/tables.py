"""Tables: cells in rows and columns."""

from collections.abc import Sequence
from dataclasses import dataclass

from .rows import Piece, rows_of

#: In ems: what separates two columns of a table at least.
GUTTER = 0.7


@dataclass(slots=True)
class Table:
    cells: list[list[str]]
    left: float
    right: float
    top: float
    bottom: float
    size: float

    @property
    def weight(self) -> int:
        # Never the running text of a column, never a reason against one.
        return 40

    @property
    def base(self) -> float:
        return self.bottom


def column_gaps(rows: Sequence[Sequence[Piece]], gutter: float) -> list[float]:
    """Where no piece of any row stands: the middles of the gaps between the columns."""
    spans = sorted((piece.left, piece.right) for row in rows for piece in row)
    gaps: list[float] = []
    reach = spans[0][1] if spans else 0.0
    for left, right in spans:
        if left - reach >= gutter:
            gaps.append((left + reach) / 2)
        reach = max(reach, right)
    return gaps


def cells_of(rows: Sequence[Sequence[Piece]], gaps: Sequence[float]) -> list[list[list[Piece]]]:
    table = []
    for row in rows:
        cells: list[list[Piece]] = [[] for _ in range(len(gaps) + 1)]
        for piece in row:
            middle = (piece.left + piece.right) / 2
            cells[sum(gap < middle for gap in gaps)].append(piece)
        table.append(cells)
    return table


def cell_text(pieces: Sequence[Piece]) -> str:
    """The text of a cell of one or more lines."""
    rows = rows_of(list(pieces))
    lines = [" ".join(piece.text for piece in row) for row in rows]
    text = ""
    for line, row in zip(lines, rows, strict=True):
        text += line if row[-1].runs[-1].cut else f"{line} "
    return text.strip()
