"""Cuts a long text into parts, where it hurts least: at headings, paragraphs, lines, sentences."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

#: Few tokens have fewer bytes in any language, so a text has rarely more of them than told.
BYTES_PER_TOKEN = 3

FENCE = re.compile(r"\s*(```+|~~~+)")
HEADING = re.compile(r" {0,3}(#{1,6})(?:\s|$)")
#: Ever finer, for what is too long: behind a line, a sentence, a word.
ENDS = (
    re.compile(r"(?<=\n)"),
    re.compile(r"(?<=[.!?…:;])(?=\s)|(?<=[\u3002\uff01\uff1f])"),
    re.compile(r"(?<=\s)(?=\S)"),
)


@dataclass(frozen=True, slots=True)
class TextChunk:
    """What should stay together. All pieces, one behind the other, are the text."""

    text: str
    #: 1 to 6 of a heading, else 0.
    level: int = 0
    #: Code, or data at the beginning: its words are not for people.
    is_code: bool = False

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.text)


def estimate_tokens(text: str) -> int:
    """As a model may count them, rather too many than too few."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def split_text(text: str, most: int) -> list[str]:
    """The text in parts of so many tokens at the most; all together are the text again."""
    parts: list[str] = []
    current: list[TextChunk] = []
    size = 0
    for piece in split_blocks(text, most):
        while current and size + piece.tokens > most:
            cut = _cut(current, most)
            parts.append("".join(each.text for each in current[:cut]))
            current = current[cut:]
            size = sum(each.tokens for each in current)
        current.append(piece)
        size += piece.tokens
    if current:
        parts.append("".join(each.text for each in current))
    return parts


def _cut(pieces: Sequence[TextChunk], most: int) -> int:
    """Before a heading, the higher the better, unless that would leave a small part; never
    behind one."""
    before = [0, *accumulate(piece.tokens for piece in pieces)]
    places = [
        (piece.level, -number)
        for number, piece in enumerate(pieces)
        if piece.level and before[number] * 2 >= most
    ]
    cut = -min(places)[1] if places else len(pieces)
    while cut > 1 and pieces[cut - 1].level:
        cut -= 1
    return cut


def split_blocks(text: str, most: int) -> Iterator[TextChunk]:
    """Headings, paragraphs, tables and blocks of code; in smaller pieces where one is larger."""
    for block in _blocks(text):
        if block.tokens <= most:
            yield block
        else:
            for part in _finer(block.text, most):
                yield TextChunk(part, is_code=block.is_code)


def _finer(text: str, most: int, level: int = 0) -> Iterator[str]:
    """In fragments as large as may be, cut as coarsely as may be."""
    if estimate_tokens(text) <= most:
        yield text
    elif level == len(ENDS):
        step = max(1, most * BYTES_PER_TOKEN // 4)
        yield from (text[start : start + step] for start in range(0, len(text), step))
    else:
        held = ""
        for fragment in filter(None, ENDS[level].split(text)):
            if held and estimate_tokens(held) + estimate_tokens(fragment) > most:
                yield from _finer(held, most, level + 1)
                held = ""
            held += fragment
        yield from _finer(held, most, level + 1)


def _blocks(text: str) -> Iterator[TextChunk]:
    lines = text.splitlines(keepends=True)
    start = number = _end_of_front_matter(lines)
    if start:
        yield TextChunk("".join(lines[:start]), is_code=True)
    while number < len(lines):
        line = lines[number]
        heading, fence = HEADING.match(line), FENCE.match(line)
        if (heading or fence) and number > start:
            yield TextChunk("".join(lines[start:number]))
            start = number
        if fence:
            number = _end_of_code(lines, number, fence[1])
        elif heading or not line.strip():
            number += 1
        else:
            number += 1
            continue
        while number < len(lines) and not lines[number].strip():  # the gap belongs to what it ends
            number += 1
        level = len(heading[1]) if heading else 0
        yield TextChunk("".join(lines[start:number]), level, is_code=bool(fence))
        start = number
    if start < len(lines):
        yield TextChunk("".join(lines[start:]))


def _end_of_front_matter(lines: Sequence[str]) -> int:
    if not lines or lines[0].rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return number + 1
        if not line.strip():  # a rule, and then the text
            return 0
    return 0


def _end_of_code(lines: Sequence[str], start: int, fence: str) -> int:
    for number in range(start + 1, len(lines)):
        if lines[number].strip().startswith(fence) and not lines[number].strip(
            f" \t\n\r{fence[0]}"
        ):
            return number + 1
    return len(lines)
