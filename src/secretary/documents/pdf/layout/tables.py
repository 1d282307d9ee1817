"""Tables: cells in rows and columns."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ..structure import Structure
from .rows import Piece, pieces_of, rows_of
from .runs import Run, joined_lines

#: In ems: what separates two columns of a table in most rows, and in all of them.
GUTTER, NARROW = 0.5, 0.2

#: Of the cells of a column: so many are in line.
IN_LINE = 0.7

Cells = list[list[Piece]]


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


def column_gaps(rows: Sequence[Sequence[Piece]], size: float) -> list[float]:
    """Where nothing stands in any row: the middles of the gaps between the columns."""
    spans = sorted((run.left, run.right) for row in rows for piece in row for run in piece.runs)
    gaps: list[float] = []
    reach = spans[0][1] if spans else 0.0
    for left, right in spans:
        if left - reach >= NARROW * size and _is_wide(rows, (left + reach) / 2, GUTTER * size):
            gaps.append((left + reach) / 2)
        reach = max(reach, right)
    return gaps


def _is_wide(rows: Sequence[Sequence[Piece]], gap: float, gutter: float) -> bool:
    """In most rows the gap is wider than a space; in the others, the text may be."""
    widths = []
    for row in rows:
        before = max((r.right for p in row for r in p.runs if r.right <= gap), default=None)
        after = min((r.left for p in row for r in p.runs if r.left >= gap), default=None)
        if before is not None and after is not None:
            widths.append(after - before)
    return bool(widths) and median(widths) >= gutter


def cells_of(row: Sequence[Piece], gaps: Sequence[float]) -> Cells:
    cells: Cells = [[] for _ in range(len(gaps) + 1)]
    for piece in row:
        for part in split_at(piece, gaps):
            cells[bisect_left(gaps, (part.left + part.right) / 2)].append(part)
    return cells


def split_at(piece: Piece, gaps: Sequence[float]) -> list[Piece]:
    """What was taken for one piece may reach over a narrow gap."""
    if bisect_left(gaps, piece.left) == bisect_left(gaps, piece.right) or len(piece.runs) == 1:
        return [piece]
    parts: dict[int, list[Run]] = {}
    for run in piece.runs:
        parts.setdefault(bisect_left(gaps, (run.left + run.right) / 2), []).append(run)
    return [
        Piece(
            runs, min(run.left for run in runs), max(run.right for run in runs),
            piece.base, piece.size,
        )
        for runs in parts.values()
    ]  # fmt: skip


def fits(row: Sequence[Piece], gaps: Sequence[float]) -> bool:
    """Nothing reaches from one column into the next."""
    return all(
        bisect_left(gaps, run.left + 1) == bisect_left(gaps, run.right - 1)
        for piece in row
        for run in piece.runs
    )


def is_running(row: Sequence[Piece]) -> bool:
    """A line of text whose words are spread to fill it, rather than cells."""
    width = row[-1].right - row[0].left
    gaps = [after.left - before.right for before, after in pairwise(row)]
    text = sum(piece.right - piece.left for piece in row)
    return text > 0.8 * width and max(gaps, default=0.0) < 1.2 * row[0].size


def filled(cells: Cells) -> int:
    return sum(bool(cell) for cell in cells)


def cell_text(pieces: Sequence[Piece]) -> str:
    """The text of a cell of one or more lines."""
    text, cut = "", False
    for row in rows_of(list(pieces)):
        line = " ".join(piece.text for piece in row)
        text = joined_lines(text, line, cut) if text else line
        cut = row[-1].runs[-1].cut
    return text


def table_of(cells: Sequence[Cells]) -> Table:
    pieces = [piece for row in cells for cell in row for piece in cell]
    return Table(
        [[cell_text(cell) for cell in row] for row in cells],
        min(piece.left for piece in pieces), max(piece.right for piece in pieces),
        max(piece.top for piece in pieces), min(piece.bottom for piece in pieces),
        pieces[0].size,
    )  # fmt: skip


def whole_rows(lines: Sequence[Cells]) -> list[Cells]:
    """Lines that go on the cells above them are put there."""
    starts = _row_starts(lines)
    rows: list[Cells] = []
    for start, cells in zip(starts, lines, strict=True):
        if start or not rows:
            rows.append([list(cell) for cell in cells])
        else:
            for above, cell in zip(rows[-1], cells, strict=True):
                above += cell
    return rows


def _row_starts(lines: Sequence[Cells]) -> list[bool]:
    if not lines:
        return []
    heights = [_main_base(cells) for cells in lines]
    size = max(piece.size for cell in lines[0] for piece in cell)
    steps = [a - b for a, b in pairwise(heights)]
    tight = min((step for step in steps if step > 0.6 * size), default=0.0)
    wide = [step for step in steps if step > 1.2 * tight]
    counts = [filled(cells) for cells in lines]
    if wide and len(wide) < len(steps) and tight < 1.6 * size:
        starts = [True, *(step > 1.2 * tight for step in steps)]
        begun = [count for count, start in zip(counts, starts, strict=True) if start]
        others = [count for count, start in zip(counts, starts, strict=True) if not start]
        # The first lines of rows have the most cells; where all lines have, they are rows.
        if sum(others) / len(others) < 0.8 * sum(begun) / len(begun):
            return starts
    starts = [True]
    for number, step in enumerate(steps):
        starts.append(step > 1.5 * size or not _continues(lines[number], lines[number + 1]))
    return starts


def _main_base(cells: Cells) -> float:
    return max((piece.size, piece.base) for cell in cells for piece in cell)[1]


def _continues(above: Cells, cells: Cells) -> bool:
    if cells[0] or filled(cells) == len(cells):
        return False
    return all(a for a, b in zip(above, cells, strict=True) if b)


def in_line(cells: Sequence[Sequence[Piece]]) -> bool:
    """Most of the cells of a column begin, end or are centred at the same place."""
    if len(cells) < 2:
        return True
    slack = 0.5 * cells[0][0].size
    lefts = [min(piece.left for piece in cell) for cell in cells]
    rights = [max(piece.right for piece in cell) for cell in cells]
    middles = [(left + right) / 2 for left, right in zip(lefts, rights, strict=True)]
    return any(_alike(edges, slack) >= IN_LINE * len(cells) for edges in (lefts, rights, middles))


def _alike(edges: list[float], slack: float) -> int:
    """How many are near the same place."""
    edges = sorted(edges)
    best = start = 0
    for end, edge in enumerate(edges):
        while edge - edges[start] > 2 * slack:
            start += 1
        best = max(best, end - start + 1)
    return best


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
