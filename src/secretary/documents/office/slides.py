"""What slides have in common in all formats: titles, notes and reading order."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from .blocks import Block, Heading, Item, Paragraph, Run, words


def slide_title(blocks: Sequence[Block]) -> list[Block]:
    """Return the lines of a title as one heading, if they contain text."""
    lines = [block for block in blocks if isinstance(block, Paragraph | Item)]
    content = [inline for line in lines for inline in (*line.content, Run(" "))]
    return [Heading(1, content[:-1])] if words(content).strip() else []


def spoken_notes(blocks: Sequence[Block]) -> list[Block]:
    return [Heading(2, [Run("Notes")]), *blocks] if blocks else []


T = TypeVar("T")


#: Slides with more shapes are sorted by position only.
_MANY = 2000


class Box(NamedTuple):
    left: float
    top: float
    width: float = 0
    height: float = 0


def in_reading_order(shapes: Sequence[tuple[Box | None, T]]) -> list[T]:
    """Sort shapes from top to bottom, and from left to right within a row.

    Columns are read one after the other only if a vertical gap separates them. A shape without a
    position follows its predecessor in the file.
    """
    if len(shapes) > _MANY:
        return [shape for _, shape in sorted(shapes, key=lambda each: _corner(each[0]))]
    placed = [(box, number) for number, (box, _) in enumerate(shapes) if box is not None]
    order = _ordered(placed)
    for number, (box, _) in enumerate(shapes):
        if box is None:
            order.insert(order.index(number - 1) + 1 if number else 0, number)
    return [shapes[number][1] for number in order]


def _corner(box: Box | None) -> tuple[float, float]:
    return (box.top, box.left) if box else (0.0, 0.0)


def _ordered(boxes: list[tuple[Box, int]]) -> list[int]:
    if len(boxes) <= 1:
        return [number for _, number in boxes]
    for horizontal in (False, True):
        groups = _parted(boxes, horizontal=horizontal)
        if len(groups) > 1:
            return [number for group in groups for number in _ordered(group)]
    boxes = sorted(boxes, key=lambda each: (each[0].top, each[0].left))
    return [number for _, number in boxes]


def _parted(boxes: list[tuple[Box, int]], *, horizontal: bool) -> list[list[tuple[Box, int]]]:
    """Group boxes separated by a gap; a slight overlap is tolerated."""

    def span(box: Box) -> tuple[float, float]:
        start, size = (box.left, box.width) if horizontal else (box.top, box.height)
        return start + size * 0.1, start + size * 0.9

    groups: list[list[tuple[Box, int]]] = []
    end = 0.0
    for each in sorted(boxes, key=lambda each: span(each[0])[0]):
        start, stop = span(each[0])
        if groups and start < end:
            groups[-1].append(each)
            end = max(end, stop)
        else:
            groups.append([each])
            end = stop
    return groups
