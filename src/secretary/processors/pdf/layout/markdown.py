"""Blocks written as Markdown, or as plain text."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...escapes import fence_of, opening_escaped
from ...pipe_tables import pipe_table
from .blocks import Block, Kind
from .lists import item_mark

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
            return f"{'  ' * block.level}{block.mark} {opening_escaped(escaped(text))}"
        case Kind.CODE:
            listing = "\n".join(_code(block))
            fence = fence_of(listing, 3)
            return f"{fence}\n{listing}\n{fence}"
        case Kind.TABLE:
            assert block.table is not None
            return pipe_table([[_cell(cell) for cell in row] for row in block.table.cells])
        case _ if block.strong:
            return f"**{escaped(block.text)}**"
        case _:
            return opening_escaped(escaped(block.text))


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
