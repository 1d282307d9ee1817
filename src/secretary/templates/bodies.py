"""How the body of a template is built: its sections, and how each slot stands in its line."""

import re
from collections.abc import Iterator

from .template import Pieces, Place, Section, Slot

HEADING = re.compile(r"(#{1,6})(?:[ \t]|$)")
CODE = re.compile(r"[ ]{0,3}(```|~~~)")
#: What may stand before a text that has its line for itself: quotes, indents, a bullet.
LEAD = re.compile(r"((?:[ \t]*>)*[ \t]*)((?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?")
#: `- **Place:** `: of no use without what is behind it.
LABEL = re.compile(LEAD.pattern + r"(?:\*\*|__)?[^\n:*_]{1,60}:(?:\*\*|__)?[ \t]*")


def sections_of(pieces: Pieces) -> tuple[Section, ...]:
    """Apart at headings; what comes before the first has level 0."""
    sections: list[Section] = []
    level, heading, content = 0, [], []  # type: ignore[var-annotated]
    in_code = False
    for line in _lines(pieces):
        first = line[0] if line and isinstance(line[0], str) else ""
        if CODE.match(first):
            in_code = not in_code
        found = None if in_code else HEADING.match(first)
        if found:
            sections.append(Section(level, tuple(heading), tuple(content)))
            level, heading, content = len(found[1]), line, []
        else:
            content.extend(line)
    sections.append(Section(level, tuple(heading), tuple(content)))
    return tuple(section for section in sections if section.heading or section.pieces)


def _lines(pieces: Pieces) -> Iterator[list[str | Slot]]:
    """The pieces line by line, each with the break at its end."""
    line: list[str | Slot] = []
    for piece in pieces:
        if isinstance(piece, Slot):
            line.append(piece)
            continue
        first, *rest = piece.split("\n")
        for part in rest:
            line.append(first + "\n")
            yield line
            line, first = [], part
        if first:
            line.append(first)
    if line:
        yield line


def places_of(sections: tuple[Section, ...]) -> tuple[Place, ...]:
    """For every slot, in the order in which they stand."""
    return tuple(
        place
        for section in sections
        for line in _lines((*section.heading, *section.pieces))
        for place in _places(line)
    )


def _places(line: list[str | Slot]) -> Iterator[Place]:
    first = line[0] if isinstance(line[0], str) else ""
    for index, piece in enumerate(line):
        if isinstance(piece, Slot):
            before = line[index - 1] if index else ""
            after = line[index + 1] if index + 1 < len(line) else ""
            yield _place(first, before, after, is_second=index <= 1, is_last=index + 2 >= len(line))


def _place(
    first: str, before: str | Slot, after: str | Slot, *, is_second: bool, is_last: bool
) -> Place:
    if HEADING.match(first):
        return Place("heading")
    if first.lstrip().startswith("|"):
        return Place("cell")
    left = before if isinstance(before, str) else None
    right = after if isinstance(after, str) else None
    if left is not None and right is not None and left.endswith("](") and right.startswith(")"):
        return Place("link")
    if left is not None and right is not None and left.endswith("[") and right.startswith("]("):
        return Place("link text")
    if not is_last or right is None or right.strip():
        return Place("inline")
    lead = LEAD.fullmatch(left) if is_second and left is not None else None
    if lead is None:
        label = LABEL.fullmatch(left) if is_second and left is not None else None
        return Place("labelled", bullet=label[2] or "") if label else Place("open")
    return Place("alone", lead[1], lead[2] or "")
