"""The margins of a page: what stands above and below its text."""

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from .drawings import Box
from .rows import Piece, rows_of
from .runs import Run

#: Of the height of the page: so far from its edges there may be running heads and page numbers.
MARGIN = 0.1
#: So far, if it is nothing but the number of the page.
DEEP_MARGIN = 0.22
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
    height = page.top - page.bottom
    high, low = page.top - MARGIN * height, page.bottom + MARGIN * height
    text = [piece for piece in pieces if piece.top >= low and piece.base <= high]
    if not text:
        return [], pieces, []
    head = rows_of([piece for piece in pieces if piece.base > high])
    foot = rows_of([piece for piece in pieces if piece.top < low])
    head = _apart(head, max(piece.top for piece in text))
    foot = _apart_below(foot, min(piece.bottom for piece in text))
    taken = {run.start for row in [*head, *foot] for piece in row for run in piece.runs}
    text = [piece for piece in pieces if piece.runs[0].start not in taken]
    if not foot and text:
        foot = _page_number(text, page.bottom + DEEP_MARGIN * height)
        taken = {run.start for row in foot for piece in row for run in piece.runs}
        text = [piece for piece in text if piece.runs[0].start not in taken]
    return head, text, foot


def _page_number(text: list[Piece], reach: float) -> Rows:
    """Alone below the text, where the margin is deep."""
    last = min(text, key=lambda piece: piece.base)
    if last.top > reach or not is_page_number([last]):
        return []
    others = [piece.bottom for piece in text if piece is not last]
    apart = not others or min(others) - last.top > (APART - 1) * last.size
    return [[last]] if apart else []


def without_line_numbers(runs: list[Run]) -> list[Run]:
    """Manuscripts number their lines in the margin."""
    numbers = [run for run in runs if run.text.isdecimal() and len(run.text) < 5]
    if len(numbers) < FEWEST_NUMBERS or len(numbers) == len(runs):
        return runs
    starts = {run.start for run in numbers}
    text = [run for run in runs if run.start not in starts]
    margin = min(run.left for run in text)
    size = median(run.style.size for run in text)
    # The numbers of the rows of a table are as large as the others.
    numbers = [run for run in numbers if run.style.size < 0.9 * size]
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
