"""Blocks: lines put together to headings, paragraphs, items of lists and code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from statistics import median

from ..structure import Tag
from .letters import joined_lines
from .lines import Line
from .lists import item_mark
from .tables import Table

#: In ems: what a term means, beside it and in the lines below, begins at the same place.
HANGING = 0.3
UNTAGGED: Mapping[int, Tag] = {}


class Kind(Enum):
    PARAGRAPH = "paragraph"
    HEADING = "heading"
    ITEM = "item"
    CODE = "code"
    TABLE = "table"
    #: Page numbers and the like: text, but no Markdown.
    MARGIN = "margin"


@dataclass(slots=True)
class Block:
    kind: Kind
    lines: list[Line] = field(default_factory=list)
    #: Of a heading from 1, of an item from 0.
    level: int = 0
    #: Of an item, as Markdown has it.
    mark: str = ""
    table: Table | None = None
    #: What the file itself says that it is.
    tag: Tag | None = None
    #: A term, or the title of a note.
    strong: bool = False

    @property
    def text(self) -> str:
        text = self.lines[0].text
        for before, line in pairwise(self.lines):
            text = joined_lines(text, line.text, before.cut)
        return text


@dataclass(frozen=True, slots=True)
class Region:
    """What the lines of a column have in common."""

    left: float
    right: float
    #: From line to line, in sizes of the letters.
    pitch: float


def blocks_of(
    parts: Sequence[Line | Table], *, mostly_mono: bool = False, tags: Mapping[int, Tag] = UNTAGGED
) -> list[Block]:
    region = _region([part for part in parts if isinstance(part, Line)])
    blocks: list[Block] = []
    before: Line | None = None
    for number, part in enumerate(parts):
        if isinstance(part, Table):
            blocks.append(Block(Kind.TABLE, table=part))
            before = None
            continue
        after = parts[number + 1] if number + 1 < len(parts) else None
        following = after if isinstance(after, Line) else None
        tag = tags.get(part.mark)
        breaks = before is None or _breaks_by_tag(blocks[-1], before, part, tag)
        if breaks is None and before is not None:
            breaks = _breaks(blocks[-1], before, part, following, region)
        if breaks:
            blocks.append(_begun(part, tag, mostly_mono))
        else:
            blocks[-1].lines.append(part)
        before = part
    _nest(blocks)
    return blocks


def _region(lines: list[Line]) -> Region:
    if not lines:
        return Region(0, 0, 1.2)
    pitches = [
        (a.base - b.base) / max(a.size, b.size)
        for a, b in pairwise(lines)
        if abs(a.size - b.size) < 0.1 * a.size and 0.7 < (a.base - b.base) / a.size < 2.2
    ]
    pitches.sort()
    # The lower half: most steps are from line to line, not from paragraph to paragraph.
    pitch = median(pitches[: max(1, (len(pitches) + 1) * 2 // 3)]) if pitches else 1.3
    return Region(min(line.left for line in lines), max(line.right for line in lines), pitch)


def _begun(line: Line, tag: Tag | None, mostly_mono: bool) -> Block:
    if line.mono and not mostly_mono:
        return Block(Kind.CODE, [line], tag=tag)
    mark = item_mark(line.text)
    if mark is not None:
        return Block(Kind.ITEM, [line], mark=mark[0], tag=tag)
    if tag is not None and tag.kind == "LI":
        # Its mark is drawn, not written.
        return Block(Kind.ITEM, [line], mark="-", tag=tag)
    return Block(Kind.PARAGRAPH, [line], tag=tag)


def _breaks_by_tag(block: Block, before: Line, line: Line, tag: Tag | None) -> bool | None:
    """None: the tags do not say."""
    if tag is None or block.tag is None or block.kind is Kind.CODE:
        return None
    if tag.block == block.tag.block:
        together = -0.2 * line.size < before.base - line.base < 3 * line.size
        return False if together and line.mono == before.mono else None
    return True if "P" not in (tag.kind, block.tag.kind) or tag.kind != block.tag.kind else None


def _breaks(block: Block, before: Line, line: Line, after: Line | None, region: Region) -> bool:
    size = max(before.size, line.size)
    step = before.base - line.base
    if block.kind is Kind.CODE:
        return not line.mono or step > 3 * size or step < 0
    if (line.mono != before.mono and line.mono) or step < -0.2 * size:
        return True
    if abs(before.size - line.size) > 0.08 * size or step > (region.pitch * 1.25 + 0.12) * size:
        return True
    if before.cut:
        return False
    if line.bold != before.bold and not (block.kind is Kind.ITEM and not line.bold):
        return True
    if _begins_item(block, before, line):
        return True
    return _begins_paragraph(block, before, line, after, region)


def _begins_item(block: Block, before: Line, line: Line) -> bool:
    mark = item_mark(line.text)
    if mark is None:
        return False
    if mark[0] == "-" or block.kind is Kind.ITEM:
        return line.left < before.left + 8 * line.size
    # A number that happens to begin a line of a paragraph stands where the others stand.
    return before.text[-1:] in ".:;!?" or line.left > before.left + 0.5 * line.size


def _begins_paragraph(
    block: Block, before: Line, line: Line, after: Line | None, region: Region
) -> bool:
    em = line.size
    width = region.right - region.left
    first = block.lines[0]
    if block.kind is Kind.ITEM:
        if line.left < first.left - 0.5 * em:
            return True
        # Back at the margin of the mark, after a line that is not full.
        back = line.left < first.left + 0.3 * em
        return back and (len(block.lines) > 1 and before.left > first.left + 0.5 * em)
    if first.hang is not None and abs(line.left - first.hang) < HANGING * em:
        return False
    if first.hang is not None and abs(line.left - first.left) < HANGING * em:
        below = before.left if before is not first else line.hang
        if below is not None and abs(below - first.hang) < HANGING * em:
            return True
    if line.bold and before.bold and len(block.lines) < 3:
        # A heading of more than one line: its number may stand out.
        return False
    indented = line.left - before.left > 0.8 * em and line.left - region.left > 0.8 * em
    if indented and (after is None or after.left < line.left - 0.6 * em or ends(before)):
        return abs(_middle(line) - _middle(before)) > em
    short = before.right < region.right - 0.2 * width
    return short and ends(before) and _begins(line) and before.left <= region.left + 2 * em


def _middle(line: Line) -> float:
    return (line.left + line.right) / 2


def ends(line: Line) -> bool:
    return line.text.rstrip("\"”»')]")[-1:] in (".", "!", "?", ":")


def _begins(line: Line) -> bool:
    return not line.text[:1].islower()


def _nest(blocks: Sequence[Block]) -> None:
    """How deep an item is in a list, by how far it is set in."""
    margins: list[float] = []
    for block in blocks:
        if block.kind is not Kind.ITEM:
            margins = []
            continue
        left, em = block.lines[0].left, block.lines[0].size
        while margins and left < margins[-1] - 0.5 * em:
            margins.pop()
        if not margins or left > margins[-1] + 0.5 * em:
            margins.append(left)
        block.level = min(len(margins) - 1, 5)
