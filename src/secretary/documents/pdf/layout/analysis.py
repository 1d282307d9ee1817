"""A page from its runs of text to its blocks, in the order of reading."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..structure import Structure, Tag, read_structure
from ..text_layer import TextLayer
from .aligned_tables import find_tables
from .blocks import Block, Kind, blocks_of
from .columns import is_page_number, reading_order, without_line_numbers, without_margins
from .drawings import Box, Drawings, Ruling, read_drawings, turned_box
from .headings import parted_headings
from .plain import plain_blocks
from .rows import HOLE, LIKELY_HOLE, Line, Piece, line_of, mended, pieces_of, rows_of
from .ruled_tables import between, find_grids, grid_table, merged, ruled_groups, ruled_tables
from .runs import Run, read_runs, single_words, words_of
from .tables import Table, believed, tagged_tables

#: Beyond this a page is read as it comes: no layout is worth the time.
MOST_LINES = 10_000
CODE_SIGNS = frozenset("{}=;<>\\|")


@dataclass(frozen=True, slots=True)
class Analysis:
    blocks: list[Block]
    drawings: Drawings
    #: Of the characters: how many are not to be seen.
    hidden: float
    #: The file itself says what is a heading on this page.
    tagged_headings: bool = False


def analyse(page: int, layer: TextLayer, box: Box, *, tagged: bool = False) -> Analysis:
    plain = None if tagged else plain_blocks(page, layer, box)
    if plain is not None:
        return Analysis(plain, Drawings(), 0.0)
    if layer.text.count("\n") > MOST_LINES:
        return Analysis(_as_it_comes(layer), Drawings(), 0.0)
    read = read_runs(layer)
    drawings = read_drawings(page, read.quarter)
    structure = believed(read_structure(page), read.runs) if tagged else Structure()
    tables, runs = tagged_tables(structure, without_line_numbers(read.runs))
    listings = not _is_typescript(runs)
    ruled, runs = _ruled_tables(layer, runs, read.quarter, drawings, listings)
    page_box = turned_box(box, read.quarter)
    blocks = parted_headings(_blocks(runs, tables + ruled, page_box, structure.tags, listings))
    if read.turned:
        blocks += blocks_of([line_of([piece]) for piece in pieces_of(read.turned)])
    every = read.runs + read.turned
    total = sum(len(run.text) for run in every)
    hidden = sum(len(run.text) for run in every if run.style.hidden)
    share = hidden / total if total else 0.0
    return Analysis(blocks, drawings, share, structure.has_headings)


def _as_it_comes(layer: TextLayer) -> list[Block]:
    texts = " ".join(layer.text.split()).replace("\ufffe", "-")
    return [Block(Kind.PARAGRAPH, [Line(texts, 0, 0, 0, 1.0, False, False, False, False)])]


def _ruled_tables(
    layer: TextLayer, runs: list[Run], quarter: int, drawings: Drawings, listings: bool
) -> tuple[list[Table], list[Run]]:
    tables: list[Table] = []
    used: list[Ruling] = []
    for grid in find_grids(drawings):
        table, taken = grid_table(grid, runs, lambda run: single_words(layer, run, quarter))
        if table is not None:
            tables.append(table)
            runs = [run for run in runs if run.start not in taken]
            used += grid.across
    free = [line for line in merged(drawings.across) if line not in used]
    for group in ruled_groups(free):
        runs = [
            word
            for run in runs
            for word in (_words(layer, run, quarter) if between(group, run) else [run])
        ]
        for table, rows in ruled_tables(group, mended(pieces_of(runs)), listings=listings):
            tables.append(table)
            taken = {run.start for row in rows for piece in row for run in piece.runs}
            runs = [run for run in runs if run.start not in taken]
    return tables, runs


def _words(layer: TextLayer, run: Run, quarter: int) -> list[Run]:
    """One operator may draw all cells of a row."""
    return words_of(layer, run, quarter, LIKELY_HOLE) if " " in run.text else [run]


def _blocks(
    runs: list[Run], tables: list[Table], page: Box, tags: Mapping[int, Tag], listings: bool
) -> list[Block]:
    head, pieces, foot = without_margins(mended(pieces_of(runs, HOLE)), page)
    parts: list[Piece | Table] = [*pieces, *tables]
    return [
        *(_margin_block(row, tags) for row in head),
        *_text_blocks([_lines(region, listings) for region in reading_order(parts)], tags),
        *(_margin_block(row, tags) for row in foot),
    ]


def _margin_block(row: list[Piece], tags: Mapping[int, Tag]) -> Block:
    line = line_of(row)
    tag = tags.get(line.mark)
    # In a tagged file, what is printed on every page has no tag.
    outside = is_page_number(row) or (tags and tag is None)
    return Block(Kind.MARGIN if outside else Kind.PARAGRAPH, [line], tag=tag)


def _text_blocks(lines: list[list[Line | Table]], tags: Mapping[int, Tag]) -> list[Block]:
    every = [part for region in lines for part in region if isinstance(part, Line)]
    mostly_mono = _is_typewritten(every)
    blocks: list[Block] = []
    for region in lines:
        for number, block in enumerate(blocks_of(region, mostly_mono=mostly_mono, tags=tags)):
            if number == 0 and blocks and _goes_on(blocks[-1], block):
                blocks[-1].lines += block.lines
            else:
                blocks.append(block)
    return blocks


def _is_typescript(runs: Sequence[Run]) -> bool:
    """Whether tables, too, are set in letters of a fixed pitch."""
    mono = sum(len(run.text) for run in runs if run.style.mono)
    if mono <= 0.6 * sum(len(run.text) for run in runs):
        return False
    return _is_typewritten([line_of(row) for row in rows_of(pieces_of(runs))])


def _is_typewritten(lines: Sequence[Line]) -> bool:
    """A text in letters of a fixed pitch, not a text with listings in it, or one of listings."""
    mono = [line for line in lines if line.mono]
    letters = sum(len(line.text) for line in mono)
    if letters <= 0.6 * sum(len(line.text) for line in lines):
        return False
    code = sum(not CODE_SIGNS.isdisjoint(line.text) for line in mono)
    return letters > 40 * len(mono) and code < 0.3 * len(mono)


def _lines(region: Sequence[Piece | Table], listings: bool) -> list[Line | Table]:
    """Tables where they stand among the lines; `listings`: letters of a fixed pitch are code."""
    runs = [run for part in region if isinstance(part, Piece) for run in part.runs]
    rows = rows_of(pieces_of(runs))
    placed: list[tuple[float, Line | Table]] = [
        (part.top, part) for part in region if isinstance(part, Table)
    ]
    done = 0
    for start, end, table in find_tables(rows, listings=listings):
        placed += [(row[0].top, line_of(row)) for row in rows[done:start]]
        placed.append((table.top, table))
        done = end
    placed += [(row[0].top, line_of(row)) for row in rows[done:]]
    placed.sort(key=lambda item: -item[0])
    return [part for _, part in placed]


def _goes_on(before: Block, block: Block) -> bool:
    """A paragraph from the foot of one column to the head of the next."""
    if before.kind not in (Kind.PARAGRAPH, Kind.ITEM) or block.kind is not Kind.PARAGRAPH:
        return False
    last, first = before.lines[-1], block.lines[0]
    if abs(last.size - first.size) > 0.05 * last.size or last.bold != first.bold:
        return False
    return last.cut or (first.text[:1].islower() and last.text[-1:] not in ".!?:")
