"""Analyses the layout of a page: from text runs to blocks in reading order, with its columns,
margins and line numbers."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from statistics import median
from typing import NamedTuple

from ..pdfium import Structure, Tag, TextLayer, read_structure
from .blocks import Block, BlockKind, build_blocks
from .drawings import Box, Drawings, read_drawings, rotate_box
from .headings import split_run_in_headings
from .plain_pages import read_plain_page
from .rows import (
    MARGIN,
    PAGE_NUMBER,
    WORD_GAP,
    Segment,
    TextLine,
    build_line,
    group_rows,
    join_runs,
    rebuild_words,
)
from .ruled_tables import find_ruled_tables
from .runs import Run, read_runs
from .tables import Table, find_tables, tagged_tables, trusted_structure

#: Pages with more lines skip layout analysis.
MAX_LINES = 10_000
CODE_SIGNS = frozenset("{}=;<>\\|")


class PageLayout(NamedTuple):
    blocks: list[Block]
    drawings: Drawings
    #: Share of the characters that are invisible.
    hidden_share: float
    #: Whether the structure tree marks headings on this page.
    tagged_headings: bool = False
    #: Quarter turns that make the text upright; the blocks are turned already.
    rotation: int = 0


def analyse_page(page: int, layer: TextLayer, box: Box, *, tagged: bool = False) -> PageLayout:
    """Return the blocks of a page in reading order."""
    plain = None if tagged else read_plain_page(page, layer, box)
    if plain is not None:
        return PageLayout(plain, Drawings(), 0.0)
    if layer.text.count("\n") > MAX_LINES:
        text = " ".join(layer.text.split()).replace("\ufffe", "-")
        line = TextLine(text, 0, 0, 0, 1.0, False, False, False, False)
        return PageLayout([Block(BlockKind.PARAGRAPH, [line])], Drawings(), 0.0)
    page_runs = read_runs(layer)
    drawings = read_drawings(page, page_runs.rotation)
    structure = trusted_structure(read_structure(page), page_runs.runs) if tagged else Structure()
    tables, runs = tagged_tables(structure, drop_line_numbers(page_runs.runs))
    # In prose set in a monospaced font, tables are monospaced too.
    letters = sum(len(run.text) for run in runs)
    mono = sum(len(run.text) for run in runs if run.style.mono)
    detect_code = mono <= 0.6 * letters or not _is_monospaced_prose(
        [build_line(row) for row in group_rows(join_runs(runs))]
    )
    ruled, runs = find_ruled_tables(layer, runs, page_runs.rotation, drawings, detect_code)
    page_box = rotate_box(box, page_runs.rotation)
    blocks = _blocks(runs, tables + ruled, page_box, structure.tags, detect_code)
    blocks = split_run_in_headings(blocks)
    if page_runs.rotated:
        blocks += build_blocks([build_line([segment]) for segment in join_runs(page_runs.rotated)])
    all_runs = page_runs.runs + page_runs.rotated
    total = sum(len(run.text) for run in all_runs)
    hidden_count = sum(len(run.text) for run in all_runs if run.style.hidden)
    hidden_share = hidden_count / total if total else 0.0
    return PageLayout(blocks, drawings, hidden_share, structure.has_headings, page_runs.rotation)


def _blocks(
    runs: list[Run], tables: list[Table], page: Box, tags: Mapping[int, Tag], detect_code: bool
) -> list[Block]:
    head, segments, foot = split_margins(rebuild_words(join_runs(runs, WORD_GAP)), page)
    items: list[Segment | Table] = [*segments, *tables]
    return [
        *(_margin_block(row, tags) for row in head),
        *_text_blocks([_lines(region, detect_code) for region in reading_order(items)], tags),
        *(_margin_block(row, tags) for row in foot),
    ]


def _margin_block(row: list[Segment], tags: Mapping[int, Tag]) -> Block:
    line = build_line(row)
    tag = tags.get(line.mcid)
    # In a tagged file, running headers and footers are untagged.
    is_margin = is_page_number(row) or (tags and tag is None)
    return Block(BlockKind.MARGIN if is_margin else BlockKind.PARAGRAPH, [line], tag=tag)


def _text_blocks(lines: list[list[TextLine | Table]], tags: Mapping[int, Tag]) -> list[Block]:
    text_lines = [part for region in lines for part in region if isinstance(part, TextLine)]
    mostly_mono = _is_monospaced_prose(text_lines)
    blocks: list[Block] = []
    for region in lines:
        for number, block in enumerate(build_blocks(region, mostly_mono=mostly_mono, tags=tags)):
            if number == 0 and blocks and _continues(blocks[-1], block):
                blocks[-1].lines += block.lines
            else:
                blocks.append(block)
    return blocks


def _is_monospaced_prose(lines: Sequence[TextLine]) -> bool:
    """Return whether this is prose in a monospaced font, not source code."""
    mono = [line for line in lines if line.mono]
    letters = sum(len(line.text) for line in mono)
    if letters <= 0.6 * sum(len(line.text) for line in lines):
        return False
    code = sum(not CODE_SIGNS.isdisjoint(line.text) for line in mono)
    return letters > 40 * len(mono) and code < 0.3 * len(mono)


def _lines(region: Sequence[Segment | Table], detect_code: bool) -> list[TextLine | Table]:
    """Return the lines of a region with its tables in place."""
    runs = [run for part in region if isinstance(part, Segment) for run in part.runs]
    rows = group_rows(join_runs(runs))
    items: list[tuple[float, TextLine | Table]] = [
        (part.top, part) for part in region if isinstance(part, Table)
    ]
    done = 0
    for start, end, table in find_tables(rows, detect_code=detect_code):
        items += [(row[0].top, build_line(row)) for row in rows[done:start]]
        items.append((table.top, table))
        done = end
    items += [(row[0].top, build_line(row)) for row in rows[done:]]
    items.sort(key=lambda item: -item[0])
    return [part for _, part in items]


def _continues(before: Block, block: Block) -> bool:
    """Return whether a paragraph continues from the bottom of one column at the top of the next."""
    is_text = before.kind in (BlockKind.PARAGRAPH, BlockKind.ITEM)
    if not is_text or block.kind is not BlockKind.PARAGRAPH:
        return False
    last, first = before.lines[-1], block.lines[0]
    if abs(last.size - first.size) > 0.05 * last.size or last.bold != first.bold:
        return False
    return last.hyphenated or (first.text[:1].islower() and last.text[-1:] not in ".!?:")


Item = Segment | Table

#: Resolution of the horizontal coverage profile.
BINS = 160
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
            if any(has_columns for has_columns, _ in bands):
                parts: list[list[Item]] = []
                for has_columns, band in bands:
                    parts += _split(band, gutter) if has_columns else (band,)
                return [region for part in parts for region in reading_order(part, depth + 1)]
    return [segments] if segments else []


def _split(segments: Sequence[Item], gutter: float) -> tuple[list[Item], list[Item]]:
    """Return what is left, and what is right of the gutter."""
    left = [segment for segment in segments if (segment.left + segment.right) / 2 < gutter]
    return left, [segment for segment in segments if (segment.left + segment.right) / 2 >= gutter]


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
    covered = list(accumulate(changes[:BINS]))
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
            low = enumerate(number for number in run if covered[number] <= most)
            runs_of_rows = groupby(low, key=lambda pair: pair[1] - pair[0])
            best = max(([number for _, number in pairs] for _, pairs in runs_of_rows), key=len)
            middle = (best[0] + best[-1] + 1) / 2
            sides = min(max(covered[: run[0]], default=0), max(covered[run[-1] + 1 :], default=0))
            candidates.append((least, -len(best), left + step * middle, sides))
    candidates = sorted(one for one in candidates if one[3] >= MIN_LINES)
    return [gutter for _, _, gutter, _ in candidates[:4]]


def _bands(segments: list[Item], gutter: float) -> list[tuple[bool, list[Item]]]:
    """Split the page from top to bottom into bands with and without columns at this gutter."""
    crossing = [segment for segment in segments if _crosses(segment, gutter)]
    if len(crossing) > MAX_CROSSING * len(segments) + 2:
        return []
    bands: list[tuple[bool, list[Item]]] = []
    ordered = sorted(segments, key=_centre_y, reverse=True)
    for is_crossing, group in groupby(ordered, key=lambda segment: _crosses(segment, gutter)):
        members = list(group)
        has_columns = not is_crossing and _has_columns(members, gutter)
        if has_columns or not bands or bands[-1][0]:
            bands.append((has_columns, members))
        else:
            bands[-1][1].extend(members)
    return bands


def _centre_y(segment: Item) -> float:
    return (segment.top + segment.bottom) / 2


def _crosses(segment: Item, gutter: float) -> bool:
    slack = 0.5 * segment.size
    return segment.left < gutter - slack and segment.right > gutter + slack


def _has_columns(segments: Sequence[Item], gutter: float) -> bool:
    left, right = sides = _split(segments, gutter)
    if min(map(len, sides)) < MIN_LINES or not all(map(_is_prose, sides)):
        return False
    # They must overlap vertically.
    top = min(max(segment.top for segment in side) for side in sides)
    if top <= max(min(segment.bottom for segment in side) for side in sides):
        return False
    # The sides are table cells if they are on the same lines and fill neither side.
    line_numbers = {round(_centre_y(segment) / SAME_LINE) for segment in left}
    beside = sum(
        not line_numbers.isdisjoint(range(line_number - 1, line_number + 2))
        for line_number in (round(_centre_y(segment) / SAME_LINE) for segment in right)
    )
    return beside <= 0.8 * len(right) or max(map(_filled_width, sides)) >= FILLED_WIDTH


def _filled_width(segments: Sequence[Item]) -> float:
    """Return how much of the width the lines fill, weighted by their length."""
    width = max(segment.right for segment in segments) - min(segment.left for segment in segments)
    weight = sum(segment.weight for segment in segments)
    filled = sum((segment.right - segment.left) * segment.weight for segment in segments)
    return filled / (width * weight)


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
    high, low = page.top - MARGIN * height, page.bottom + MARGIN * height
    text = [segment for segment in segments if segment.top >= low and segment.baseline <= high]
    if not text:
        return [], segments, []
    above = group_rows([segment for segment in segments if segment.baseline > high])
    below = group_rows([segment for segment in segments if segment.top < low])
    head = above[: _count_margin_rows(above, text, at_top=True)]
    foot = below[len(below) - _count_margin_rows(below[::-1], text, at_top=False) :]
    text = _outside_rows(segments, [*head, *foot])
    if not foot and text:
        foot = _page_number(text, page.bottom + PAGE_NUMBER_MARGIN * height)
        text = _outside_rows(text, foot)
    return head, text, foot


def _count_margin_rows(rows: Rows, text: list[Segment], *, at_top: bool) -> int:
    """Return how many rows, from the edge of the page, are set apart from what follows them."""
    for count in range(min(MAX_MARGIN_ROWS, len(rows)), 0, -1):
        last, following = rows[count - 1], rows[count] if count < len(rows) else text
        upper, lower = (last, following) if at_top else (following, last)
        gap = min(segment.bottom for segment in upper) - max(segment.top for segment in lower)
        if gap > (MARGIN_GAP - 1) * max(segment.size for segment in last):
            return count
    return 0


def _outside_rows(segments: list[Segment], rows: Rows) -> list[Segment]:
    used = {run.start for row in rows for segment in row for run in segment.runs}
    return [segment for segment in segments if segment.runs[0].start not in used]


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
    steps = [int(b.text) - int(a.text) for a, b in pairwise(column)]
    if sum(step in (1, 5) for step in steps) < 0.8 * len(steps):
        return runs
    starts = {run.start for run in column}
    return [run for run in runs if run.start not in starts]


def is_page_number(row: Sequence[Segment]) -> bool:
    return PAGE_NUMBER.fullmatch(" ".join(segment.text for segment in row)) is not None
