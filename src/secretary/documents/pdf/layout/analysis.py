"""Analyses the layout of a page: from text runs to blocks in reading order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..pdfium import TextLayer
from ..structure import Structure, Tag, read_structure
from .aligned_tables import find_tables
from .blocks import Block, BlockKind, build_blocks
from .columns import drop_line_numbers, is_page_number, reading_order, split_margins
from .drawings import Box, Drawings, Ruling, read_drawings, rotate_box
from .headings import split_run_in_headings
from .plain_pages import read_plain_page
from .rows import (
    LIKELY_GAP,
    WORD_GAP,
    Segment,
    TextLine,
    build_line,
    group_rows,
    join_runs,
    rebuild_words,
)
from .ruled_tables import (
    find_grids,
    grid_table,
    group_rulings,
    is_near_rulings,
    merge_rulings,
    ruled_tables,
)
from .runs import Run, read_runs, split_at_gaps, split_words
from .tables import Table, tagged_tables, trusted_structure

#: Pages with more lines skip layout analysis.
MAX_LINES = 10_000
CODE_SIGNS = frozenset("{}=;<>\\|")


@dataclass(frozen=True, slots=True)
class PageLayout:
    blocks: list[Block]
    drawings: Drawings
    #: Share of the characters that are invisible.
    hidden_share: float
    #: Whether the structure tree marks headings on this page.
    tagged_headings: bool = False


def analyse_page(page: int, layer: TextLayer, box: Box, *, tagged: bool = False) -> PageLayout:
    """Return the blocks of a page in reading order."""
    plain = None if tagged else read_plain_page(page, layer, box)
    if plain is not None:
        return PageLayout(plain, Drawings(), 0.0)
    if layer.text.count("\n") > MAX_LINES:
        return PageLayout(_unanalysed(layer), Drawings(), 0.0)
    page_runs = read_runs(layer)
    drawings = read_drawings(page, page_runs.rotation)
    structure = trusted_structure(read_structure(page), page_runs.runs) if tagged else Structure()
    tables, runs = tagged_tables(structure, drop_line_numbers(page_runs.runs))
    detect_code = not _has_monospaced_tables(runs)
    ruled, runs = _ruled_tables(layer, runs, page_runs.rotation, drawings, detect_code)
    page_box = rotate_box(box, page_runs.rotation)
    blocks = split_run_in_headings(
        _blocks(runs, tables + ruled, page_box, structure.tags, detect_code)
    )
    if page_runs.rotated:
        blocks += build_blocks([build_line([segment]) for segment in join_runs(page_runs.rotated)])
    all_runs = page_runs.runs + page_runs.rotated
    total = sum(len(run.text) for run in all_runs)
    hidden_count = sum(len(run.text) for run in all_runs if run.style.hidden)
    hidden_share = hidden_count / total if total else 0.0
    return PageLayout(blocks, drawings, hidden_share, structure.has_headings)


def _unanalysed(layer: TextLayer) -> list[Block]:
    texts = " ".join(layer.text.split()).replace("\ufffe", "-")
    return [Block(BlockKind.PARAGRAPH, [TextLine(texts, 0, 0, 0, 1.0, False, False, False, False)])]


def _ruled_tables(
    layer: TextLayer, runs: list[Run], rotation: int, drawings: Drawings, detect_code: bool
) -> tuple[list[Table], list[Run]]:
    tables: list[Table] = []
    used: list[Ruling] = []
    for grid in find_grids(drawings):
        table, taken = grid_table(grid, runs, lambda run: split_words(layer, run, rotation))
        if table is not None:
            tables.append(table)
            runs = [run for run in runs if run.start not in taken]
            used += grid.horizontal
    unused = [line for line in merge_rulings(drawings.horizontal) if line not in used]
    for group in group_rulings(unused):
        runs = [
            word
            for run in runs
            for word in (_words(layer, run, rotation) if is_near_rulings(group, run) else [run])
        ]
        for table, rows in ruled_tables(
            group, rebuild_words(join_runs(runs)), detect_code=detect_code
        ):
            tables.append(table)
            taken = {run.start for row in rows for segment in row for run in segment.runs}
            runs = [run for run in runs if run.start not in taken]
    return tables, runs


def _words(layer: TextLayer, run: Run, rotation: int) -> list[Run]:
    """Split a run into words: one text object may draw all cells of a row."""
    return split_at_gaps(layer, run, rotation, LIKELY_GAP) if " " in run.text else [run]


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


def _has_monospaced_tables(runs: Sequence[Run]) -> bool:
    """Return whether even tables are set in a monospaced font."""
    mono = sum(len(run.text) for run in runs if run.style.mono)
    if mono <= 0.6 * sum(len(run.text) for run in runs):
        return False
    return _is_monospaced_prose([build_line(row) for row in group_rows(join_runs(runs))])


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
    if (
        before.kind not in (BlockKind.PARAGRAPH, BlockKind.ITEM)
        or block.kind is not BlockKind.PARAGRAPH
    ):
        return False
    last, first = before.lines[-1], block.lines[0]
    if abs(last.size - first.size) > 0.05 * last.size or last.bold != first.bold:
        return False
    return last.hyphenated or (first.text[:1].islower() and last.text[-1:] not in ".!?:")
