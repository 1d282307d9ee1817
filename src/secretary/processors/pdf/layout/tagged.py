"""Tables of a tagged PDF: the file itself says what is a cell."""

from collections.abc import Sequence

from ..structure import Structure
from .rows import pieces_of
from .runs import Run
from .tables import Cells, Table, cells_of, column_gaps, table_of

#: Of the letters: so many must be tagged for the tags to be believed.
COVERED = 0.7
#: Characters of a cell on the average: with more, the table is a way to arrange a page.
LONGEST = 250


def believed(structure: Structure, runs: Sequence[Run]) -> Structure:
    marks = set(structure.tags)
    for table in structure.tables:
        marks.update(mark for row in table for cell in row for mark in cell)
    total = sum(len(run.text) for run in runs)
    tagged = sum(len(run.text) for run in runs if run.mark in marks)
    return structure if total and tagged >= COVERED * total else Structure()


def tagged_tables(structure: Structure, runs: list[Run]) -> tuple[list[Table], list[Run]]:
    """The tables, and the runs that are in none."""
    tables = []
    for rows in structure.tables:
        table = _table(rows, runs)
        if table is not None:
            tables.append(table)
            taken = {mark for row in rows for cell in row for mark in cell}
            runs = [run for run in runs if run.mark not in taken]
    return tables, runs


def _table(rows: list[list[list[int]]], runs: Sequence[Run]) -> Table | None:
    width = max((len(row) for row in rows), default=0)
    places = {
        mark: (number, column)
        for number, row in enumerate(rows)
        for column, cell in enumerate(row)
        for mark in cell
    }
    held: dict[tuple[int, int], list[Run]] = {}
    for run in runs:
        if run.mark in places:
            held.setdefault(places[run.mark], []).append(run)
    cells: list[Cells] = [
        [pieces_of(held[number, column]) for column in range(width) if (number, column) in held]
        for number in range(len(rows))
        if any(place[0] == number for place in held)
    ]
    if len(cells) < 2 or width < 2:
        return None
    letters = sum(len(run.text) for group in held.values() for run in group)
    if letters > LONGEST * len(held):
        return None
    if all(len(row) == width for row in cells):
        return table_of(cells)
    return _by_place(cells, width)


def _by_place(cells: list[Cells], width: int) -> Table | None:
    """Empty cells are not told: where some are missing, the places say which."""
    rows = [[piece for cell in row for piece in cell] for row in cells]
    gaps = column_gaps(rows, rows[0][0].size)
    return table_of([cells_of(row, gaps) for row in rows]) if len(gaps) + 1 == width else None
