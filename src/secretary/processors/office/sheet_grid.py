"""The cells of a sheet, put together to one table without its empty margins."""

from bisect import bisect_right

from ...errors import FileTooLarge
from .blocks import Grid
from .spans import REPEATED_CHARACTERS


class SheetGrid:
    """Rows and columns begin with 0. Only cells with a text count."""

    def __init__(self, max_cells: int) -> None:
        self._rows: dict[int, dict[int, str]] = {}
        self._links: dict[tuple[int, int], str] = {}
        self._merged: list[tuple[int, int, int]] = []
        self._left = max_cells
        self._max_cells = max_cells

    def put(self, row: int, column: int, text: str) -> None:
        self._count(1)
        cells = self._rows.get(row)
        if cells is None:
            cells = self._rows[row] = {}
        cells[column] = text

    def merge(self, row: int, column: int, last_row: int) -> None:
        """A cell reaches down to this row: its text is repeated there, see `spans`."""
        if last_row > row:
            self._merged.append((row, column, last_row))

    def link(self, row: int, column: int, target: str) -> None:
        self._links[row, column] = target

    def grid(self) -> Grid | None:
        """Empty columns are left out; of empty rows between others one stays."""
        if not self._rows:
            return None
        rows = sorted(self._rows)
        self._repeat(rows)
        columns = sorted({column for cells in self._rows.values() for column in cells})
        self._left = self._max_cells
        self._count(len(rows) * len(columns))
        place = {column: number for number, column in enumerate(columns)}
        lines: list[list[str]] = []
        links: dict[tuple[int, int], str] = {}
        before = rows[0]
        for row in rows:
            if row > before + 1:
                lines.append([])
            before = row
            line = [""] * len(columns)
            for column, text in self._rows[row].items():
                line[place[column]] = text
                if self._links and (row, column) in self._links:
                    links[len(lines), place[column]] = self._links[row, column]
            lines.append(line)
        return Grid(lines, links)

    def _repeat(self, rows: list[int]) -> None:
        for row, column, last in self._merged:
            text = self._rows.get(row, {}).get(column)
            if not text or len(text) > REPEATED_CHARACTERS:
                continue
            # Rows that have nothing else stay out: the merged cell was just tall.
            for other in rows[bisect_right(rows, row) : bisect_right(rows, last)]:
                self._count(1)
                self._rows[other].setdefault(column, text)

    def _count(self, cells: int) -> None:
        self._left -= cells
        if self._left < 0:
            raise FileTooLarge(
                f"A sheet has more than {self._max_cells:,} cells", limit=self._max_cells
            )
