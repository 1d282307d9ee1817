"""Groups lines into headings, paragraphs, list items and code, and renders them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from ...markdown import code_fence, escape_line_start, pipe_table
from ...pages import figure_markdown
from ..pdfium import Tag
from .rows import TextLine, parse_list_marker
from .runs import join_lines
from .tables import Table


class BlockKind(Enum):
    PARAGRAPH = "paragraph"
    HEADING = "heading"
    ITEM = "item"
    CODE = "code"
    TABLE = "table"
    FIGURE = "figure"
    #: Page numbers and the like: part of the text, but not of the Markdown.
    MARGIN = "margin"


@dataclass(slots=True)
class Block:
    kind: BlockKind
    lines: list[TextLine] = field(default_factory=list)
    #: Of a heading from 1, of a list item from 0.
    level: int = 0
    #: Of a list item, as Markdown.
    marker: str = ""
    table: Table | None = None
    #: Of a figure: the name of its file.
    file: str = ""
    #: The structure tag of the block, in a tagged PDF.
    tag: Tag | None = None
    #: A term or the title of a note.
    strong: bool = False

    @property
    def text(self) -> str:
        text = self.lines[0].text
        for before, line in pairwise(self.lines):
            text = join_lines(text, line.text, before.hyphenated)
        return text


#: In ems: how closely the lines of a definition must align below each other.
DEFINITION_TOLERANCE = 0.3
UNTAGGED: Mapping[int, Tag] = {}


def build_blocks(
    parts: Sequence[TextLine | Table],
    *,
    mostly_mono: bool = False,
    tags: Mapping[int, Tag] = UNTAGGED,
) -> list[Block]:
    metrics = _measure_column([part for part in parts if isinstance(part, TextLine)])
    blocks: list[Block] = []
    before: TextLine | None = None
    for number, part in enumerate(parts):
        if isinstance(part, Table):
            blocks.append(Block(BlockKind.TABLE, table=part))
            before = None
            continue
        after = parts[number + 1] if number + 1 < len(parts) else None
        following = after if isinstance(after, TextLine) else None
        tag = tags.get(part.mcid)
        is_new = before is None or _starts_block_by_tag(blocks[-1], before, part, tag)
        if is_new is None and before is not None:
            is_new = _starts_block(blocks[-1], before, part, following, metrics)
        if is_new:
            blocks.append(_start_block(part, tag, mostly_mono))
        else:
            blocks[-1].lines.append(part)
        before = part
    _set_levels(blocks)
    return blocks


class ColumnMetrics(NamedTuple):
    """Metrics of the lines of a column."""

    left: float
    right: float
    #: Line spacing, as a multiple of the font size.
    pitch: float


def _measure_column(lines: list[TextLine]) -> ColumnMetrics:
    if not lines:
        return ColumnMetrics(0, 0, 1.2)
    pitches = [
        (a.baseline - b.baseline) / max(a.size, b.size)
        for a, b in pairwise(lines)
        if abs(a.size - b.size) < 0.1 * a.size and 0.7 < (a.baseline - b.baseline) / a.size < 2.2
    ]
    pitches.sort()
    # The lower part: most steps are line spacing, not paragraph spacing.
    pitch = median(pitches[: max(1, (len(pitches) + 1) * 2 // 3)]) if pitches else 1.3
    return ColumnMetrics(min(line.left for line in lines), max(line.right for line in lines), pitch)


def _start_block(line: TextLine, tag: Tag | None, mostly_mono: bool) -> Block:
    if line.mono and not mostly_mono:
        return Block(BlockKind.CODE, [line], tag=tag)
    marker = parse_list_marker(line.text)
    # The bullet may be drawn as a shape, not as text.
    if marker is not None or (tag is not None and tag.kind == "LI"):
        return Block(BlockKind.ITEM, [line], marker=marker[0] if marker else "-", tag=tag)
    return Block(BlockKind.PARAGRAPH, [line], tag=tag)


def _starts_block_by_tag(
    block: Block, before: TextLine, line: TextLine, tag: Tag | None
) -> bool | None:
    """Return whether a new block begins, or None if the tags do not tell."""
    if tag is None or block.tag is None or block.kind is BlockKind.CODE:
        return None
    if tag.block == block.tag.block:
        together = -0.2 * line.size < before.baseline - line.baseline < 3 * line.size
        return False if together and line.mono == before.mono else None
    return True if "P" not in (tag.kind, block.tag.kind) or tag.kind != block.tag.kind else None


def _starts_block(
    block: Block, before: TextLine, line: TextLine, after: TextLine | None, metrics: ColumnMetrics
) -> bool:
    size = max(before.size, line.size)
    step = before.baseline - line.baseline
    if block.kind is BlockKind.CODE:
        return not line.mono or step > 3 * size or step < 0
    if (line.mono != before.mono and line.mono) or step < -0.2 * size:
        return True
    if abs(before.size - line.size) > 0.08 * size or step > (metrics.pitch * 1.25 + 0.12) * size:
        return True
    if before.hyphenated:
        return False
    if line.bold != before.bold and not (block.kind is BlockKind.ITEM and not line.bold):
        return True
    marker = parse_list_marker(line.text)
    if marker and (marker[0] == "-" or block.kind is BlockKind.ITEM):
        if line.left < before.left + 8 * line.size:
            return True
    # A number that happens to start a line of a paragraph is aligned with the other lines.
    elif marker and (before.text[-1:] in ".:;!?" or line.left > before.left + 0.5 * line.size):
        return True
    return _starts_paragraph(block, before, line, after, metrics)


def _starts_paragraph(
    block: Block, before: TextLine, line: TextLine, after: TextLine | None, metrics: ColumnMetrics
) -> bool:
    em = line.size
    width = metrics.right - metrics.left
    first = block.lines[0]
    if block.kind is BlockKind.ITEM:
        if line.left < first.left - 0.5 * em:
            return True
        # Back at the margin of the bullet, after a line that is not full.
        is_back = line.left < first.left + 0.3 * em
        return is_back and len(block.lines) > 1 and before.left > first.left + 0.5 * em
    if (definition_left := first.definition_left) is not None:
        tolerance = DEFINITION_TOLERANCE * em
        if abs(line.left - definition_left) < tolerance:
            return False
        below = before.left if before is not first else line.definition_left
        is_below = below is not None and abs(below - definition_left) < tolerance
        if is_below and abs(line.left - first.left) < tolerance:
            return True
    if line.bold and before.bold and len(block.lines) < 3:
        # A heading of several lines: its number may stand out.
        return False
    indented = line.left - before.left > 0.8 * em and line.left - metrics.left > 0.8 * em
    if indented and (after is None or after.left < line.left - 0.6 * em or ends_sentence(before)):
        return abs((line.left + line.right) - (before.left + before.right)) > 2 * em
    short = before.right < metrics.right - 0.2 * width and before.left <= metrics.left + 2 * em
    return short and ends_sentence(before) and not line.text[:1].islower()


def ends_sentence(line: TextLine) -> bool:
    return line.text.rstrip("\"”»')]")[-1:] in (".", "!", "?", ":")


def _set_levels(blocks: Sequence[Block]) -> None:
    """Set the nesting level of list items by their indentation."""
    margins: list[float] = []
    for block in blocks:
        if block.kind is not BlockKind.ITEM:
            margins = []
            continue
        left, em = block.lines[0].left, block.lines[0].size
        while margins and left < margins[-1] - 0.5 * em:
            margins.pop()
        if not margins or left > margins[-1] + 0.5 * em:
            margins.append(left)
        block.level = min(len(margins) - 1, 5)


#: What would be markup in the middle of a line.
INLINE = re.compile(r"([\\`*\[\]]|(?<!\w)_|_(?!\w)|<(?=[a-zA-Z/!?]))")
MARKUP_CHARACTERS = ("*", "_", "[", "`", "<", "\\", "]")


def to_markdown(blocks: Sequence[Block]) -> str:
    blocks = [block for block in blocks if block.kind is not BlockKind.MARGIN]
    parts = [_block_markdown(block) for block in blocks[:1]]
    for before, block in pairwise(blocks):
        is_tight = before.kind is block.kind is BlockKind.ITEM
        parts += ["\n" if is_tight else "\n\n", _block_markdown(block)]
    return "".join(parts)


def _block_markdown(block: Block) -> str:
    match block.kind:
        case BlockKind.HEADING:
            return f"{'#' * block.level} {_escape(block.text)}"
        case BlockKind.ITEM:
            marker = parse_list_marker(block.text)
            text = marker[1] if marker else block.text
            return f"{'  ' * block.level}{block.marker} {escape_line_start(_escape(text))}"
        case BlockKind.CODE:
            listing = "\n".join(_code_lines(block))
            fence = code_fence(listing, 3)
            return f"{fence}\n{listing}\n{fence}"
        case BlockKind.TABLE:
            assert block.table is not None
            return pipe_table([
                [_escape(cell).replace("|", "\\|").replace("\n", " ") for cell in row]
                for row in block.table.cells
            ])  # fmt: skip
        case BlockKind.FIGURE:
            return figure_markdown(block.file)
        case _ if block.strong:
            return f"**{_escape(block.text)}**"
        case _:
            return escape_line_start(_escape(block.text))


def _escape(text: str) -> str:
    if not any(character in text for character in MARKUP_CHARACTERS):
        return text
    return INLINE.sub(r"\\\1", text)


def _code_lines(block: Block) -> Iterator[str]:
    left = min(line.left for line in block.lines)
    for line in block.lines:
        # Monospaced characters are 0.6 em wide.
        yield " " * max(0, round((line.left - left) / (0.6 * line.size))) + line.text


def to_text(blocks: Sequence[Block]) -> str:
    return "\n\n".join(map(_block_text, blocks))


def _block_text(block: Block) -> str:
    if block.table is not None:
        return "\n".join("\t".join(row) for row in block.table.cells)
    return "\n".join(_code_lines(block)) if block.kind is BlockKind.CODE else block.text
