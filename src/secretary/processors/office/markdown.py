"""Blocks as Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence

from ..escapes import fence_of
from ..pipe_tables import pipe_table
from .blocks import (
    Block,
    Cell,
    Code,
    Grid,
    Heading,
    Item,
    Note,
    Paragraph,
    Quote,
    Rule,
    Table,
)
from .inlines import escaped, markdown_of, target_of

LINE_BREAK = "<br>"
#: Signs at the end of a heading that would be taken for its end.
_CLOSING = re.compile(r"(?<!\S)#+$")


def to_markdown(blocks: Iterable[Block]) -> str:
    """Notes come last, wherever they are."""
    notes: list[Note] = []
    text = _joined(_merged(blocks), notes)
    for note in notes:  # grows while we go: a note may have notes
        inner = _joined(_merged(note.blocks), notes).replace("\n", "\n    ")
        text += f"\n\n[^{note.label}]: {inner}"
    return re.sub(r"(?m)^ +$", "", text).strip("\n") + "\n" if text.strip() else ""


def _joined(blocks: Iterable[Block], notes: list[Note]) -> str:
    parts: list[str] = []
    places = _Places()
    before: Block | None = None
    for block in blocks:
        if isinstance(block, Note):
            notes.append(block)
            continue
        text = places.item(block) if isinstance(block, Item) else _written(block, notes)
        if not text:
            continue
        if not isinstance(block, Item):
            places.leave()
        is_next = isinstance(block, Item) and isinstance(before, Item) and block.marker
        parts.append(("\n" if is_next else "\n\n") + text)
        before = block
    return "".join(parts).strip("\n")


def _merged(blocks: Iterable[Block]) -> Iterator[Block]:
    """Lines of code that are paragraphs of their own are one listing."""
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Code) and not block.language:
            lines.append(block.text)
            continue
        if lines:
            yield Code("\n".join(lines))
            lines = []
        yield block
    if lines:
        yield Code("\n".join(lines))


class _Places:
    """Where items of each level begin: below the text of the item they are in."""

    def __init__(self) -> None:
        self._open: list[tuple[int, int]] = []

    def leave(self) -> None:
        self._open.clear()

    def item(self, item: Item) -> str:
        text = markdown_of(item.content)
        if not text:
            return ""
        is_further = not item.marker
        while self._open and self._open[-1][0] >= item.level + is_further:
            self._open.pop()
        indent = " " * sum(width for _, width in self._open)
        text = text.replace("\n", "\n" + indent + " " * (len(item.marker) + 1))
        if is_further:
            return indent + text
        self._open.append((item.level, len(item.marker) + 1))
        return f"{indent}{item.marker} {text}"


def _written(block: Block, notes: list[Note]) -> str:
    match block:
        case Heading(level, content):
            text = markdown_of(content, is_bold_known=True, begins_line=False)
            text = " ".join(line.rstrip() for line in text.split("\n"))
            text = _CLOSING.sub(r"\\\g<0>", text)
            return f"{'#' * min(max(level, 1), 6)} {text}" if text else ""
        case Paragraph(content):
            return markdown_of(content)
        case Code(text, language):
            return fenced(text, language)
        case Quote(blocks):
            inner = _joined(_merged(blocks), notes)
            return "> " + inner.replace("\n", "\n> ").replace("> \n", ">\n") if inner else ""
        case Table(rows):
            return _table(rows, notes)
        case Grid():
            return _grid(block)
        case Rule():
            return "---"
        case _:
            return ""


def fenced(text: str, language: str) -> str:
    fence = fence_of(text, 3)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}" if text.strip() else ""


def _table(rows: Sequence[Sequence[Cell]], notes: list[Note]) -> str:
    if len(rows) == 1 and len(rows[0]) == 1:
        return _joined(_merged(rows[0][0]), notes)  # a box, not a table
    written = [
        [_cell(cell, notes, is_head=not number) for cell in row] for number, row in enumerate(rows)
    ]
    return pipe_table(written) if any(any(row) for row in written) else ""


def _cell(cell: Cell, notes: list[Note], *, is_head: bool = False) -> str:
    lines = [line for block in cell for line in _lines(block, notes, is_head)]
    text = LINE_BREAK.join(line for line in lines if line)
    text = LINE_BREAK.join(line.rstrip(" ") for line in text.split("\n"))
    return text.replace("|", "\\|")


def _lines(block: Block, notes: list[Note], is_head: bool) -> Iterator[str]:
    match block:
        case Heading(_, content):
            yield markdown_of(content, is_bold_known=True, begins_line=False)
        case Paragraph(content):
            yield markdown_of(content, is_bold_known=is_head, begins_line=False)
        case Item(level, marker, content):
            text = markdown_of(content, begins_line=False)
            yield "&nbsp;" * 2 * level + f"{marker} {text}".strip()
        case Code(text):
            yield from (f"`{line}`" for line in text.split("\n") if line.strip())
        case Quote(blocks):
            for inner in blocks:
                yield from _lines(inner, notes, is_head)
        case Table(rows):
            for row in rows:
                yield " | ".join(_cell(cell, notes).replace("\\|", "|") for cell in row)
        case Grid(grid):
            yield from (" | ".join(texts) for texts in grid)
        case Note():
            notes.append(block)


def _grid(grid: Grid) -> str:
    rows = [[_text(text) for text in row] for row in grid.rows]
    for (row, column), link in grid.links.items():
        if rows[row][column]:
            target = target_of(link).replace("|", "%7C")
            rows[row][column] = f"[{rows[row][column]}]({target})"
    return pipe_table(rows)


def _text(text: str) -> str:
    text = escaped(text.strip())
    if "\n" in text or "\r" in text:
        text = LINE_BREAK.join(line.strip() for line in re.split("[\r\n]+", text))
    return text.replace("|", "\\|").replace("\t", " ")
