"""Blocks: lines put together to headings, paragraphs, items of lists and code."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from statistics import median

from ...markdown import code_fence, escape_line_start, pipe_table
from ..structure import Tag
from .rows import Line
from .runs import joined_lines
from .tables import Table

#: What stands before an item; symbol fonts put theirs into the private use area.
BULLETS = "•◦▪▫‣\u2043·∙●○■□◆◇▶►➢➤✓✔❖❑\uf0b7\uf0a7\uf0d8\uf076\uf0fc\uf0a8\uf02d\uf06e\uf071"
BULLET = re.compile(rf"(?:[{BULLETS}]|[-\u2013\u2014*o](?=\s))\s*")
#: Letters need their bracket: a capital with a full stop is the initial of a name.
NUMBER = re.compile(
    r"(?:\(?(\d{1,3})[.)]|\((?:[a-zA-Z]|[ivx]{1,5})\)|(?:[a-z]|[ivx]{1,5})\)|[a-z]\.)\s+(?=\S)"
)


def is_bullet(text: str) -> bool:
    """A mark, and nothing else."""
    match = BULLET.match(f"{text} ")
    return match is not None and match.end() >= len(text)


def item_mark(text: str) -> tuple[str, str] | None:
    """The mark as Markdown has it, and the text after it."""
    match = BULLET.match(text)
    if match and match.end() < len(text):
        return "-", text[match.end() :]
    match = NUMBER.match(text)
    if match is None:
        return None
    number, rest = match.group(1), text[match.end() :]
    if number:
        return f"{int(number)}.", rest
    return f"- {match.group(0).strip()}", rest


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


#: What would be taken as Markdown in the midst of a line.
INLINE = re.compile(r"([\\`*\[\]]|(?<!\w)_|_(?!\w)|<(?=[a-zA-Z/!?]))")
SIGNS = ("*", "_", "[", "`", "<", "\\", "]")


def markdown_of(blocks: Sequence[Block]) -> str:
    parts: list[str] = []
    shown = [block for block in blocks if block.kind is not Kind.MARGIN]
    for before, block in pairwise([None, *shown]):
        assert block is not None
        tight = before is not None and before.kind is block.kind is Kind.ITEM
        if parts:
            parts.append("\n" if tight else "\n\n")
        parts.append(_written(block))
    return "".join(parts)


def _written(block: Block) -> str:
    match block.kind:
        case Kind.HEADING:
            return f"{'#' * block.level} {escaped(block.text)}"
        case Kind.ITEM:
            mark = item_mark(block.text)
            text = mark[1] if mark else block.text
            return f"{'  ' * block.level}{block.mark} {escape_line_start(escaped(text))}"
        case Kind.CODE:
            listing = "\n".join(_code(block))
            fence = code_fence(listing, 3)
            return f"{fence}\n{listing}\n{fence}"
        case Kind.TABLE:
            assert block.table is not None
            return pipe_table([[_cell(cell) for cell in row] for row in block.table.cells])
        case _ if block.strong:
            return f"**{escaped(block.text)}**"
        case _:
            return escape_line_start(escaped(block.text))


def escaped(text: str) -> str:
    if not any(sign in text for sign in SIGNS):
        return text
    return INLINE.sub(r"\\\1", text)


def _code(block: Block) -> Iterator[str]:
    left = min(line.left for line in block.lines)
    for line in block.lines:
        # A letter of a fixed pitch is six tenths of its size wide.
        yield " " * max(0, round((line.left - left) / (0.6 * line.size))) + line.text


def _cell(text: str) -> str:
    return escaped(text).replace("|", "\\|").replace("\n", " ")


def plain_of(blocks: Sequence[Block]) -> str:
    return "\n\n".join(_plain(block) for block in blocks)


def _plain(block: Block) -> str:
    if block.table is not None:
        return "\n".join("\t".join(row) for row in block.table.cells)
    if block.kind is Kind.CODE:
        return "\n".join(_code(block))
    return block.text
