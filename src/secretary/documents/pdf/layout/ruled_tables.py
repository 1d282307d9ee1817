"""Detects tables with ruling lines: full grids, and rows between horizontal rules."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import neg
from statistics import median

from ..pdfium import TextLayer
from .drawings import Drawings, Ruling
from .rows import LIKELY_GAP, Segment, group_rows, is_source_code, join_runs, rebuild_words
from .runs import Run, split_at_gaps, split_words
from .tables import (
    Cells,
    Row,
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


def find_ruled_tables(
    layer: TextLayer, runs: list[Run], rotation: int, drawings: Drawings, detect_code: bool
) -> tuple[list[Table], list[Run]]:
    """Return the tables, and the runs outside of them."""
    tables: list[Table] = []
    used: list[Ruling] = []
    for grid in _find_grids(drawings):
        inside = [run for run in runs if grid.holds(run)]
        table = _grid_table(grid, inside, lambda run: split_words(layer, run, rotation))
        if table is not None:
            tables.append(table)
            runs = [run for run in runs if not grid.holds(run)]
            used += grid.horizontal
    unused = [line for line in _merge_rulings(drawings.horizontal) if line not in used]
    for group in _group_rulings(unused):
        # One text object may draw all cells of a row.
        undivided, runs = runs, []
        for run in undivided:
            is_divided = " " in run.text and _is_near_rulings(group, run)
            runs += split_at_gaps(layer, run, rotation, LIKELY_GAP) if is_divided else [run]
        for table, rows in _ruled_tables(group, rebuild_words(join_runs(runs)), detect_code):
            tables.append(table)
            taken = {run.start for row in rows for segment in row for run in segment.runs}
            runs = [run for run in runs if run.start not in taken]
    return tables, runs


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


def _find_grids(drawings: Drawings) -> list[Grid]:
    horizontal, vertical = _merge_rulings(drawings.horizontal), _merge_rulings(drawings.vertical)
    if len(horizontal) < 2 or len(vertical) < 1 or max(len(horizontal), len(vertical)) > MAX_LINES:
        return []
    grids = (_grid(*lines) for lines in _connected_groups(horizontal, vertical))
    return [grid for grid in grids if grid is not None]


def _merge_rulings(rulings: Iterable[Ruling]) -> list[Ruling]:
    """Merge rulings that were drawn in parts or twice."""
    groups: list[list[Ruling]] = []
    for ruling in sorted(rulings):
        if groups and ruling.position - groups[-1][0].position <= TOLERANCE:
            groups[-1].append(ruling)
        else:
            groups.append([ruling])
    lines: list[Ruling] = []
    for group in groups:
        position = sum(ruling.position for ruling in group) / len(group)
        first = len(lines)
        for _, start, end in sorted(group, key=lambda ruling: ruling.start):
            if len(lines) > first and start <= lines[-1].end + TOLERANCE:
                lines[-1] = lines[-1]._replace(end=max(lines[-1].end, end))
            else:
                lines.append(Ruling(position, start, end))
    return lines


def _connected_groups(
    horizontal: list[Ruling], vertical: list[Ruling]
) -> Iterable[tuple[list[Ruling], list[Ruling]]]:
    parents = list(range(len(horizontal) + len(vertical)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    for i, line in enumerate(horizontal):
        for j, other in enumerate(vertical, len(horizontal)):
            if (
                line.start - TOLERANCE <= other.position <= line.end + TOLERANCE
                and other.start - TOLERANCE <= line.position <= other.end + TOLERANCE
            ):
                parents[root(i)] = root(j)
    groups: dict[int, tuple[list[Ruling], list[Ruling]]] = {}
    for number, line in enumerate((*horizontal, *vertical)):
        group = groups.setdefault(root(number), ([], []))
        group[number >= len(horizontal)].append(line)
    return groups.values()


def _grid(horizontal: list[Ruling], vertical: list[Ruling]) -> Grid | None:
    if len(horizontal) < 2 or not vertical:
        return None
    xs, ys = _borders(vertical, horizontal), _borders(horizontal, vertical)
    if len(xs) < 3 or len(ys) < 3 or len(xs) * len(ys) > MAX_CELLS:
        return None
    ys.reverse()
    left = {(row, column) for column, row in _covered_borders(vertical, xs, ys)}
    top = set(_covered_borders(horizontal, ys, xs))
    rows, columns = len(ys) - 1, len(xs) - 1
    inner_left = sum(0 < column < columns for _, column in left)
    inner_top = sum(0 < row < rows for row, _ in top)
    has_columns = inner_left >= MIN_BORDER_SHARE * rows * (columns - 1)
    has_rows = inner_top >= MIN_BORDER_SHARE * columns * (rows - 1)
    return Grid(xs, ys, horizontal, left, top) if has_columns and has_rows else None


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


def _borders(lines: list[Ruling], crossing: list[Ruling]) -> list[float]:
    """Return the borders; a table may be open at its sides, where only crossing lines end."""
    edges: list[float] = []
    for edge in sorted(line.position for line in lines):
        if not edges or edge - edges[-1] > TOLERANCE:
            edges.append(edge)
    start, end = min(min(line[1:]) for line in crossing), max(max(line[1:]) for line in crossing)
    if start < edges[0] - 4 * TOLERANCE:
        edges.insert(0, start)
    if end > edges[-1] + 4 * TOLERANCE:
        edges.append(end)
    return edges


def _grid_table(grid: Grid, runs: Sequence[Run], split: Callable[[Run], list[Run]]) -> Table | None:
    if not runs or sum(_crosses(grid, run) for run in runs) > MAX_CROSSING * len(runs):
        return None
    segments_by_cell: dict[tuple[int, int], list[Segment]] = {}
    for run in runs:
        slack = 0.4 * run.style.size
        is_in_one_cell = grid.column(run.left + slack) == grid.column(run.right - slack)
        for part in [run] if is_in_one_cell or " " not in run.text else split(run):
            cell = _cell(grid, grid.row(part.baseline + 0.3 * part.style.size), part)
            segment = Segment([part], part.left, part.right, part.baseline, part.style.size)
            segments_by_cell.setdefault(cell, []).append(segment)
    # Boxed words of a line have no more than spaces between them.
    gaps = [
        (min(p.left for p in after) - max(p.right for p in segments)) / segments[0].size
        for (row, column), segments in segments_by_cell.items()
        if (after := segments_by_cell.get((row, column + 1)))
    ]
    if gaps and median(gaps) < MIN_CELL_GAP:
        return None
    columns = range(len(grid.xs) - 1)
    rows = [
        [cell_text(segments_by_cell.get((row, column), ())) for column in columns]
        for row in range(len(grid.ys) - 1)
    ]
    rows = [row for row in rows if any(row)]
    filled_columns = [column for column in columns if any(row[column] for row in rows)]
    rows = [[row[column] for column in filled_columns] for row in rows]
    lengths = [len(cell) for row in rows for cell in row if cell]
    if max(lengths, default=0) > MAX_BOXED_CHARACTERS and 2 * max(lengths) > sum(lengths):
        return None
    cell_count = len(rows) * len(filled_columns)
    if min(len(rows), len(filled_columns)) < 2 or len(lengths) < MIN_FILLED_SHARE * cell_count:
        return None
    size = runs[0].style.size
    return Table(rows, grid.xs[0], grid.xs[-1], grid.ys[0], grid.ys[-1], size)


def _crosses(grid: Grid, run: Run) -> bool:
    """Return whether a run crosses a border, so that this is not a table."""
    slack = 0.4 * run.style.size
    first, last = grid.column(run.left + slack), grid.column(run.right - slack)
    if first >= last:
        return False
    row = grid.row(run.baseline + 0.3 * run.style.size)
    return any((row, column) in grid.left_borders for column in range(first + 1, last + 1))


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


#: Points within which two rulings have the same length.
EXTENT_TOLERANCE = 6.0
MIN_RULE_LENGTH = 60.0
MAX_RULINGS = 400
#: Characters per cell on average, at most, between two lines and between more.
MAX_CHARACTERS_TWO_LINES, MAX_CHARACTERS = 36, 120
#: Ems between the outermost line and rows that may belong to the table.
REACH = 2.6


def _group_rulings(horizontal: Sequence[Ruling]) -> list[list[Ruling]]:
    """Group horizontal lines of the same extent, from top to bottom."""
    groups: list[list[Ruling]] = []
    for line in sorted(horizontal, key=lambda line: -line.position)[:MAX_RULINGS]:
        if line.end - line.start < MIN_RULE_LENGTH:
            continue
        for group in groups[-20:]:
            offsets = abs(group[0].start - line.start), abs(group[0].end - line.end)
            if max(offsets) < EXTENT_TOLERANCE:
                group.append(line)
                break
        else:
            groups.append([line])
    return [group for group in groups if len(group) > 1]


def _is_near_rulings(group: Sequence[Ruling], run: Run) -> bool:
    """Return whether a run is close enough to the lines to be part of their table."""
    reach = REACH * run.style.size
    left, right = group[0].start - EXTENT_TOLERANCE, group[0].end + EXTENT_TOLERANCE
    is_beside = group[-1].position - reach < run.baseline < group[0].position + reach
    return is_beside and left < (run.left + run.right) / 2 < right


def _ruled_tables(
    group: Sequence[Ruling], segments: Sequence[Segment], detect_code: bool
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
            table = _build_table(parts, part_number, end)
            if table is not None and not (detect_code and is_source_code(table[1])):
                tables.append(table)
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
    full_rows = [row for row in rows if len(row) > 1]
    gaps = column_gaps(full_rows, rows[0][0].size)
    above = _adjacent_rows(list(reversed(parts[start - 1])), rows[0], gaps)
    below = _adjacent_rows(parts[end] if end < len(parts) else [], rows[-1], gaps)
    cells = [[split_cells(row, gaps) for row in part] for part in inner if part]
    texts = [segment.weight for row in rows for segment in row]
    longest = MAX_CHARACTERS_TWO_LINES if len(inner) < 2 else MAX_CHARACTERS
    if sum(texts) > longest * len(texts) or not _is_table(full_rows, gaps):
        return None
    merged = merge_continued_rows([split_cells(row, gaps) for row in reversed(above)])
    merged += [*_merge_parts(cells), *(split_cells(row, gaps) for row in below)]
    return (build_table(merged), [*above, *rows, *below]) if len(merged) > 1 else None


def _is_table(rows: Sequence[Row], gaps: Sequence[float]) -> bool:
    """Return whether it is a table: lines also surround code and underline headings."""
    if sum(map(is_running_text, rows)) > 0.4 * len(rows) and len(rows) < 4:
        return False
    if len(rows) < 3:
        widest = [max(after.left - before.right for before, after in pairwise(row)) for row in rows]
        return all(gap > 1.2 * row[0].size for gap, row in zip(widest, rows, strict=True))
    columns = zip(*(split_cells(row, gaps) for row in rows), strict=True)
    aligned = [is_aligned([cell for cell in column if cell]) for column in columns]
    return sum(aligned) >= 0.75 * len(aligned)


def _last_rows(rows: Sequence[Row]) -> list[Row]:
    """Drop text above the first row of a table that has no top rule."""
    for number in range(len(rows) - 1, 0, -1):
        above, row = rows[number - 1], rows[number]
        is_apart = above[0].baseline - row[0].baseline > REACH * row[0].size
        if is_apart or (len(above) == 1 and len(row) > 2):
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
    are_rows = len(parts) > 2 and all(one_row)
    rows: list[Cells] = []
    for number, part in enumerate(parts):
        if are_rows or (number == 0 and len(parts) > 1 and one_row[0]):
            columns = zip(*part, strict=True)
            rows.append([[segment for cell in column for segment in cell] for column in columns])
        else:
            rows += merge_continued_rows(part)
    return rows
