"""The margins of a page: what stands above and below its text."""

import re
from collections.abc import Sequence
from itertools import pairwise

from .drawings import Box
from .rows import Piece, rows_of
from .runs import Run

#: Of the height of the page: so far from its edges there may be running heads and page numbers.
MARGIN = 0.1
#: Ems between them and the text, at least.
APART = 1.7
MOST_ROWS = 2
#: Lines of a page that count its lines, at least.
FEWEST_NUMBERS = 8
PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.|s\.)\s*)?(?:\d{1,5}|[ivxlc]{1,7})(?:\s*(?:/|of|von|-)\s*\d{1,5})?\W*",
    re.IGNORECASE,
)

Rows = list[list[Piece]]


def without_margins(pieces: list[Piece], page: Box) -> tuple[Rows, list[Piece], Rows]:
    """What stands above the text, the text, and what stands below it."""
    reach = MARGIN * (page.top - page.bottom)
    high = [piece for piece in pieces if piece.base > page.top - reach]
    low = [piece for piece in pieces if piece.top < page.bottom + reach]
    if len(high) + len(low) >= len(pieces):
        return [], pieces, []
    text = [p for p in pieces if page.bottom + reach <= p.top and p.base <= page.top - reach]
    head = _apart(rows_of(high), max((piece.top for piece in text), default=0.0))
    foot = _apart_below(rows_of(low), min((piece.bottom for piece in text), default=0.0))
    taken = {run.start for row in [*head, *foot] for piece in row for run in piece.runs}
    return head, [piece for piece in pieces if piece.runs[0].start not in taken], foot


def without_line_numbers(runs: list[Run]) -> list[Run]:
    """Manuscripts number their lines in the margin."""
    numbers = [run for run in runs if run.text.isdigit() and len(run.text) < 5]
    if len(numbers) < FEWEST_NUMBERS or len(numbers) == len(runs):
        return runs
    starts = {run.start for run in numbers}
    text = sorted(run.left for run in runs if run.start not in starts)
    margin = text[len(text) // 20]
    column = sorted((run for run in numbers if run.right < margin), key=lambda run: -run.base)
    if len(column) < FEWEST_NUMBERS:
        return runs
    values = [int(run.text) for run in column]
    steps = [b - a for a, b in pairwise(values)]
    if sum(step in (1, 5) for step in steps) < 0.8 * len(steps):
        return runs
    starts = {run.start for run in column}
    return [run for run in runs if run.start not in starts]


def _apart(rows: Rows, text: float) -> Rows:
    """Of the rows at the top, from above: those before the first wide gap."""
    for count in range(min(MOST_ROWS, len(rows)), 0, -1):
        below = max((p.top for p in rows[count]), default=0.0) if count < len(rows) else text
        size = max(p.size for p in rows[count - 1])
        if min(p.bottom for p in rows[count - 1]) - below > (APART - 1) * size:
            return rows[:count]
    return []


def _apart_below(rows: Rows, text: float) -> Rows:
    for count in range(min(MOST_ROWS, len(rows)), 0, -1):
        last = rows[-count]
        above = min(p.bottom for p in rows[-count - 1]) if count < len(rows) else text
        size = max(p.size for p in last)
        if above - max(p.top for p in last) > (APART - 1) * size:
            return rows[-count:]
    return []


def is_page_number(row: Sequence[Piece]) -> bool:
    return PAGE_NUMBER.fullmatch(" ".join(piece.text for piece in row)) is not None
