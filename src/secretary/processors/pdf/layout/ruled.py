"""Tables with lines across only, as printers like them, or with shaded rows."""

from collections.abc import Sequence
from itertools import pairwise

from .drawings import Ruling
from .rows import Piece, is_listing, rows_of
from .runs import Run
from .tables import (
    Cells,
    Table,
    cells_of,
    column_gaps,
    filled,
    fits,
    in_line,
    is_running,
    table_of,
    whole_rows,
)

#: Points within which two rulings are as long as each other.
SAME = 6.0
SHORTEST = 60.0
MOST_RULINGS = 400
#: Characters of a cell on the average, between two lines that may be anything, and between more.
LONGEST, LONGEST_RULED = 36, 120
#: Ems from the outermost line to rows that may belong to the table.
REACH = 2.6

Row = list[Piece]


def ruled_groups(across: Sequence[Ruling]) -> list[list[Ruling]]:
    """Lines across of the same length under each other, from the top down."""
    groups: list[list[Ruling]] = []
    for line in sorted(across, key=lambda line: -line.at)[:MOST_RULINGS]:
        if line.end - line.start < SHORTEST:
            continue
        for group in groups[-20:]:
            first = group[0]
            if abs(first.start - line.start) < SAME and abs(first.end - line.end) < SAME:
                group.append(line)
                break
        else:
            groups.append([line])
    return [group for group in groups if len(group) > 1]


def between(group: Sequence[Ruling], run: Run) -> bool:
    """Near enough to the lines to be part of their table."""
    reach = REACH * run.style.size
    inside = group[-1].at - reach < run.base < group[0].at + reach
    return inside and group[0].start - SAME < (run.left + run.right) / 2 < group[0].end + SAME


def ruled_tables(
    group: Sequence[Ruling], pieces: Sequence[Piece], *, listings: bool = True
) -> list[tuple[Table, list[Row]]]:
    """Tables along these lines, and the rows they are made of; `listings` are none."""
    left, right = group[0].start - SAME, group[0].end + SAME
    rows = rows_of([p for p in pieces if left < (p.left + p.right) / 2 < right])
    parts = _parts(group, rows)
    found: list[tuple[Table, list[Row]]] = []
    place = 1
    while place < len(parts) - 1:
        end = _end(parts, place)
        if end > place:
            made = _made(parts, place, end)
            if made is not None and not (listings and is_listing(made[1])):
                found.append(made)
        place = max(end, place + 1)
    return found


def _parts(group: Sequence[Ruling], rows: Sequence[Row]) -> list[list[Row]]:
    """The rows above the first line, between each two, and below the last."""
    parts: list[list[Row]] = [[] for _ in range(len(group) + 1)]
    place = 0
    for row in rows:
        height = max(piece.base + 0.3 * piece.size for piece in row)
        while place < len(group) and height < group[place].at:
            place += 1
        parts[place].append(row)
    return parts


def _end(parts: Sequence[Sequence[Row]], start: int) -> int:
    """How far the parts make one table, from this one on."""
    end, count = start, 0
    rows: list[Row] = []
    for place in range(start, len(parts) - 1):
        full = [row for row in parts[place] if len(row) > 1]
        if len(parts[place]) > 1:
            full = [row for row in full if not is_running(row)]
        if not parts[place] and rows:
            # A double line, or the padding around a shaded row.
            continue
        if not full or len(parts[place]) > 6 * len(full):
            if len(parts[place]) == 1 and rows and place + 1 < len(parts) - 1:
                continue
            break
        gaps = column_gaps((rows + full)[-40:], full[0][0].size)
        astray = sum(not fits(row, gaps) for row in parts[place])
        if len(gaps) < max(1, 0.6 * count) or astray > 0.4 * len(parts[place]):
            break
        if rows and len(_last_rows(parts[place])) < len(parts[place]):
            # Text stands between this part and the table so far: another one begins below it.
            break
        rows, count, end = rows + full, len(gaps), place + 1
    return end


def _made(parts: Sequence[Sequence[Row]], start: int, end: int) -> tuple[Table, list[Row]] | None:
    inner = [_last_rows(parts[start]), *(list(part) for part in parts[start + 1 : end])]
    rows = [row for part in inner for row in part]
    size = rows[0][0].size
    gaps = column_gaps([row for row in rows if len(row) > 1], size)
    above = _near(list(reversed(parts[start - 1])), rows[0], gaps)
    below = _near(parts[end] if end < len(parts) else [], rows[-1], gaps)
    cells = [[cells_of(row, gaps) for row in part] for part in inner if part]
    texts = [piece.weight for row in rows for piece in row]
    longest = LONGEST if len(inner) < 2 else LONGEST_RULED
    if sum(texts) > longest * len(texts):
        return None
    if not _is_table([row for row in rows if len(row) > 1], gaps):
        return None
    whole = _whole(cells)
    whole = [
        *whole_rows([cells_of(row, gaps) for row in reversed(above)]), *whole,
        *(cells_of(row, gaps) for row in below),
    ]  # fmt: skip
    if len(whole) < 2:
        return None
    return table_of(whole), [*above, *rows, *below]


def _is_table(rows: Sequence[Row], gaps: Sequence[float]) -> bool:
    """Lines are also drawn around listings and below headings, with running text between them."""
    if sum(map(is_running, rows)) > 0.4 * len(rows) and len(rows) < 4:
        return False
    if len(rows) < 3:
        return all(_widest_gap(row) > 1.2 * row[0].size for row in rows)
    columns = zip(*(cells_of(row, gaps) for row in rows), strict=True)
    kept = [in_line([cell for cell in column if cell]) for column in columns]
    return sum(kept) >= 0.75 * len(kept)


def _widest_gap(row: Row) -> float:
    return max(after.left - before.right for before, after in pairwise(row))


def _last_rows(rows: Sequence[Row]) -> list[Row]:
    """Above the second line of a table there may be text before it, if it has no first line."""
    for number in range(len(rows) - 1, 0, -1):
        apart = rows[number - 1][0].base - rows[number][0].base > REACH * rows[number][0].size
        if apart or (len(rows[number - 1]) == 1 and len(rows[number]) > 2):
            return list(rows[number:])
    return list(rows)


def _near(rows: Sequence[Row], row: Row, gaps: Sequence[float]) -> list[Row]:
    """Rows next to the table that stand in its columns: a head above the first line."""
    taken: list[Row] = []
    for other in rows[:3]:
        step = abs(other[0].base - row[0].base)
        if step > REACH * row[0].size or not fits(other, gaps) or is_running(other):
            break
        if filled(cells_of(other, gaps)) < max(2, 0.5 * (len(gaps) + 1)):
            break
        taken.append(other)
        row = other
    return taken


def _whole(parts: Sequence[Sequence[Cells]]) -> list[Cells]:
    """Where no part between two lines has more than one full row, each part is a row."""
    width = len(parts[0][0])
    one_row = [sum(filled(cells) == width for cells in part) <= 1 for part in parts]
    if len(parts) > 2 and all(one_row):
        return [_as_one(part) for part in parts]
    head, *others = parts
    rows = [_as_one(head)] if others and one_row[0] else whole_rows(head)
    for part in others:
        rows += whole_rows(part)
    return rows


def _as_one(lines: Sequence[Cells]) -> Cells:
    return [[piece for cell in column for piece in cell] for column in zip(*lines, strict=True)]
