"""Tables without lines between their cells: what stands in rows stands in columns, too."""

import re
from collections.abc import Sequence
from itertools import pairwise

from .blocks import is_bullet, item_mark
from .rows import Piece, is_listing
from .tables import (
    GUTTER,
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

#: Of the terms: so many are set in another way than what they mean.
SET_APART = 0.8
#: Words of a meaning, on the average: values have fewer.
FEWEST_WORDS = 3
#: Characters of a term on the average, at most, where it is not set apart.
SHORT = 12


def is_term_list(lines: Sequence[Cells]) -> bool:
    if len(lines[0]) != 2:
        return False
    if any(_hangs(above, below) for above, below in pairwise(lines)):
        return True
    terms = [term for term, _ in lines if term]
    words = sum(len(piece.text.split()) for _, meaning in lines for piece in meaning)
    if not terms or words < FEWEST_WORDS * len(terms):
        return False
    if not _terms_is_head(lines[0]) and sum(len(term[0].text) for term in terms) < SHORT * len(
        terms
    ):
        return True
    # The names of columns are set alike, and not as what stands below them.
    apart = [_is_set_apart(term, meaning) for term, meaning in lines if term and meaning]
    return bool(apart) and apart[0] and sum(apart) >= SET_APART * len(apart)


def _terms_is_head(line: Cells) -> bool:
    return all(run.style.bold for cell in line for piece in cell for run in piece.runs)


def _hangs(above: Cells, below: Cells) -> bool:
    """Too long to stand beside it, a term stands above what it means: cells are never set so."""
    (term, beside), (next_term, meaning) = above, below
    if beside or next_term or not term or not meaning:
        return False
    return term[0].base - meaning[0].base < 1.6 * term[0].size


def _is_set_apart(term: Sequence[Piece], meaning: Sequence[Piece]) -> bool:
    if term[0].text.startswith(("-", "\u2212", "\u2013")) and len(term[0].text) > 1:
        # An option of a command.
        return not term[0].text[1:].replace(".", "").replace(",", "").isdigit()
    first, second = term[0].runs[0].style, meaning[0].runs[0].style
    return (first.bold, first.mono) > (second.bold, second.mono) and not second.bold


FEWEST_ROWS = 3
MOST_ROWS = 300
#: Characters of a cell on the average, at most: longer ones are columns of running text.
LONGEST = 36
FILLED = 0.5
WORD = re.compile(r"\w")

Row = list[Piece]
Spans = list[tuple[float, float]]


def find_tables(rows: Sequence[Row], *, listings: bool = True) -> list[tuple[int, int, Table]]:
    """From which row to which, and the table they make; `listings` are none."""
    found: list[tuple[int, int, Table]] = []
    start = 0
    while start < len(rows):
        end = _end_of_stretch(rows, start) if _has_cells(rows[start]) else start
        if end > start and listings and is_listing(rows[start:end]):
            start = end
            continue
        gaps = aligned_gaps(rows[start:end]) if end - start >= FEWEST_ROWS else []
        if gaps and is_term_list([cells_of(row, gaps) for row in rows[start:end]]):
            start = end
        elif gaps:
            done = found[-1][1] if found else 0
            if start > done and _is_head(rows[start - 1], rows[start], gaps):
                start -= 1
            cells = [cells_of(row, gaps) for row in rows[start:end]]
            found.append((start, end, table_of(whole_rows(cells))))
            start = end
        else:
            start += 1 if end - start < 20 else (end - start) // 2
    return found


def _has_cells(row: Row) -> bool:
    if len(row) < 2 or is_running(row):
        return False
    return len(row) > 2 or not _is_mark(row[0].text)


def _is_mark(text: str) -> bool:
    return is_bullet(text) or item_mark(f"{text} x") is not None


def _end_of_stretch(rows: Sequence[Row], start: int) -> int:
    spans: Spans = []
    last = start
    size = rows[start][0].size
    for end in range(start, min(len(rows), start + MOST_ROWS)):
        row = rows[end]
        step = rows[end - 1][0].base - row[0].base if end > start else 0.0
        wider = _with_row(spans, row, GUTTER * size)
        if len(wider) < 2 or step > 3.5 * size or len(wider) < 0.67 * len(spans):
            break
        if len(row) == 1 and (len(wider) < len(spans) or step > 2 * size):
            break
        spans = wider
        if _has_cells(row):
            last = end + 1
    return last


def _with_row(spans: Spans, row: Row, gutter: float) -> Spans:
    merged: Spans = []
    for left, right in sorted([*spans, *((piece.left, piece.right) for piece in row)]):
        if merged and left - merged[-1][1] < gutter:
            merged[-1] = (merged[-1][0], max(merged[-1][1], right))
        else:
            merged.append((left, right))
    return merged


def aligned_gaps(rows: Sequence[Row]) -> list[float]:
    """Where the columns of these rows are parted; nowhere, if they are no table."""
    full = [row for row in rows if len(row) > 1]
    gaps = column_gaps(full, rows[0][0].size)
    if not gaps or len(full) < FEWEST_ROWS:
        return []
    return gaps if _is_table([cells_of(row, gaps) for row in rows]) else []


def _is_head(row: Row, first: Row, gaps: Sequence[float]) -> bool:
    """The names of columns may stand so near each other that they look like a line of text."""
    near = row[0].base - first[0].base < 2.6 * first[0].size
    if not near or not fits(row, gaps):
        return False
    return filled(cells_of(row, gaps)) > max(1, 0.5 * len(gaps))


def _is_table(cells: Sequence[Cells]) -> bool:
    texts = [" ".join(p.text for p in cell) for row in cells for cell in row if cell]
    if sum(map(filled, cells)) < FILLED * len(cells) * len(cells[0]):
        return False
    if sum(map(len, texts)) > LONGEST * len(texts) or not any(map(WORD.search, texts)):
        return False
    columns = list(zip(*cells, strict=True))
    first = [" ".join(p.text for p in cell) for cell in columns[0] if cell]
    if len(columns) == 2 and sum(map(_is_mark, first)) > len(first) / 2:
        return False
    return all(in_line([cell for cell in column if cell]) for column in columns)
