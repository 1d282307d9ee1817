"""Markdown: escaping, code fences, pipe tables, and splitting long texts into chunks."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

_LINE_START = re.compile(r"(?=>|[#+|-](?:\s|$)|#{2,6}\s|-{2,}\s*$|=+\s*$|~~~)")
_LINE_START_NUMBER = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
#: Brackets are markup only where they form a link.
_INLINE = re.compile(r"[\\`*]|<(?=[A-Za-z/!?])|(?<!\w)_|_(?!\w)")
_LINK = re.compile(r"\][(\[:]")
_BACKTICKS = re.compile("`+")


def escape_line_start(text: str) -> str:
    """Escape what would be markup at the start of a line."""
    if _LINE_START.match(text):
        return f"\\{text}"
    number = _LINE_START_NUMBER.match(text)
    return f"{number[1]}\\{text[number.end(1) :]}" if number else text


def escape_inline(text: str) -> str:
    """Escape what would be markup anywhere in a line."""
    escaped = _INLINE.sub(r"\\\g<0>", text)
    return escaped.replace("[", "\\[") if _LINK.search(escaped) else escaped


def code_fence(text: str, shortest: int) -> str:
    """Return a fence longer than any run of backticks in the text."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    return "`" * max(shortest, longest + 1)


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first row is the header. Pipes in cells must be escaped already."""
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
    lines.insert(1, f"|{' --- |' * width}")
    return "\n".join(lines)


#: The size of a text, in the unit of a limit.
Measure = Callable[[str], int]

#: Few tokens have fewer bytes in any language, so this estimate is rarely too low.
BYTES_PER_TOKEN = 3

FENCE = re.compile(r"\s*(```+|~~~+)")
HEADING = re.compile(r" {0,3}(#{1,6})(?:\s|$)")
#: Ever finer split points for oversized blocks: after a line, a sentence, a word.
SPLIT_POINTS = (
    re.compile(r"(?<=\n)"),
    re.compile(r"(?<=[.!?…:;])(?=\s)|(?<=[\u3002\uff01\uff1f])"),
    re.compile(r"(?<=\s)(?=\S)"),
)


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A block that should stay together. All chunks joined are the original text."""

    text: str
    #: 1 to 6 for a heading, otherwise 0.
    level: int = 0
    #: Code or front matter, which is not prose.
    is_code: bool = False

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.text)


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a model counts, rather too high than too low."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def split_text(text: str, max_size: int, measure: Measure = estimate_tokens) -> list[str]:
    """Split a text into parts of at most `max_size`; joined they are the original text."""
    parts: list[str] = []
    current: list[TextChunk] = []
    sizes: list[int] = []
    total = 0
    for chunk in split_blocks(text, max_size, measure):
        size = measure(chunk.text)
        while current and total + size > max_size:
            cut = _split_point(current, sizes, max_size)
            parts.append("".join(each.text for each in current[:cut]))
            current, sizes = current[cut:], sizes[cut:]
            total = sum(sizes)
        current.append(chunk)
        sizes.append(size)
        total += size
    if current:
        parts.append("".join(each.text for each in current))
    return parts


def _split_point(chunks: Sequence[TextChunk], sizes: Sequence[int], max_size: int) -> int:
    """Return how many chunks the next part gets: up to a heading, the higher the better, unless
    that makes a small part; never right after a heading."""
    before = [0, *accumulate(sizes)]
    candidates = [
        (chunk.level, -number)
        for number, chunk in enumerate(chunks)
        if chunk.level and before[number] * 2 >= max_size
    ]
    cut = -min(candidates)[1] if candidates else len(chunks)
    while cut > 1 and chunks[cut - 1].level:
        cut -= 1
    return cut


def split_blocks(
    text: str, max_size: int, measure: Measure = estimate_tokens
) -> Iterator[TextChunk]:
    """Yield headings, paragraphs, tables and code blocks, splitting those that are too long."""
    for block in markdown_blocks(text):
        if measure(block.text) <= max_size:
            yield block
        else:
            for part in _split_finer(block.text, max_size, measure):
                yield TextChunk(part, is_code=block.is_code)


def _split_finer(text: str, max_size: int, measure: Measure, level: int = 0) -> Iterator[str]:
    """Yield the largest fragments that fit, split as coarsely as possible."""
    if measure(text) <= max_size:
        yield text
    elif level == len(SPLIT_POINTS):
        # A character is never longer than this one.
        step = max(1, max_size * 3 // measure("\U0001f600" * 3))
        yield from (text[start : start + step] for start in range(0, len(text), step))
    else:
        current = ""
        for fragment in filter(None, SPLIT_POINTS[level].split(text)):
            if current and measure(current) + measure(fragment) > max_size:
                yield from _split_finer(current, max_size, measure, level + 1)
                current = ""
            current += fragment
        yield from _split_finer(current, max_size, measure, level + 1)


def markdown_blocks(text: str) -> Iterator[TextChunk]:
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
        number += 1
        if fence:
            while number < len(lines) and not _closes(lines[number].strip(), fence[1]):
                number += 1
            number = min(number + 1, len(lines))
        elif not heading and line.strip():
            continue
        while number < len(lines) and not lines[number].strip():  # blank lines belong to the block
            number += 1
        level = len(heading[1]) if heading else 0
        yield TextChunk("".join(lines[start:number]), level, is_code=bool(fence))
        start = number
    if start < len(lines):
        yield TextChunk("".join(lines[start:]))


def _closes(line: str, fence: str) -> bool:
    return line.startswith(fence) and not line.strip(f" \t\n\r{fence[0]}")


def _end_of_front_matter(lines: Sequence[str]) -> int:
    if not lines or lines[0].rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return number + 1
        if not line.strip():  # it was a thematic break, not front matter
            return 0
    return 0
