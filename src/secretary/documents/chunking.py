"""Splits Markdown into overlapping chunks, as embeddings and searches need them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .markdown import markdown_blocks, split_text

HEADING_SEPARATOR = " > "
#: Where an overlap may begin, the best place first: a line or a sentence, else a word.
BEGINNINGS = (
    re.compile(r"(?<=\n)(?=\S)|(?<=[.!?…][ \n])(?=\S)|(?<=[\u3002\uff01\uff1f])"),
    re.compile(r"(?<=\s)(?=\S)"),
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text: `text[start:end]`, counted in characters (Unicode code points)."""

    text: str
    start: int
    end: int
    #: The headings above its beginning, such as `Manual > Safety`; None before the first one.
    heading_context: str | None


def chunk_markdown(text: str, *, size: int, overlap: int = 0) -> list[Chunk]:
    """Split a text into chunks of at most `size` characters, at headings, paragraphs, lines,
    sentences or words. Each begins with up to `overlap` characters of the one before, unless it
    begins with a heading. A text that fits is one chunk; nothing but blank chunks is lost."""
    if overlap >= size:
        raise ValueError("the overlap must be smaller than the chunks")
    parts = [text] if len(text) <= size else split_text(text, size - overlap, len)
    headings = list(_headings(text))
    chunks: list[Chunk] = []
    path: list[tuple[int, str]] = []
    begin = previous = passed = 0
    for part in parts:
        end = begin + len(part)
        while passed < len(headings) and headings[passed][0] <= begin:
            _, level, title = headings[passed]
            path = [*(entry for entry in path if entry[0] < level), (level, title)]
            passed += 1
        begins_section = passed > 0 and headings[passed - 1][0] == begin
        start = begin if begins_section else _overlap_start(text, previous, begin, overlap)
        if part.strip():
            if chunks and start <= chunks[-1].start:  # it contains the one before
                chunks.pop()
            context = HEADING_SEPARATOR.join(title for _, title in path if title)
            chunks.append(Chunk(text[start:end], start, end, context or None))
        previous, begin = begin, end
    return chunks


def _headings(text: str) -> Iterator[tuple[int, int, str]]:
    """Position, level and title of each heading."""
    position = 0
    for block in markdown_blocks(text):
        if block.level:
            yield position, block.level, block.text.strip().strip("#").strip()
        position += len(block.text)


def _overlap_start(text: str, previous: int, begin: int, overlap: int) -> int:
    """Where the overlap before `begin` starts: at a sentence or a word, where one begins in its
    first half."""
    earliest = begin - overlap
    if earliest <= previous:
        return previous
    for beginning in BEGINNINGS:
        match = beginning.search(text, earliest, begin)
        if match and (match.start() - earliest) * 2 <= begin - earliest:
            return match.start()
    return earliest
