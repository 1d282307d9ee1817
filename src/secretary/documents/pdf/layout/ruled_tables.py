"""Tables with rulings: the lines drawn around their cells say what belongs together."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import neg
from statistics import median

from .drawings import Drawings, Ruling
from .rows import Piece, is_listing, rows_of
from .runs import Run
from .tables import (
    Cells,
    Table,
    cell_text,
    cells_of,
    column_gaps,
    filled,
    fits,
    in_line,
    is_running,
    table_of,
    whole_rows,
)

#: Points within which two rulings are the same, or meet.
NEAR = 3.0
MOST_LINES = 300
MOST_CELLS = 4_000
#: Ems between the texts of neighbouring cells, at least, most often.
CLOSE = 0.6
#: Characters: a cell that has more, and more than all others, is a text with boxes around it.
LONGEST = 300
#: Of the edges between cells: fewer with a line, and it is a drawing, or boxes in a text.
LINED = 0.3
#: Of the runs: one operator may draw more than one cell, but most draw one.
MOST_CROSSING = 0.1
#: Of the cells: fewer with text, and it is a drawing.
FILLED = 0.15


@dataclass(frozen=True, slots=True)
class Grid:
    #: Left to right, and top to bottom.
    xs: list[float]
    ys: list[float]
    across: list[Ruling]
    #: Cells (row, column) that have a line at their left, and at their top.
    lined_left: set[tuple[int, int]]
    lined_top: set[tuple[int, int]]

    def column(self, x: float) -> int:
        return min(max(bisect_right(self.xs, x) - 1, 0), len(self.xs) - 2)

    def row(self, y: float) -> int:
        return min(max(bisect_right(self.ys, -y, key=neg) - 1, 0), len(self.ys) - 2)

    def holds(self, run: Run) -> bool:
        x, y = (run.left + run.right) / 2, run.base + 0.3 * run.style.size
        return self.xs[0] - NEAR < x < self.xs[-1] + NEAR and self.ys[-1] < y < self.ys[0]


def find_grids(drawings: Drawings) -> list[Grid]:
    across, down = merged(drawings.across), merged(drawings.down)
    if len(across) < 2 or len(down) < 1 or max(len(across), len(down)) > MOST_LINES:
        return []
    grids = []
    for lines in _connected(across, down):
        grid = _grid([across[i] for i in lines[0]], [down[i] for i in lines[1]])
        if grid is not None:
            grids.append(grid)
    return grids


def merged(rulings: Iterable[Ruling]) -> list[Ruling]:
    """Lines drawn piece by piece, or twice, as one."""
    lines: list[Ruling] = []
    groups: list[list[Ruling]] = []
    for ruling in sorted(rulings):
        if groups and ruling.at - groups[-1][0].at <= NEAR:
            groups[-1].append(ruling)
        else:
            groups.append([ruling])
    for group in groups:
        at = sum(ruling.at for ruling in group) / len(group)
        start, end = None, 0.0
        for ruling in sorted(group, key=lambda ruling: ruling.start):
            if start is not None and ruling.start <= end + NEAR:
                end = max(end, ruling.end)
                continue
            if start is not None:
                lines.append(Ruling(at, start, end))
            start, end = ruling.start, ruling.end
        if start is not None:
            lines.append(Ruling(at, start, end))
    return lines


def _connected(across: list[Ruling], down: list[Ruling]) -> Iterable[tuple[list[int], list[int]]]:
    parents = list(range(len(across) + len(down)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    for i, line in enumerate(across):
        for j, other in enumerate(down):
            if _meet(line, other):
                parents[root(i)] = root(len(across) + j)
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for number in range(len(parents)):
        group = groups.setdefault(root(number), ([], []))
        if number < len(across):
            group[0].append(number)
        else:
            group[1].append(number - len(across))
    return groups.values()


def _meet(across: Ruling, down: Ruling) -> bool:
    return (
        across.start - NEAR <= down.at <= across.end + NEAR
        and down.start - NEAR <= across.at <= down.end + NEAR
    )


def _grid(across: list[Ruling], down: list[Ruling]) -> Grid | None:
    if len(across) < 2 or not down:
        return None
    xs = _edges([line.at for line in down], [x for line in across for x in line[1:]])
    ys = _edges([line.at for line in across], [y for line in down for y in line[1:]])
    if len(xs) < 3 or len(ys) < 3 or len(xs) * len(ys) > MOST_CELLS:
        return None
    ys.reverse()
    left = {(row, column) for column, row in _lined(down, xs, ys)}
    top = set(_lined(across, ys, xs))
    rows, columns = len(ys) - 1, len(xs) - 1
    inner_left = sum(0 < column < columns for _, column in left)
    inner_top = sum(0 < row < rows for row, _ in top)
    if inner_left < LINED * rows * (columns - 1) or inner_top < LINED * columns * (rows - 1):
        return None
    return Grid(xs, ys, across, left, top)


def _lined(
    lines: list[Ruling], edges: list[float], others: list[float]
) -> Iterator[tuple[int, int]]:
    """Which edge has a line, and between which two of the others."""
    middles = [(a + b) / 2 for a, b in pairwise(others)]
    for line in lines:
        edge = min(range(len(edges)), key=lambda number: abs(edges[number] - line.at))
        for place, middle in enumerate(middles):
            if line.start - NEAR <= middle <= line.end + NEAR:
                yield edge, place


def _edges(lines: list[float], ends: list[float]) -> list[float]:
    """The lines, and where lines across end beyond them: a table may be open at its sides."""
    edges: list[float] = []
    for edge in sorted(lines):
        if not edges or edge - edges[-1] > NEAR:
            edges.append(edge)
    if min(ends) < edges[0] - 4 * NEAR:
        edges.insert(0, min(ends))
    if max(ends) > edges[-1] + 4 * NEAR:
        edges.append(max(ends))
    return edges


def grid_table(
    grid: Grid, runs: Sequence[Run], split: Callable[[Run], list[Run]]
) -> tuple[Table | None, set[int]]:
    """The table, and which runs are in it, by where they begin."""
    inside = [run for run in runs if grid.holds(run)]
    if not inside or sum(_crosses(grid, run) for run in inside) > MOST_CROSSING * len(inside):
        return None, set()
    places: dict[tuple[int, int], list[Piece]] = {}
    for run in inside:
        for part in _parts(grid, run, split):
            y = part.base + 0.3 * part.style.size
            cell = _cell(grid, grid.row(y), part)
            piece = Piece([part], part.left, part.right, part.base, part.style.size)
            places.setdefault(cell, []).append(piece)
    if _is_sentence(places):
        return None, set()
    rows, columns = len(grid.ys) - 1, len(grid.xs) - 1
    cells = [
        [cell_text(places.get((row, column), ())) for column in range(columns)]
        for row in range(rows)
    ]
    cells = _without_empty(cells)
    longest = max((len(cell) for row in cells for cell in row), default=0)
    if longest > LONGEST and 2 * longest > sum(len(cell) for row in cells for cell in row):
        return None, set()
    filled = sum(bool(cell) for row in cells for cell in row)
    if len(cells) < 2 or len(cells[0]) < 2 or filled < FILLED * len(cells) * len(cells[0]):
        return None, set()
    size = inside[0].style.size
    table = Table(cells, grid.xs[0], grid.xs[-1], grid.ys[0], grid.ys[-1], size)
    return table, {run.start for run in inside}


def _is_sentence(places: Mapping[tuple[int, int], Sequence[Piece]]) -> bool:
    """Boxes around words of a line: there is no more between them than between words."""
    gaps = []
    for (row, column), pieces in places.items():
        after = places.get((row, column + 1))
        if after:
            right, left = max(p.right for p in pieces), min(p.left for p in after)
            gaps.append((left - right) / pieces[0].size)
    return bool(gaps) and median(gaps) < CLOSE


def _crosses(grid: Grid, run: Run) -> bool:
    """No one writes over the lines of a table: what is drawn here is something else."""
    slack = 0.4 * run.style.size
    first, last = grid.column(run.left + slack), grid.column(run.right - slack)
    if first >= last:
        return False
    row = grid.row(run.base + 0.3 * run.style.size)
    return any((row, column) in grid.lined_left for column in range(first + 1, last + 1))


def _parts(grid: Grid, run: Run, split: Callable[[Run], list[Run]]) -> list[Run]:
    slack = 0.4 * run.style.size
    if grid.column(run.left + slack) == grid.column(run.right - slack) or " " not in run.text:
        return [run]
    return split(run)


def _cell(grid: Grid, row: int, run: Run) -> tuple[int, int]:
    """Cells that no line parts are one: its text goes to the first of them."""
    if not any((row, column) in grid.lined_left for column in range(1, len(grid.xs) - 1)):
        # No line parts any cells of this row: it is not shaded, where others are.
        return row, grid.column(run.left + 1)
    column = grid.column((run.left + run.right) / 2)
    while column > 0 and (row, column) not in grid.lined_left:
        column -= 1
    while row > 0 and (row, column) not in grid.lined_top:
        row -= 1
    return row, column


def _without_empty(cells: list[list[str]]) -> list[list[str]]:
    rows = [row for row in cells if any(row)]
    columns = [number for number in range(len(cells[0])) if any(row[number] for row in rows)]
    return [[row[number] for number in columns] for row in rows]


#: Points within which two rulings are as long as each other.
SAME = 6.0
SHORTEST = 60.0
MOST_RULINGS = 400
#: Characters of a cell on the average, between two lines that may be anything, and between more.
RULED_LONGEST, LONGEST_RULED = 36, 120
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
    parts = _ruled_parts(group, rows)
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


def _ruled_parts(group: Sequence[Ruling], rows: Sequence[Row]) -> list[list[Row]]:
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
    longest = RULED_LONGEST if len(inner) < 2 else LONGEST_RULED
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
