"""Text that would be taken as Markdown: so that it stays text."""

import re
from collections.abc import Sequence

OPENING = re.compile(r"(?=>|[#+|-](?:\s|$)|#{2,6}\s|-{2,}\s*$|=+\s*$|~~~)")
OPENING_NUMBER = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
#: Brackets only where they make a link.
MARKUP = re.compile(r"[\\`*]|<(?=[A-Za-z/!?])|(?<!\w)_|_(?!\w)")
LINK = re.compile(r"\][(\[:]")
_FENCES = re.compile("`+")


def escape_line_start(text: str) -> str:
    """What stands at the beginning of a line."""
    if OPENING.match(text):
        return f"\\{text}"
    number = OPENING_NUMBER.match(text)
    return f"{number[1]}\\{text[number.end(1) :]}" if number else text


def escape_inline(text: str) -> str:
    """What would be markup anywhere in a line, but was print."""
    found = MARKUP.sub(r"\\\g<0>", text)
    return found.replace("[", "\\[") if LINK.search(found) else found


def code_fence(text: str, shortest: int) -> str:
    """Longer than any in the text. A page of backticks is looked at once, not once for each."""
    longest = max(map(len, _FENCES.findall(text)), default=0)
    return "`" * max(shortest, longest + 1)


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the head, shorter ones are filled up; pipes in cells are escaped already."""
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
    lines.insert(1, f"|{' --- |' * width}")
    return "\n".join(lines)
