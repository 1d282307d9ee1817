"""The table model, what all table detectors share, and borderless tables aligned in columns."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import ClassVar

from ..pdfium import Structure
from .rows import Segment, group_rows, is_source_code, join_runs, parse_list_marker
from .runs import Run, join_lines

#: In ems: the gap between columns in most rows, and in all of them.
GUTTER, MIN_GUTTER = 0.5, 0.2
#: Share of a column's cells that must be aligned.
ALIGNED_SHARE = 0.7
#: Share of the characters that must be tagged before the tags are trusted.
TAGGED_SHARE = 0.7
#: Characters per cell on average; with more, the table is used for page layout.
MAX_CELL_CHARACTERS = 250
Cells = list[list[Segment]]


@dataclass(slots=True)
class Table:
    cells: list[list[str]]
    left: float
    right: float
    top: float
    bottom: float
    size: float
    #: Neutral in the search for columns: neither prose nor short cells.
    weight: ClassVar[int] = 40


def trusted_structure(structure: Structure, runs: Sequence[Run]) -> Structure:
    cells = [cell for table in structure.tables for row in table for cell in row]
    mcids = set(structure.tags).union(*cells)
    total = sum(len(run.text) for run in runs)
    tagged = sum(len(run.text) for run in runs if run.mcid in mcids)
    return structure if total and tagged >= TAGGED_SHARE * total else Structure()


def tagged_tables(structure: Structure, runs: list[Run]) -> tuple[list[Table], list[Run]]:
    """Return the tables, and the runs outside of them."""
    tables = []
    for rows in structure.tables:
        if (table := _build_tagged_table(rows, runs)) is not None:
            tables.append(table)
            used = {mcid for row in rows for cell in row for mcid in cell}
            runs = [run for run in runs if run.mcid not in used]
    return tables, runs


def _build_tagged_table(rows: list[list[list[int]]], runs: Sequence[Run]) -> Table | None:
    width = max((len(row) for row in rows), default=0)
    positions = {
        mcid: (number, column)
        for number, row in enumerate(rows)
        for column, cell in enumerate(row)
        for mcid in cell
    }
    runs_by_cell: dict[tuple[int, int], list[Run]] = {}
    for run in runs:
        if run.mcid in positions:
            runs_by_cell.setdefault(positions[run.mcid], []).append(run)
    cells: list[Cells] = []
    for number in range(len(rows)):
        in_row = (runs_by_cell.get((number, column)) for column in range(width))
        if filled := [join_runs(cell_runs) for cell_runs in in_row if cell_runs]:
            cells.append(filled)
    if len(cells) < 2 or width < 2:
        return None
    letters = sum(len(run.text) for group in runs_by_cell.values() for run in group)
    if letters > MAX_CELL_CHARACTERS * len(runs_by_cell):
        return None
    if all(len(row) == width for row in cells):
        return build_table(cells)
    # Assign cells to columns by position, since empty cells are not tagged.
    lines = [[segment for cell in row for segment in cell] for row in cells]
    gaps = column_gaps(lines, lines[0][0].size)
    fits = len(gaps) + 1 == width
    return build_table([split_cells(line, gaps) for line in lines]) if fits else None


def column_gaps(rows: Sequence[Sequence[Segment]], size: float) -> list[float]:
    """Return the centres of the vertical gaps that no row reaches into."""
    runs = [[run for segment in row for run in segment.runs] for row in rows]
    spans = sorted((run.left, run.right) for row in runs for run in row)
    gaps: list[float] = []
    reach = spans[0][1] if spans else 0.0
    for left, right in spans:
        gap = (left + reach) / 2
        if left - reach >= MIN_GUTTER * size:
            # The gap must be wider than a space in most rows.
            widths = []
            for row in runs:
                before = max((run.right for run in row if run.right <= gap), default=None)
                after = min((run.left for run in row if run.left >= gap), default=None)
                if before is not None and after is not None:
                    widths.append(after - before)
            if widths and median(widths) >= GUTTER * size:
                gaps.append(gap)
        reach = max(reach, right)
    return gaps


def split_cells(row: Sequence[Segment], gaps: Sequence[float]) -> Cells:
    """Split a row into the cells between these gaps; a segment may cross a narrow gap."""
    cells: Cells = [[] for _ in range(len(gaps) + 1)]
    for segment in row:
        parts: dict[int, list[Run]] = {}
        for run in segment.runs:
            parts.setdefault(bisect_left(gaps, (run.left + run.right) / 2), []).append(run)
        for column, runs in parts.items():
            left, right = min(run.left for run in runs), max(run.right for run in runs)
            cells[column].append(Segment(runs, left, right, segment.baseline, segment.size))
    return cells


def fits_columns(row: Sequence[Segment], gaps: Sequence[float]) -> bool:
    """Return whether no run reaches from one column into the next."""
    return all(
        bisect_left(gaps, run.left + 1) == bisect_left(gaps, run.right - 1)
        for segment in row
        for run in segment.runs
    )


def is_running_text(row: Sequence[Segment]) -> bool:
    """Return whether this is a justified line of text rather than cells."""
    width = row[-1].right - row[0].left
    gaps = [after.left - before.right for before, after in pairwise(row)]
    text = sum(segment.right - segment.left for segment in row)
    return text > 0.8 * width and max(gaps, default=0.0) < 1.2 * row[0].size


def is_aligned(cells: Sequence[Sequence[Segment]]) -> bool:
    """Return whether most cells of a column are left-, right- or centre-aligned."""
    if len(cells) < 2:
        return True
    slack = 0.5 * cells[0][0].size
    lefts = [min(segment.left for segment in cell) for cell in cells]
    rights = [max(segment.right for segment in cell) for cell in cells]
    middles = [(left + right) / 2 for left, right in zip(lefts, rights, strict=True)]
    for edges in map(sorted, (lefts, rights, middles)):
        counts = (bisect_right(edges, edge + 2 * slack) - at for at, edge in enumerate(edges))
        if max(counts) >= ALIGNED_SHARE * len(cells):
            return True
    return False


def count_filled(cells: Cells) -> int:
    return sum(bool(cell) for cell in cells)


def build_table(cells: Sequence[Cells]) -> Table:
    segments = [segment for row in cells for cell in row for segment in cell]
    return Table(
        [[cell_text(cell) for cell in row] for row in cells],
        min(segment.left for segment in segments), max(segment.right for segment in segments),
        max(segment.top for segment in segments), min(segment.bottom for segment in segments),
        segments[0].size,
    )  # fmt: skip


def cell_text(segments: Sequence[Segment]) -> str:
    """Return the text of a cell, which may have several lines."""
    text, hyphenated = "", False
    for row in group_rows(list(segments)):
        line = " ".join(segment.text for segment in row)
        text = join_lines(text, line, hyphenated) if text else line
        hyphenated = row[-1].runs[-1].hyphenated
    return text


def merge_continued_rows(lines: Sequence[Cells]) -> list[Cells]:
    """Merge lines that continue the cells above them into rows."""
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
    heights = [
        max((segment.size, segment.baseline) for cell in cells for segment in cell)[1]
        for cells in lines
    ]
    size = max(segment.size for cell in lines[0] for segment in cell)
    steps = [a - b for a, b in pairwise(heights)]
    tight = min((step for step in steps if step > 0.6 * size), default=0.0)
    wide = [step for step in steps if step > 1.2 * tight]
    counts = [count_filled(cells) for cells in lines]
    if wide and len(wide) < len(steps) and tight < 1.6 * size:
        starts = [True, *(step > 1.2 * tight for step in steps)]
        first_counts = [count for count, start in zip(counts, starts, strict=True) if start]
        other_counts = [count for count, start in zip(counts, starts, strict=True) if not start]
        # First lines of rows fill the most cells; if all lines do, each line is a row.
        if sum(other_counts) / len(other_counts) < 0.8 * sum(first_counts) / len(first_counts):
            return starts
    starts = [True]
    for step, (above, cells) in zip(steps, pairwise(lines), strict=True):
        continues = not cells[0] and count_filled(cells) < len(cells)
        continues = continues and all(a for a, b in zip(above, cells, strict=True) if b)
        starts.append(step > 1.5 * size or not continues)
    return starts


MIN_ROWS = 3
MAX_ROWS = 300
#: Characters per cell on average, at most: longer cells are columns of running text.
MAX_ALIGNED_CELL_CHARACTERS = 36
MIN_FILLED_SHARE = 0.5
WORD = re.compile(r"\w")
Row = list[Segment]
Spans = list[tuple[float, float]]


def find_tables(rows: Sequence[Row], *, detect_code: bool = True) -> list[tuple[int, int, Table]]:
    """Return tables with their first and last row (exclusive). Source code is never a table."""
    tables: list[tuple[int, int, Table]] = []
    start = 0
    while start < len(rows):
        end = _end_of_rows(rows, start) if _has_cells(rows[start]) else start
        if end > start and detect_code and is_source_code(rows[start:end]):
            start = end
            continue
        gaps = _column_separators(rows[start:end]) if end - start >= MIN_ROWS else []
        if gaps and _is_definition_list([split_cells(row, gaps) for row in rows[start:end]]):
            start = end
        elif gaps:
            # The row above may hold column names, set as closely as text.
            if start > (tables[-1][1] if tables else 0):
                row, first = rows[start - 1], rows[start][0]
                is_near = row[0].baseline - first.baseline < 2.6 * first.size
                if is_near and fits_columns(row, gaps):
                    start -= count_filled(split_cells(row, gaps)) > max(1, 0.5 * len(gaps))
            cells = [split_cells(row, gaps) for row in rows[start:end]]
            tables.append((start, end, build_table(merge_continued_rows(cells))))
            start = end
        else:
            start += 1 if end - start < 20 else (end - start) // 2
    return tables


def _has_cells(row: Row) -> bool:
    if len(row) < 2 or is_running_text(row):
        return False
    return len(row) > 2 or not _is_list_marker(row[0].text)


def _is_list_marker(text: str) -> bool:
    return parse_list_marker(f"{text} x") is not None


def _end_of_rows(rows: Sequence[Row], start: int) -> int:
    spans: Spans = []
    last = start
    size = rows[start][0].size
    for end in range(start, min(len(rows), start + MAX_ROWS)):
        row = rows[end]
        step = rows[end - 1][0].baseline - row[0].baseline if end > start else 0.0
        wider: Spans = []
        for left, right in sorted([*spans, *((segment.left, segment.right) for segment in row)]):
            if wider and left - wider[-1][1] < GUTTER * size:
                wider[-1] = (wider[-1][0], max(wider[-1][1], right))
            else:
                wider.append((left, right))
        if len(wider) < 2 or step > 3.5 * size or len(wider) < 0.67 * len(spans):
            break
        if len(row) == 1 and (len(wider) < len(spans) or step > 2 * size):
            break
        spans = wider
        if _has_cells(row):
            last = end + 1
    return last


def _column_separators(rows: Sequence[Row]) -> list[float]:
    """Return the column separators of these rows, or nothing if they are not a table."""
    full = [row for row in rows if len(row) > 1]
    gaps = column_gaps(full, rows[0][0].size) if len(full) >= MIN_ROWS else []
    return gaps if gaps and _is_table([split_cells(row, gaps) for row in rows]) else []


def _is_table(cells: Sequence[Cells]) -> bool:
    texts = [" ".join(p.text for p in cell) for row in cells for cell in row if cell]
    if sum(map(count_filled, cells)) < MIN_FILLED_SHARE * len(cells) * len(cells[0]):
        return False
    has_words = any(map(WORD.search, texts))
    if not has_words or sum(map(len, texts)) > MAX_ALIGNED_CELL_CHARACTERS * len(texts):
        return False
    columns = list(zip(*cells, strict=True))
    first = [" ".join(p.text for p in cell) for cell in columns[0] if cell]
    if len(columns) == 2 and sum(map(_is_list_marker, first)) > len(first) / 2:
        return False
    return all(is_aligned([cell for cell in column if cell]) for column in columns)


#: Share of the terms that must be set in another style than their definitions.
STYLED_SHARE = 0.8
#: Words per definition on average; table values have fewer.
MIN_DEFINITION_WORDS = 3
#: Characters per term on average, at most, if terms are set in the same style.
SHORT_TERM = 12


def _is_definition_list(lines: Sequence[Cells]) -> bool:
    if len(lines[0]) != 2:
        return False
    # A long term may stand above its definition, as table cells never do.
    for (term, beside), (next_term, definition) in pairwise(lines):
        is_hanging = term and definition and not beside and not next_term
        if is_hanging and term[0].baseline - definition[0].baseline < 1.6 * term[0].size:
            return True
    terms = [term for term, _ in lines if term]
    words = sum(len(segment.text.split()) for _, definition in lines for segment in definition)
    if not terms or words < MIN_DEFINITION_WORDS * len(terms):
        return False
    first_runs = [run for cell in lines[0] for segment in cell for run in segment.runs]
    is_short = sum(len(term[0].text) for term in terms) < SHORT_TERM * len(terms)
    if is_short and not all(run.style.bold for run in first_runs):
        return True
    # Column headers share one style, which differs from that of the rows below.
    styled = [
        _is_styled_apart(term, definition) for term, definition in lines if term and definition
    ]
    return bool(styled) and styled[0] and sum(styled) >= STYLED_SHARE * len(styled)


def _is_styled_apart(term: Sequence[Segment], definition: Sequence[Segment]) -> bool:
    if term[0].text.startswith(("-", "\u2212", "\u2013")) and len(term[0].text) > 1:
        # A command-line option.
        return not term[0].text[1:].replace(".", "").replace(",", "").isdigit()
    first, second = term[0].runs[0].style, definition[0].runs[0].style
    return (first.bold, first.mono) > (second.bold, second.mono) and not second.bold
