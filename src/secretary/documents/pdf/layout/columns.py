"""Determines the reading order: columns, page margins and line numbers."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import median

from .drawings import Box
from .rows import MARGIN, PAGE_NUMBER, Segment, group_rows
from .runs import Run
from .tables import Table

Item = Segment | Table

BINS = 160
#: Resolution of the horizontal coverage profile.
#: A gutter may be crossed by at most this share of the segments.
MAX_CROSSING = 0.6
#: A column has at least this many lines.
MIN_LINES = 3
#: Running text has at least AVERAGE characters per line, or at least the share RUNNING of its
#: characters in lines of LONG characters and more.
AVERAGE_CHARACTERS, LONG_CHARACTERS, LONG_SHARE = 14, 16, 0.7
#: A column has at least this share of the region's width.
MIN_COLUMN_WIDTH = 0.14
MAX_DEPTH = 6
#: Points within which two segments are on the same line.
SAME_LINE = 1.5
#: Running text fills at least this share of its column's width.
FILLED_WIDTH = 0.7


def reading_order(segments: list[Item], depth: int = 0) -> list[list[Item]]:
    """Split the page into regions in reading order, each to be read from top to bottom."""
    if depth < MAX_DEPTH and len(segments) >= 2 * MIN_LINES:
        for gutter in _gutters(segments):
            bands = _bands(segments, gutter)
            if any(columns for columns, _ in bands):
                return _order_bands(bands, gutter, depth)
    return [segments] if segments else []


def _order_bands(
    bands: list[tuple[bool, list[Item]]], gutter: float, depth: int
) -> list[list[Item]]:
    regions: list[list[Item]] = []
    for columns, band in bands:
        if not columns:
            regions += reading_order(band, depth + 1)
            continue
        regions += reading_order(
            [segment for segment in band if _centre_x(segment) < gutter], depth + 1
        )
        regions += reading_order(
            [segment for segment in band if _centre_x(segment) >= gutter], depth + 1
        )
    return regions


def _centre_x(segment: Item) -> float:
    return (segment.left + segment.right) / 2


def _gutters(segments: Sequence[Item]) -> list[float]:
    """Return possible positions of a vertical cut, the most likely first."""
    left = min(segment.left for segment in segments)
    right = max(segment.right for segment in segments)
    width = right - left
    size = median([segment.size for segment in segments])
    if width < 16 * size:
        return []
    step = width / BINS
    changes = [0] * (BINS + 2)
    for segment in segments:
        changes[int((segment.left - left) / step)] += 1
        changes[min(int((segment.right - left) / step) + 1, BINS)] -= 1
    covered, depth = [], 0
    for change in changes[:BINS]:
        depth += change
        covered.append(depth)
    edge = int(BINS * MIN_COLUMN_WIDTH)
    limit = max(MAX_CROSSING * max(covered), 1)
    candidates = []
    for is_low, group in groupby(
        range(edge, BINS - edge), key=lambda number: covered[number] <= limit
    ):
        run = list(group)
        if is_low:
            least = min(covered[number] for number in run)
            # A line or two may protrude from a column.
            most = least + max(1, 0.04 * max(covered))
            best = _longest_run([number for number in run if covered[number] <= most])
            middle = (best[0] + best[-1] + 1) / 2
            sides = min(max(covered[: run[0]], default=0), max(covered[run[-1] + 1 :], default=0))
            candidates.append((least, -len(best), left + step * middle, sides))
    candidates = sorted(one for one in candidates if one[3] >= MIN_LINES)
    return [gutter for _, _, gutter, _ in candidates[:4]]


def _longest_run(numbers: list[int]) -> list[int]:
    """Return the longest run of consecutive numbers."""
    stretches: list[list[int]] = []
    for number in numbers:
        if stretches and number == stretches[-1][-1] + 1:
            stretches[-1].append(number)
        else:
            stretches.append([number])
    return max(stretches, key=len)


def _bands(segments: list[Item], gutter: float) -> list[tuple[bool, list[Item]]]:
    """Split the page from top to bottom into bands with and without columns at this gutter."""
    crossing = [segment for segment in segments if _crosses(segment, gutter)]
    if len(crossing) > MAX_CROSSING * len(segments) + 2:
        return []
    bands: list[tuple[bool, list[Item]]] = []
    plain: list[Item] = []
    ordered = sorted(segments, key=_centre_y, reverse=True)
    for is_crossing, group in groupby(ordered, key=lambda segment: _crosses(segment, gutter)):
        members = list(group)
        if is_crossing or not _has_columns(members, gutter):
            plain += members
            continue
        if plain:
            bands.append((False, plain))
            plain = []
        bands.append((True, members))
    if plain:
        bands.append((False, plain))
    return bands


def _centre_y(segment: Item) -> float:
    return (segment.top + segment.bottom) / 2


def _crosses(segment: Item, gutter: float) -> bool:
    slack = 0.5 * segment.size
    return segment.left < gutter - slack and segment.right > gutter + slack


def _has_columns(segments: Sequence[Item], gutter: float) -> bool:
    left = [segment for segment in segments if _centre_x(segment) < gutter]
    right = [segment for segment in segments if _centre_x(segment) >= gutter]
    if min(len(left), len(right)) < MIN_LINES:
        return False
    if not (_overlap(left, right) and _is_prose(left) and _is_prose(right)):
        return False
    return not _are_table_rows(left, right)


def _are_table_rows(left: Sequence[Item], right: Sequence[Item]) -> bool:
    """Return whether the sides are table cells: on the same lines, and filling neither side."""
    line_numbers = {round(_centre_y(segment) / SAME_LINE) for segment in left}
    beside = sum(
        not line_numbers.isdisjoint(range(line_number - 1, line_number + 2))
        for line_number in (round(_centre_y(segment) / SAME_LINE) for segment in right)
    )
    return beside > 0.8 * len(right) and max(_fill(left), _fill(right)) < FILLED_WIDTH


def _fill(segments: Sequence[Item]) -> float:
    """Return how much of the width the lines fill, weighted by their length."""
    width = max(segment.right for segment in segments) - min(segment.left for segment in segments)
    weight = sum(segment.weight for segment in segments)
    return sum((segment.right - segment.left) * segment.weight for segment in segments) / (
        width * weight
    )


def _overlap(left: Sequence[Item], right: Sequence[Item]) -> bool:
    top = min(max(segment.top for segment in left), max(segment.top for segment in right))
    bottom = max(min(segment.bottom for segment in left), min(segment.bottom for segment in right))
    return top > bottom


def _is_prose(segments: Sequence[Item]) -> bool:
    """Return whether this is prose rather than table cells. Formulas come in many segments."""
    weights = [segment.weight for segment in segments]
    if sum(weights) >= AVERAGE_CHARACTERS * len(weights):
        return True
    long = [weight for weight in weights if weight >= LONG_CHARACTERS]
    return len(long) >= MIN_LINES and sum(long) >= LONG_SHARE * sum(weights)


#: The same, for a page number alone.
PAGE_NUMBER_MARGIN = 0.22
#: Ems between margins and text, at least.
MARGIN_GAP = 1.7
MAX_MARGIN_ROWS = 2
#: A page with numbered lines has at least this many.
MIN_LINE_NUMBERS = 8
Rows = list[list[Segment]]


def split_margins(segments: list[Segment], page: Box) -> tuple[Rows, list[Segment], Rows]:
    """Split the page into its header rows, its text and its footer rows."""
    height = page.top - page.bottom
    high, is_low = page.top - MARGIN * height, page.bottom + MARGIN * height
    text = [segment for segment in segments if segment.top >= is_low and segment.baseline <= high]
    if not text:
        return [], segments, []
    head = group_rows([segment for segment in segments if segment.baseline > high])
    foot = group_rows([segment for segment in segments if segment.top < is_low])
    head = _header_rows(head, max(segment.top for segment in text))
    foot = _footer_rows(foot, min(segment.bottom for segment in text))
    used = {run.start for row in [*head, *foot] for segment in row for run in segment.runs}
    text = [segment for segment in segments if segment.runs[0].start not in used]
    if not foot and text:
        foot = _page_number(text, page.bottom + PAGE_NUMBER_MARGIN * height)
        used = {run.start for row in foot for segment in row for run in segment.runs}
        text = [segment for segment in text if segment.runs[0].start not in used]
    return head, text, foot


def _page_number(text: list[Segment], reach: float) -> Rows:
    """Find a page number alone below the text, if the margin is deep."""
    last = min(text, key=lambda segment: segment.baseline)
    if last.top > reach or not is_page_number([last]):
        return []
    others = [segment.bottom for segment in text if segment is not last]
    apart = not others or min(others) - last.top > (MARGIN_GAP - 1) * last.size
    return [[last]] if apart else []


def drop_line_numbers(runs: list[Run]) -> list[Run]:
    """Drop the line numbers that manuscripts have in their margin."""
    numbers = [run for run in runs if run.text.isdecimal() and len(run.text) < 5]
    if len(numbers) < MIN_LINE_NUMBERS or len(numbers) == len(runs):
        return runs
    starts = {run.start for run in numbers}
    text = [run for run in runs if run.start not in starts]
    margin = min(run.left for run in text)
    size = median(run.style.size for run in text)
    # Row numbers of a table have the same size as the other cells.
    numbers = [run for run in numbers if run.style.size < 0.9 * size]
    column = sorted((run for run in numbers if run.right < margin), key=lambda run: -run.baseline)
    if len(column) < MIN_LINE_NUMBERS:
        return runs
    values = [int(run.text) for run in column]
    steps = [b - a for a, b in pairwise(values)]
    if sum(step in (1, 5) for step in steps) < 0.8 * len(steps):
        return runs
    starts = {run.start for run in column}
    return [run for run in runs if run.start not in starts]


def _header_rows(rows: Rows, text: float) -> Rows:
    """Return the top rows before the first wide gap."""
    for count in range(min(MAX_MARGIN_ROWS, len(rows)), 0, -1):
        below = max((p.top for p in rows[count]), default=0.0) if count < len(rows) else text
        size = max(p.size for p in rows[count - 1])
        if min(p.bottom for p in rows[count - 1]) - below > (MARGIN_GAP - 1) * size:
            return rows[:count]
    return []


def _footer_rows(rows: Rows, text: float) -> Rows:
    for count in range(min(MAX_MARGIN_ROWS, len(rows)), 0, -1):
        last = rows[-count]
        above = min(p.bottom for p in rows[-count - 1]) if count < len(rows) else text
        size = max(p.size for p in last)
        if above - max(p.top for p in last) > (MARGIN_GAP - 1) * size:
            return rows[-count:]
    return []


def is_page_number(row: Sequence[Segment]) -> bool:
    return PAGE_NUMBER.fullmatch(" ".join(segment.text for segment in row)) is not None
