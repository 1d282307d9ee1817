"""Markdown primitives shared by all readers: escaping, code fences and pipe tables."""

import re
from collections.abc import Sequence

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
