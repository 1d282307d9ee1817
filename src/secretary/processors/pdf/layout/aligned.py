"""Tables without lines between their cells: what stands in rows stands in columns, too."""

import re
from collections.abc import Sequence

from .drawings import Ruling
from .lists import is_bullet, item_mark
from .rows import Piece, rows_of
from .runs import Run
from .tables import GUTTER, Table, cell_text, cells_of, column_gaps

FEWEST_ROWS = 3
MOST_ROWS = 300
#: Characters of a cell on the average, at most: longer ones are columns of running text.
LONGEST = 36
#: Of the cells of a column: so many begin, end or are centred at the same place.
IN_LINE = 0.7
FILLED = 0.5
#: Points within which two rulings are as long as each other.
SAME = 6.0
LETTERS = re.compile(r"\w")

Row = list[Piece]


def find_tables(rows: Sequence[Row]) -> list[tuple[int, int, Table]]:
    """From which row to which, and the table they make."""
    found: list[tuple[int, int, Table]] = []
    start = 0
    while start < len(rows):
        if not _has_cells(rows[start]):
            start += 1
            continue
        end = _end_of_stretch(rows, start)
        table = aligned_table(rows[start:end]) if end - start >= FEWEST_ROWS else None
        if table is None:
            start += 1 if end - start < FEWEST_ROWS else max(1, (end - start) // 2)
        else:
            found.append((start, end, table))
            start = end
    return found


def _has_cells(row: Row) -> bool:
    if len(row) == 2 and (is_bullet(row[0].text) or item_mark(f"{row[0].text} x")):
        return False
    return len(row) > 1


def _end_of_stretch(rows: Sequence[Row], start: int) -> int:
    spans: list[tuple[float, float]] = []
    end = last = start
    size = rows[start][0].size
    while end < min(len(rows), start + MOST_ROWS):
        row = rows[end]
        gap = rows[end - 1][0].base - row[0].base if end > start else 0.0
        wider = _with_row(spans, row, GUTTER * size)
        if end > start and (len(wider) < 2 or gap > 3.5 * size):
            break
        if len(row) == 1 and (len(wider) < len(spans) or gap > 2 * size):
            break
        if spans and len(wider) < 0.67 * len(spans):
            break
        spans = wider
        end += 1
        if _has_cells(row):
            last = end
    return last


def _with_row(
    spans: list[tuple[float, float]], row: Row, gutter: float
) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for left, right in sorted([*spans, *((piece.left, piece.right) for piece in row)]):
        if merged and left - merged[-1][1] < gutter:
            merged[-1] = (merged[-1][0], max(merged[-1][1], right))
        else:
            merged.append((left, right))
    return merged


def aligned_table(rows: Sequence[Row]) -> Table | None:
    size = rows[0][0].size
    full = [row for row in rows if len(row) > 1]
    gaps = column_gaps(full, GUTTER * size)
    if not gaps or len(full) < FEWEST_ROWS:
        return None
    cells = cells_of(rows, gaps)
    if not _is_table(cells):
        return None
    return _table(_whole_rows(cells, size))


def _is_table(cells: list[list[list[Piece]]]) -> bool:
    texts = [" ".join(p.text for p in cell) for row in cells for cell in row if cell]
    if len(texts) < FILLED * len(cells) * len(cells[0]):
        return False
    if sum(map(len, texts)) > LONGEST * len(texts) or not any(map(LETTERS.search, texts)):
        return False
    columns = list(zip(*cells, strict=True))
    first = [" ".join(p.text for p in cell) for cell in columns[0] if cell]
    if (
        sum(is_bullet(text) or item_mark(f"{text} x") is not None for text in first)
        > len(first) / 2
    ):
        return False
    return all(_in_line([cell for cell in column if cell]) for column in columns)


def _in_line(cells: Sequence[Sequence[Piece]]) -> bool:
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


def _whole_rows(cells: list[list[list[Piece]]], size: float) -> list[list[list[Piece]]]:
    """Lines that go on the cells above them are put there."""
    rows: list[list[list[Piece]]] = []
    base = 0.0
    for row in cells:
        below = min(piece.base for cell in row for piece in cell)
        if rows and not row[0] and base - below < 1.5 * size and _continues(rows[-1], row):
            for above, cell in zip(rows[-1], row, strict=True):
                above += cell
        else:
            rows.append([list(cell) for cell in row])
        base = below
    return rows


def _continues(above: list[list[Piece]], row: list[list[Piece]]) -> bool:
    filled = [(a, b) for a, b in zip(above, row, strict=True) if b]
    return len(filled) < len(row) and all(a for a, _ in filled)


def _table(cells: list[list[list[Piece]]]) -> Table:
    pieces = [piece for row in cells for cell in row for piece in cell]
    return Table(
        [[cell_text(cell) for cell in row] for row in cells],
        min(piece.left for piece in pieces), max(piece.right for piece in pieces),
        max(piece.top for piece in pieces), min(piece.bottom for piece in pieces),
        pieces[0].size,
    )  # fmt: skip


def ruled_groups(across: Sequence[Ruling]) -> list[list[Ruling]]:
    """Lines across of the same length under each other, from the top down."""
    groups: list[list[Ruling]] = []
    for line in sorted(across, key=lambda line: -line.at)[:300]:
        if line.end - line.start < 60:
            continue
        for group in groups[-20:]:
            first = group[0]
            if abs(first.start - line.start) < SAME and abs(first.end - line.end) < SAME:
                group.append(line)
                break
        else:
            groups.append([line])
    return [group for group in groups if len(group) > 1]


def table_between(group: Sequence[Ruling], pieces: Sequence[Piece]) -> Table | None:
    """A table with lines across only, as printers like them."""
    rows = rows_of(list(pieces))
    full = [row for row in rows if len(row) > 1]
    if len(full) < 2 or len(full) < 0.5 * len(rows):
        return None
    size = rows[0][0].size
    gaps = column_gaps(full, GUTTER * size)
    if not gaps:
        return None
    cells = cells_of(rows, gaps)
    texts = [" ".join(p.text for p in cell) for row in cells for cell in row if cell]
    if sum(map(len, texts)) > LONGEST * len(texts):
        return None
    whole: list[list[list[Piece]]] = []
    edges = [line.at for line in group]
    for number in range(len(edges) - 1):
        part = [row for row in cells if edges[number] > _height(row) > edges[number + 1]]
        if sum(bool(row[0]) for row in part) <= 1 and part and len(group) > 2:
            whole.append(
                [[piece for row in part for piece in row[i]] for i in range(len(gaps) + 1)]
            )
        else:
            whole += _whole_rows(part, size)
    return _table(whole) if len(whole) > 1 else None


def _height(row: list[list[Piece]]) -> float:
    return max(piece.base + 0.3 * piece.size for cell in row for piece in cell)


def inside(group: Sequence[Ruling], run: Run) -> bool:
    middle = (run.left + run.right) / 2
    height = run.base + 0.3 * run.style.size
    return group[0].start - SAME < middle < group[0].end + SAME and (
        group[-1].at < height < group[0].at
    )
