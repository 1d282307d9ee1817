"""Detects tables with ruling lines: full grids, and rows between horizontal rules."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import neg
from statistics import median

from .drawings import Drawings, Ruling
from .rows import Segment, group_rows, is_source_code
from .runs import Run
from .tables import (
    Cells,
    Table,
    build_table,
    cell_text,
    column_gaps,
    count_filled,
    fits_columns,
    is_aligned,
    is_running_text,
    merge_continued_rows,
    split_cells,
)

#: Points within which two rulings are the same, or meet.
TOLERANCE = 3.0
MAX_LINES = 300
MAX_CELLS = 4_000
#: Median distance in ems between adjacent cells, at least.
MIN_CELL_GAP = 0.6
#: Characters: a longer cell that dominates the table is boxed text, not a cell.
MAX_BOXED_CHARACTERS = 300
#: Share of the inner cell borders that must be drawn.
MIN_BORDER_SHARE = 0.3
#: Share of the runs that may cross a border.
MAX_CROSSING = 0.1
#: Share of the cells that must contain text.
MIN_FILLED_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Grid:
    #: Column borders from left to right, and row borders from top to bottom.
    xs: list[float]
    ys: list[float]
    horizontal: list[Ruling]
    #: Cells (row, column) with a border at their left, and at their top.
    left_borders: set[tuple[int, int]]
    top_borders: set[tuple[int, int]]

    def column(self, x: float) -> int:
        return min(max(bisect_right(self.xs, x) - 1, 0), len(self.xs) - 2)

    def row(self, y: float) -> int:
        return min(max(bisect_right(self.ys, -y, key=neg) - 1, 0), len(self.ys) - 2)

    def holds(self, run: Run) -> bool:
        x, y = (run.left + run.right) / 2, run.baseline + 0.3 * run.style.size
        return self.xs[0] - TOLERANCE < x < self.xs[-1] + TOLERANCE and self.ys[-1] < y < self.ys[0]


def find_grids(drawings: Drawings) -> list[Grid]:
    horizontal, vertical = merge_rulings(drawings.horizontal), merge_rulings(drawings.vertical)
    if len(horizontal) < 2 or len(vertical) < 1 or max(len(horizontal), len(vertical)) > MAX_LINES:
        return []
    grids = []
    for lines in _connected_groups(horizontal, vertical):
        grid = _grid([horizontal[i] for i in lines[0]], [vertical[i] for i in lines[1]])
        if grid is not None:
            grids.append(grid)
    return grids


def merge_rulings(rulings: Iterable[Ruling]) -> list[Ruling]:
    """Merge rulings that were drawn in parts or twice."""
    lines: list[Ruling] = []
    groups: list[list[Ruling]] = []
    for ruling in sorted(rulings):
        if groups and ruling.position - groups[-1][0].position <= TOLERANCE:
            groups[-1].append(ruling)
        else:
            groups.append([ruling])
    for group in groups:
        position = sum(ruling.position for ruling in group) / len(group)
        start, end = None, 0.0
        for ruling in sorted(group, key=lambda ruling: ruling.start):
            if start is not None and ruling.start <= end + TOLERANCE:
                end = max(end, ruling.end)
                continue
            if start is not None:
                lines.append(Ruling(position, start, end))
            start, end = ruling.start, ruling.end
        if start is not None:
            lines.append(Ruling(position, start, end))
    return lines


def _connected_groups(
    horizontal: list[Ruling], vertical: list[Ruling]
) -> Iterable[tuple[list[int], list[int]]]:
    parents = list(range(len(horizontal) + len(vertical)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    for i, line in enumerate(horizontal):
        for j, other in enumerate(vertical):
            if _intersect(line, other):
                parents[root(i)] = root(len(horizontal) + j)
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for number in range(len(parents)):
        group = groups.setdefault(root(number), ([], []))
        if number < len(horizontal):
            group[0].append(number)
        else:
            group[1].append(number - len(horizontal))
    return groups.values()


def _intersect(horizontal: Ruling, vertical: Ruling) -> bool:
    return (
        horizontal.start - TOLERANCE <= vertical.position <= horizontal.end + TOLERANCE
        and vertical.start - TOLERANCE <= horizontal.position <= vertical.end + TOLERANCE
    )


def _grid(horizontal: list[Ruling], vertical: list[Ruling]) -> Grid | None:
    if len(horizontal) < 2 or not vertical:
        return None
    xs = _borders(
        [line.position for line in vertical], [x for line in horizontal for x in line[1:]]
    )
    ys = _borders(
        [line.position for line in horizontal], [y for line in vertical for y in line[1:]]
    )
    if len(xs) < 3 or len(ys) < 3 or len(xs) * len(ys) > MAX_CELLS:
        return None
    ys.reverse()
    left = {(row, column) for column, row in _covered_borders(vertical, xs, ys)}
    top = set(_covered_borders(horizontal, ys, xs))
    rows, columns = len(ys) - 1, len(xs) - 1
    inner_left = sum(0 < column < columns for _, column in left)
    inner_top = sum(0 < row < rows for row, _ in top)
    if inner_left < MIN_BORDER_SHARE * rows * (
        columns - 1
    ) or inner_top < MIN_BORDER_SHARE * columns * (rows - 1):
        return None
    return Grid(xs, ys, horizontal, left, top)


def _covered_borders(
    lines: list[Ruling], edges: list[float], others: list[float]
) -> Iterator[tuple[int, int]]:
    """Yield the border that each line covers, and between which borders of the other direction."""
    middles = [(a + b) / 2 for a, b in pairwise(others)]
    for line in lines:
        edge = min(range(len(edges)), key=lambda number: abs(edges[number] - line.position))
        for part_number, middle in enumerate(middles):
            if line.start - TOLERANCE <= middle <= line.end + TOLERANCE:
                yield edge, part_number


def _borders(lines: list[float], ends: list[float]) -> list[float]:
    """Return the borders; a table may be open at its sides, where only crossing lines end."""
    edges: list[float] = []
    for edge in sorted(lines):
        if not edges or edge - edges[-1] > TOLERANCE:
            edges.append(edge)
    if min(ends) < edges[0] - 4 * TOLERANCE:
        edges.insert(0, min(ends))
    if max(ends) > edges[-1] + 4 * TOLERANCE:
        edges.append(max(ends))
    return edges


def grid_table(
    grid: Grid, runs: Sequence[Run], split: Callable[[Run], list[Run]]
) -> tuple[Table | None, set[int]]:
    """Return the table, and the start offsets of the runs it contains."""
    inside = [run for run in runs if grid.holds(run)]
    if not inside or sum(_crosses(grid, run) for run in inside) > MAX_CROSSING * len(inside):
        return None, set()
    segments_by_cell: dict[tuple[int, int], list[Segment]] = {}
    for run in inside:
        for part in _split_run(grid, run, split):
            y = part.baseline + 0.3 * part.style.size
            cell = _cell(grid, grid.row(y), part)
            segment = Segment([part], part.left, part.right, part.baseline, part.style.size)
            segments_by_cell.setdefault(cell, []).append(segment)
    if _is_boxed_sentence(segments_by_cell):
        return None, set()
    rows, columns = len(grid.ys) - 1, len(grid.xs) - 1
    cells = [
        [cell_text(segments_by_cell.get((row, column), ())) for column in range(columns)]
        for row in range(rows)
    ]
    cells = _without_empty(cells)
    longest = max((len(cell) for row in cells for cell in row), default=0)
    if longest > MAX_BOXED_CHARACTERS and 2 * longest > sum(
        len(cell) for row in cells for cell in row
    ):
        return None, set()
    filled_count = sum(bool(cell) for row in cells for cell in row)
    if (
        len(cells) < 2
        or len(cells[0]) < 2
        or filled_count < MIN_FILLED_SHARE * len(cells) * len(cells[0])
    ):
        return None, set()
    size = inside[0].style.size
    table = Table(cells, grid.xs[0], grid.xs[-1], grid.ys[0], grid.ys[-1], size)
    return table, {run.start for run in inside}


def _is_boxed_sentence(segments_by_cell: Mapping[tuple[int, int], Sequence[Segment]]) -> bool:
    """Return whether the cells are boxed words of a line, with no more than spaces between them."""
    gaps = []
    for (row, column), segments in segments_by_cell.items():
        after = segments_by_cell.get((row, column + 1))
        if after:
            right, left = max(p.right for p in segments), min(p.left for p in after)
            gaps.append((left - right) / segments[0].size)
    return bool(gaps) and median(gaps) < MIN_CELL_GAP


def _crosses(grid: Grid, run: Run) -> bool:
    """Return whether a run crosses a border, so that this is not a table."""
    slack = 0.4 * run.style.size
    first, last = grid.column(run.left + slack), grid.column(run.right - slack)
    if first >= last:
        return False
    row = grid.row(run.baseline + 0.3 * run.style.size)
    return any((row, column) in grid.left_borders for column in range(first + 1, last + 1))


def _split_run(grid: Grid, run: Run, split: Callable[[Run], list[Run]]) -> list[Run]:
    slack = 0.4 * run.style.size
    if grid.column(run.left + slack) == grid.column(run.right - slack) or " " not in run.text:
        return [run]
    return split(run)


def _cell(grid: Grid, row: int, run: Run) -> tuple[int, int]:
    """Return the cell of a run. Text of merged cells goes to the first of them."""
    if not any((row, column) in grid.left_borders for column in range(1, len(grid.xs) - 1)):
        # This row has no borders at all: it is unshaded where others are shaded.
        return row, grid.column(run.left + 1)
    column = grid.column((run.left + run.right) / 2)
    while column > 0 and (row, column) not in grid.left_borders:
        column -= 1
    while row > 0 and (row, column) not in grid.top_borders:
        row -= 1
    return row, column


def _without_empty(cells: list[list[str]]) -> list[list[str]]:
    rows = [row for row in cells if any(row)]
    columns = [number for number in range(len(cells[0])) if any(row[number] for row in rows)]
    return [[row[number] for number in columns] for row in rows]


#: Points within which two rulings have the same length.
EXTENT_TOLERANCE = 6.0
MIN_RULE_LENGTH = 60.0
MAX_RULINGS = 400
#: Characters per cell on average, at most, between two lines and between more.
MAX_CHARACTERS_TWO_LINES, MAX_CHARACTERS = 36, 120
#: Ems between the outermost line and rows that may belong to the table.
REACH = 2.6

Row = list[Segment]


def group_rulings(horizontal: Sequence[Ruling]) -> list[list[Ruling]]:
    """Group horizontal lines of the same extent, from top to bottom."""
    groups: list[list[Ruling]] = []
    for line in sorted(horizontal, key=lambda line: -line.position)[:MAX_RULINGS]:
        if line.end - line.start < MIN_RULE_LENGTH:
            continue
        for group in groups[-20:]:
            first = group[0]
            if (
                abs(first.start - line.start) < EXTENT_TOLERANCE
                and abs(first.end - line.end) < EXTENT_TOLERANCE
            ):
                group.append(line)
                break
        else:
            groups.append([line])
    return [group for group in groups if len(group) > 1]


def is_near_rulings(group: Sequence[Ruling], run: Run) -> bool:
    """Return whether a run is close enough to the lines to be part of their table."""
    reach = REACH * run.style.size
    inside = group[-1].position - reach < run.baseline < group[0].position + reach
    return (
        inside
        and group[0].start - EXTENT_TOLERANCE
        < (run.left + run.right) / 2
        < group[0].end + EXTENT_TOLERANCE
    )


def ruled_tables(
    group: Sequence[Ruling], segments: Sequence[Segment], *, detect_code: bool = True
) -> list[tuple[Table, list[Row]]]:
    """Return the tables along these lines with their rows. Source code is never a table."""
    left, right = group[0].start - EXTENT_TOLERANCE, group[0].end + EXTENT_TOLERANCE
    rows = group_rows([p for p in segments if left < (p.left + p.right) / 2 < right])
    parts = _split_rows(group, rows)
    tables: list[tuple[Table, list[Row]]] = []
    part_number = 1
    while part_number < len(parts) - 1:
        end = _table_end(parts, part_number)
        if end > part_number:
            table_and_rows = _build_table(parts, part_number, end)
            if table_and_rows is not None and not (
                detect_code and is_source_code(table_and_rows[1])
            ):
                tables.append(table_and_rows)
        part_number = max(end, part_number + 1)
    return tables


def _split_rows(group: Sequence[Ruling], rows: Sequence[Row]) -> list[list[Row]]:
    """Split rows into those above the first line, between each two, and below the last."""
    parts: list[list[Row]] = [[] for _ in range(len(group) + 1)]
    part_number = 0
    for row in rows:
        height = max(segment.baseline + 0.3 * segment.size for segment in row)
        while part_number < len(group) and height < group[part_number].position:
            part_number += 1
        parts[part_number].append(row)
    return parts


def _table_end(parts: Sequence[Sequence[Row]], start: int) -> int:
    """Return the end of the table that starts with this part."""
    end, count = start, 0
    rows: list[Row] = []
    for part_number in range(start, len(parts) - 1):
        full = [row for row in parts[part_number] if len(row) > 1]
        if len(parts[part_number]) > 1:
            full = [row for row in full if not is_running_text(row)]
        if not parts[part_number] and rows:
            # A double line, or the padding of a shaded row.
            continue
        if not full or len(parts[part_number]) > 6 * len(full):
            if len(parts[part_number]) == 1 and rows and part_number + 1 < len(parts) - 1:
                continue
            break
        gaps = column_gaps((rows + full)[-40:], full[0][0].size)
        misfits = sum(not fits_columns(row, gaps) for row in parts[part_number])
        if len(gaps) < max(1, 0.6 * count) or misfits > 0.4 * len(parts[part_number]):
            break
        if rows and len(_last_rows(parts[part_number])) < len(parts[part_number]):
            # Text separates this part from the table: another table begins below it.
            break
        rows, count, end = rows + full, len(gaps), part_number + 1
    return end


def _build_table(
    parts: Sequence[Sequence[Row]], start: int, end: int
) -> tuple[Table, list[Row]] | None:
    inner = [_last_rows(parts[start]), *(list(part) for part in parts[start + 1 : end])]
    rows = [row for part in inner for row in part]
    size = rows[0][0].size
    gaps = column_gaps([row for row in rows if len(row) > 1], size)
    above = _adjacent_rows(list(reversed(parts[start - 1])), rows[0], gaps)
    below = _adjacent_rows(parts[end] if end < len(parts) else [], rows[-1], gaps)
    cells = [[split_cells(row, gaps) for row in part] for part in inner if part]
    texts = [segment.weight for row in rows for segment in row]
    longest = MAX_CHARACTERS_TWO_LINES if len(inner) < 2 else MAX_CHARACTERS
    if sum(texts) > longest * len(texts):
        return None
    if not _is_table([row for row in rows if len(row) > 1], gaps):
        return None
    merged = _merge_parts(cells)
    merged = [
        *merge_continued_rows([split_cells(row, gaps) for row in reversed(above)]), *merged,
        *(split_cells(row, gaps) for row in below),
    ]  # fmt: skip
    if len(merged) < 2:
        return None
    return build_table(merged), [*above, *rows, *below]


def _is_table(rows: Sequence[Row], gaps: Sequence[float]) -> bool:
    """Return whether it is a table: lines also surround code and underline headings."""
    if sum(map(is_running_text, rows)) > 0.4 * len(rows) and len(rows) < 4:
        return False
    if len(rows) < 3:
        return all(_widest_gap(row) > 1.2 * row[0].size for row in rows)
    columns = zip(*(split_cells(row, gaps) for row in rows), strict=True)
    aligned = [is_aligned([cell for cell in column if cell]) for column in columns]
    return sum(aligned) >= 0.75 * len(aligned)


def _widest_gap(row: Row) -> float:
    return max(after.left - before.right for before, after in pairwise(row))


def _last_rows(rows: Sequence[Row]) -> list[Row]:
    """Drop text above the first row of a table that has no top rule."""
    for number in range(len(rows) - 1, 0, -1):
        apart = (
            rows[number - 1][0].baseline - rows[number][0].baseline > REACH * rows[number][0].size
        )
        if apart or (len(rows[number - 1]) == 1 and len(rows[number]) > 2):
            return list(rows[number:])
    return list(rows)


def _adjacent_rows(rows: Sequence[Row], row: Row, gaps: Sequence[float]) -> list[Row]:
    """Return adjacent rows outside the lines that fit the columns, such as a header."""
    used: list[Row] = []
    for other in rows[:3]:
        step = abs(other[0].baseline - row[0].baseline)
        if step > REACH * row[0].size or not fits_columns(other, gaps) or is_running_text(other):
            break
        if count_filled(split_cells(other, gaps)) < max(2, 0.5 * (len(gaps) + 1)):
            break
        used.append(other)
        row = other
    return used


def _merge_parts(parts: Sequence[Sequence[Cells]]) -> list[Cells]:
    """Treat each part as one row if no part between two lines has more than one full row."""
    width = len(parts[0][0])
    one_row = [sum(count_filled(cells) == width for cells in part) <= 1 for part in parts]
    if len(parts) > 2 and all(one_row):
        return [_merge_row(part) for part in parts]
    head, *others = parts
    rows = [_merge_row(head)] if others and one_row[0] else merge_continued_rows(head)
    for part in others:
        rows += merge_continued_rows(part)
    return rows


def _merge_row(lines: Sequence[Cells]) -> Cells:
    return [[segment for cell in column for segment in cell] for column in zip(*lines, strict=True)]
