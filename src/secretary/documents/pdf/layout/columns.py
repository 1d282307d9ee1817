"""Columns: the order in which the parts of a page are read."""

import re
from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import Protocol, TypeVar

from .drawings import Box
from .rows import Piece, rows_of
from .runs import Run


class Placed(Protocol):
    """A piece of a line, or a table that is found already."""

    @property
    def left(self) -> float: ...
    @property
    def right(self) -> float: ...
    @property
    def top(self) -> float: ...
    @property
    def bottom(self) -> float: ...
    @property
    def size(self) -> float: ...
    @property
    def weight(self) -> int: ...


P = TypeVar("P", bound=Placed)

BINS = 160
#: Of the pieces: more than these across a gutter, and it is none.
MOST_ACROSS = 0.6
#: Lines a column has at least.
FEWEST_LINES = 3
#: Characters a line of running text has on the average, at least; or else, how many make a long
#: one, and the share of the characters in such lines.
AVERAGE, LONG, RUNNING = 14, 16, 0.7
#: Of the width of the region: a column is not narrower.
NARROWEST = 0.14
DEEPEST = 6
#: Points within which two pieces stand on the same line.
SAME_LINE = 1.5
#: Of the width of a side: running text fills more of it.
FULL = 0.7


def reading_order(pieces: list[P], depth: int = 0) -> list[list[P]]:
    """Regions one after the other, each to be read from the top down."""
    if depth < DEEPEST and len(pieces) >= 2 * FEWEST_LINES:
        for gutter in _gutters(pieces):
            bands = _bands(pieces, gutter)
            if any(columns for columns, _ in bands):
                return _in_order(bands, gutter, depth)
    return [pieces] if pieces else []


def _in_order(bands: list[tuple[bool, list[P]]], gutter: float, depth: int) -> list[list[P]]:
    regions: list[list[P]] = []
    for columns, band in bands:
        if not columns:
            regions += reading_order(band, depth + 1)
            continue
        regions += reading_order([piece for piece in band if _middle(piece) < gutter], depth + 1)
        regions += reading_order([piece for piece in band if _middle(piece) >= gutter], depth + 1)
    return regions


def _middle(piece: Placed) -> float:
    return (piece.left + piece.right) / 2


def _gutters(pieces: Sequence[Placed]) -> list[float]:
    """Where the page may be cut from top to bottom, the likeliest first."""
    left = min(piece.left for piece in pieces)
    right = max(piece.right for piece in pieces)
    width = right - left
    size = median([piece.size for piece in pieces])
    if width < 16 * size:
        return []
    step = width / BINS
    changes = [0] * (BINS + 2)
    for piece in pieces:
        changes[int((piece.left - left) / step)] += 1
        changes[min(int((piece.right - left) / step) + 1, BINS)] -= 1
    covered, depth = [], 0
    for change in changes[:BINS]:
        depth += change
        covered.append(depth)
    edge = int(BINS * NARROWEST)
    limit = max(MOST_ACROSS * max(covered), 1)
    candidates = []
    for low, group in groupby(
        range(edge, BINS - edge), key=lambda number: covered[number] <= limit
    ):
        run = list(group)
        if low:
            least = min(covered[number] for number in run)
            # A line or two may stand out of its column.
            most = least + max(1, 0.04 * max(covered))
            best = _longest([number for number in run if covered[number] <= most])
            middle = (best[0] + best[-1] + 1) / 2
            sides = min(max(covered[: run[0]], default=0), max(covered[run[-1] + 1 :], default=0))
            candidates.append((least, -len(best), left + step * middle, sides))
    candidates = sorted(one for one in candidates if one[3] >= FEWEST_LINES)
    return [gutter for _, _, gutter, _ in candidates[:4]]


def _longest(numbers: list[int]) -> list[int]:
    """The longest stretch without a gap."""
    stretches: list[list[int]] = []
    for number in numbers:
        if stretches and number == stretches[-1][-1] + 1:
            stretches[-1].append(number)
        else:
            stretches.append([number])
    return max(stretches, key=len)


def _bands(pieces: list[P], gutter: float) -> list[tuple[bool, list[P]]]:
    """The page from the top down: parts with columns at this gutter, and parts without."""
    across = [piece for piece in pieces if _is_across(piece, gutter)]
    if len(across) > MOST_ACROSS * len(pieces) + 2:
        return []
    bands: list[tuple[bool, list[P]]] = []
    waiting: list[P] = []
    ordered = sorted(pieces, key=_height, reverse=True)
    for is_across, group in groupby(ordered, key=lambda piece: _is_across(piece, gutter)):
        members = list(group)
        if is_across or not _are_columns(members, gutter):
            waiting += members
            continue
        if waiting:
            bands.append((False, waiting))
            waiting = []
        bands.append((True, members))
    if waiting:
        bands.append((False, waiting))
    return bands


def _height(piece: Placed) -> float:
    return (piece.top + piece.bottom) / 2


def _is_across(piece: Placed, gutter: float) -> bool:
    slack = 0.5 * piece.size
    return piece.left < gutter - slack and piece.right > gutter + slack


def _are_columns(pieces: Sequence[Placed], gutter: float) -> bool:
    left = [piece for piece in pieces if _middle(piece) < gutter]
    right = [piece for piece in pieces if _middle(piece) >= gutter]
    if min(len(left), len(right)) < FEWEST_LINES:
        return False
    if not (_overlap(left, right) and _is_running(left) and _is_running(right)):
        return False
    return not _are_rows(left, right)


def _are_rows(left: Sequence[Placed], right: Sequence[Placed]) -> bool:
    """Cells beside each other: on the same lines, and filling neither side."""
    heights = {round(_height(piece) / SAME_LINE) for piece in left}
    beside = sum(
        not heights.isdisjoint(range(place - 1, place + 2))
        for place in (round(_height(piece) / SAME_LINE) for piece in right)
    )
    return beside > 0.8 * len(right) and max(_fill(left), _fill(right)) < FULL


def _fill(pieces: Sequence[Placed]) -> float:
    """How much of the width of a side its lines take, longer ones counting more."""
    width = max(piece.right for piece in pieces) - min(piece.left for piece in pieces)
    weight = sum(piece.weight for piece in pieces)
    return sum((piece.right - piece.left) * piece.weight for piece in pieces) / (width * weight)


def _overlap(left: Sequence[Placed], right: Sequence[Placed]) -> bool:
    top = min(max(piece.top for piece in left), max(piece.top for piece in right))
    bottom = max(min(piece.bottom for piece in left), min(piece.bottom for piece in right))
    return top > bottom


def _is_running(pieces: Sequence[Placed]) -> bool:
    """Sentences rather than the cells of a table; formulas among them come in many pieces."""
    weights = [piece.weight for piece in pieces]
    if sum(weights) >= AVERAGE * len(weights):
        return True
    long = [weight for weight in weights if weight >= LONG]
    return len(long) >= FEWEST_LINES and sum(long) >= RUNNING * sum(weights)


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
