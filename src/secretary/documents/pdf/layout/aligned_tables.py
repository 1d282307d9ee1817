"""Detects borderless tables: rows whose cells are aligned in columns."""

import re
from collections.abc import Sequence
from itertools import pairwise

from .rows import Segment, is_bullet, is_source_code, parse_list_marker
from .tables import (
    GUTTER,
    Cells,
    Table,
    build_table,
    column_gaps,
    count_filled,
    fits_columns,
    is_aligned,
    is_running_text,
    merge_continued_rows,
    split_cells,
)

MIN_ROWS = 3
MAX_ROWS = 300
#: Characters per cell on average, at most: longer cells are columns of running text.
MAX_CELL_CHARACTERS = 36
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
            previous_end = tables[-1][1] if tables else 0
            if start > previous_end and _is_header(rows[start - 1], rows[start], gaps):
                start -= 1
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
    return is_bullet(text) or parse_list_marker(f"{text} x") is not None


def _end_of_rows(rows: Sequence[Row], start: int) -> int:
    spans: Spans = []
    last = start
    size = rows[start][0].size
    for end in range(start, min(len(rows), start + MAX_ROWS)):
        row = rows[end]
        step = rows[end - 1][0].baseline - row[0].baseline if end > start else 0.0
        wider = _merge_spans(spans, row, GUTTER * size)
        if len(wider) < 2 or step > 3.5 * size or len(wider) < 0.67 * len(spans):
            break
        if len(row) == 1 and (len(wider) < len(spans) or step > 2 * size):
            break
        spans = wider
        if _has_cells(row):
            last = end + 1
    return last


def _merge_spans(spans: Spans, row: Row, gutter: float) -> Spans:
    merge_rulings: Spans = []
    for left, right in sorted([*spans, *((segment.left, segment.right) for segment in row)]):
        if merge_rulings and left - merge_rulings[-1][1] < gutter:
            merge_rulings[-1] = (merge_rulings[-1][0], max(merge_rulings[-1][1], right))
        else:
            merge_rulings.append((left, right))
    return merge_rulings


def _column_separators(rows: Sequence[Row]) -> list[float]:
    """Return the column separators of these rows, or nothing if they are not a table."""
    full = [row for row in rows if len(row) > 1]
    gaps = column_gaps(full, rows[0][0].size)
    if not gaps or len(full) < MIN_ROWS:
        return []
    return gaps if _is_table([split_cells(row, gaps) for row in rows]) else []


def _is_table(cells: Sequence[Cells]) -> bool:
    texts = [" ".join(p.text for p in cell) for row in cells for cell in row if cell]
    if sum(map(count_filled, cells)) < MIN_FILLED_SHARE * len(cells) * len(cells[0]):
        return False
    if sum(map(len, texts)) > MAX_CELL_CHARACTERS * len(texts) or not any(map(WORD.search, texts)):
        return False
    columns = list(zip(*cells, strict=True))
    first = [" ".join(p.text for p in cell) for cell in columns[0] if cell]
    if len(columns) == 2 and sum(map(_is_list_marker, first)) > len(first) / 2:
        return False
    return all(is_aligned([cell for cell in column if cell]) for column in columns)


def _is_header(row: Row, first: Row, gaps: Sequence[float]) -> bool:
    """Return whether the row above holds column names, which may be set as closely as text."""
    is_near = row[0].baseline - first[0].baseline < 2.6 * first[0].size
    if not is_near or not fits_columns(row, gaps):
        return False
    return count_filled(split_cells(row, gaps)) > max(1, 0.5 * len(gaps))


#: Share of the terms that must be set in another style than their definitions.
STYLED_SHARE = 0.8
#: Words per definition on average; table values have fewer.
MIN_DEFINITION_WORDS = 3
#: Characters per term on average, at most, if terms are set in the same style.
SHORT_TERM = 12


def _is_definition_list(lines: Sequence[Cells]) -> bool:
    if len(lines[0]) != 2:
        return False
    if any(_is_hanging(above, below) for above, below in pairwise(lines)):
        return True
    terms = [term for term, _ in lines if term]
    words = sum(len(segment.text.split()) for _, definition in lines for segment in definition)
    if not terms or words < MIN_DEFINITION_WORDS * len(terms):
        return False
    if not _is_bold_row(lines[0]) and sum(len(term[0].text) for term in terms) < SHORT_TERM * len(
        terms
    ):
        return True
    # Column headers share one style, which differs from that of the rows below.
    styled = [
        _is_styled_apart(term, definition) for term, definition in lines if term and definition
    ]
    return bool(styled) and styled[0] and sum(styled) >= STYLED_SHARE * len(styled)


def _is_bold_row(line: Cells) -> bool:
    return all(run.style.bold for cell in line for segment in cell for run in segment.runs)


def _is_hanging(above: Cells, below: Cells) -> bool:
    """Return whether a long term stands above its definition, as table cells never do."""
    (term, first_definition), (next_term, definition) = above, below
    if first_definition or next_term or not term or not definition:
        return False
    return term[0].baseline - definition[0].baseline < 1.6 * term[0].size


def _is_styled_apart(term: Sequence[Segment], definition: Sequence[Segment]) -> bool:
    if term[0].text.startswith(("-", "\u2212", "\u2013")) and len(term[0].text) > 1:
        # A command-line option.
        return not term[0].text[1:].replace(".", "").replace(",", "").isdigit()
    first, second = term[0].runs[0].style, definition[0].runs[0].style
    return (first.bold, first.mono) > (second.bold, second.mono) and not second.bold
