"""Reads the ruling lines and images drawn on a page."""

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .. import pdfium
from .runs import clamp

#: Pages with more are drawings, where rulings do not help.
MAX_OBJECTS = 20_000
MAX_SEGMENTS = 6_000
MAX_RULINGS = 1_500
#: Points: a path thinner than this is a line.
MAX_LINE_WIDTH = 3.0
MIN_LINE_LENGTH = 4.0
MAX_FORM_DEPTH = 3

Matrix = tuple[float, float, float, float, float, float]
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


class Ruling(NamedTuple):
    """A straight line: `position` is the y of a horizontal or the x of a vertical one."""

    position: float
    start: float
    end: float


class Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float


@dataclass(slots=True)
class Drawings:
    horizontal: list[Ruling] = field(default_factory=list)
    vertical: list[Ruling] = field(default_factory=list)
    images: list[Box] = field(default_factory=list)
    object_count: int = 0
    _segments: int = 0


def read_drawings(page: int, rotation: int) -> Drawings:
    """`rotation`: that of the page's text, which is undone for the drawings too."""
    drawings = Drawings()
    object_count = min(pdfium.count_objects(page), MAX_OBJECTS)
    addresses = (pdfium.get_object(page, number) for number in range(object_count))
    for address, matrix in _walk_objects(addresses, IDENTITY, 0):
        kind = pdfium.object_type(address)
        if kind == pdfium.PATH:
            rulings = len(drawings.horizontal) + len(drawings.vertical)
            if rulings <= MAX_RULINGS and drawings._segments <= MAX_SEGMENTS:
                _add_path(drawings, address, matrix, rotation)
        elif kind == pdfium.PICTURE and (box := _bounds(address, matrix)):
            drawings.images.append(rotate_box(box, rotation))
    drawings.object_count = object_count
    return drawings


def read_images(page: int) -> list[Box]:
    """The boxes of the images on a page, in its own coordinates."""
    object_count = min(pdfium.count_objects(page), MAX_OBJECTS)
    addresses = (pdfium.get_object(page, number) for number in range(object_count))
    boxes = (
        _bounds(address, matrix)
        for address, matrix in _walk_objects(addresses, IDENTITY, 0)
        if pdfium.object_type(address) == pdfium.PICTURE
    )
    return [box for box in boxes if box is not None]


def _walk_objects(
    addresses: Iterator[int], matrix: Matrix, depth: int
) -> Iterator[tuple[int, Matrix]]:
    """Yield all page objects, including those nested in form XObjects."""
    for address in addresses:
        if not address or pdfium.object_type(address) != pdfium.FORM:
            yield address, matrix
        elif depth < MAX_FORM_DEPTH:
            object_count = min(pdfium.count_form_objects(address), MAX_OBJECTS)
            inner = (pdfium.get_form_object(address, number) for number in range(object_count))
            yield from _walk_objects(inner, _multiply(_matrix(address), matrix), depth + 1)


def _matrix(address: int) -> Matrix:
    numbers = pdfium.floats(6)
    pdfium.object_matrix(address, numbers)
    a, b, c, d, e, f = map(clamp, numbers)
    return a, b, c, d, e, f


def _multiply(inner: Matrix, outer: Matrix) -> Matrix:
    a, b, c, d, e, f = inner
    x, y = _transform(e, f, outer)
    return (
        a * outer[0] + b * outer[2], a * outer[1] + b * outer[3],
        c * outer[0] + d * outer[2], c * outer[1] + d * outer[3],
        x, y,
    )  # fmt: skip


def _transform(x: float, y: float, matrix: Matrix) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return clamp(a * x + c * y + e), clamp(b * x + d * y + f)


def _bounds(address: int, matrix: Matrix) -> Box | None:
    sides = pdfium.floats(4)
    base = ctypes.addressof(sides)
    if not pdfium.object_bounds(address, base, base + 4, base + 8, base + 12):
        return None
    left, bottom, right, top = map(clamp, sides)
    if matrix is IDENTITY:
        return Box(left, bottom, right, top)
    return _hull(*(_transform(x, y, matrix) for x in (left, right) for y in (bottom, top)))


def _hull(*points: tuple[float, float]) -> Box:
    return Box(*map(min, *points), *map(max, *points))


def rotate_box(box: Box, rotation: int) -> Box:
    left, bottom, right, top = box
    if rotation == 0:
        return box
    if rotation == 2:
        return Box(-right, -top, -left, -bottom)
    return Box(bottom, -right, top, -left) if rotation == 1 else Box(-top, left, -bottom, right)


def _add_path(drawings: Drawings, address: int, matrix: Matrix, rotation: int) -> None:
    bounds = _bounds(address, matrix)
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.path_mode(address, ctypes.addressof(fill), ctypes.addressof(stroke))
    if bounds is None or not (fill.value or stroke.value):
        return
    lines: Iterable[Box] = [bounds]
    if min(bounds.right - bounds.left, bounds.top - bounds.bottom) > MAX_LINE_WIDTH:
        lines = _line_segments(drawings, address, _multiply(_matrix(address), matrix))
    for box in (rotate_box(line, rotation) for line in lines):
        width, height = box.right - box.left, box.top - box.bottom
        if height <= MAX_LINE_WIDTH and width >= MIN_LINE_LENGTH:
            drawings.horizontal.append(Ruling((box.top + box.bottom) / 2, box.left, box.right))
        elif width <= MAX_LINE_WIDTH and height >= MIN_LINE_LENGTH:
            drawings.vertical.append(Ruling((box.left + box.right) / 2, box.bottom, box.top))


def _line_segments(drawings: Drawings, address: int, matrix: Matrix) -> Iterator[Box]:
    object_count = pdfium.path_segments(address)
    if object_count > MAX_SEGMENTS:
        return
    drawings._segments += object_count
    buffer = pdfium.floats(2)
    to_x = ctypes.addressof(buffer)
    start = previous = (0.0, 0.0)
    for number in range(object_count):
        segment = pdfium.path_segment(address, number)
        pdfium.segment_point(segment, to_x, to_x + 4)
        point = _transform(clamp(buffer[0]), clamp(buffer[1]), matrix)
        kind = pdfium.segment_type(segment)
        if kind == pdfium.MOVE:
            start = point
        elif kind == pdfium.LINE:
            yield _hull(previous, point)
        if pdfium.segment_close(segment):
            yield _hull(point, start)
        previous = point
