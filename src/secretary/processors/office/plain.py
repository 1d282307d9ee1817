"""Blocks as plain text: no marks, cells of a table apart by tabs."""

import re
from collections.abc import Iterable, Iterator

from .blocks import (
    Block,
    Cell,
    Code,
    Grid,
    Heading,
    Inlines,
    Item,
    Note,
    NoteMark,
    Paragraph,
    Picture,
    Quote,
    Run,
    Table,
)


def to_text(blocks: Iterable[Block]) -> str:
    notes: list[Note] = []
    lines = [line for block in blocks for line in _lines(block, notes)]
    for note in notes:
        inner = [line for block in note.blocks for line in _lines(block, notes)]
        lines.append(f"[{note.label}] " + "\n".join(inner))
    text = "\n".join(line for line in lines if line.strip())
    return text + "\n" if text else ""


def _lines(block: Block, notes: list[Note]) -> Iterator[str]:
    match block:
        case Heading(_, content) | Paragraph(content):
            yield _text(content)
        case Item(level, marker, content):
            yield "  " * level + f"{marker} {_text(content)}".strip()
        case Code(text):
            yield text.strip("\n")
        case Quote(inner):
            for each in inner:
                yield from _lines(each, notes)
        case Table(rows):
            for row in rows:
                yield "\t".join(_cell(cell, notes) for cell in row)
        case Grid(grid):
            yield from ("\t".join(map(_on_one_line, texts)) for texts in grid)
        case Note():
            notes.append(block)


def _cell(cell: Cell, notes: list[Note]) -> str:
    return _on_one_line(" ".join(line for block in cell for line in _lines(block, notes)))


def _on_one_line(text: str) -> str:
    if "\n" in text or "\t" in text or "\r" in text:
        text = " ".join(part.strip() for part in re.split(r"[\t\n\r]+", text))
    return text.strip()


def _text(content: Inlines) -> str:
    parts = []
    for inline in content:
        match inline:
            case Run(text, _):
                parts.append(text)
            case Picture(alt, _):
                parts.append(alt)
            case NoteMark(label):
                parts.append(f"[{label}]")
    return "".join(parts).strip()
