"""What is drawn on a page beside its text: rulings, and how much of it pictures cover."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .. import pdfium
from .runs import near

#: A page with more is a drawing: what else there is does not help to read it.
MOST_OBJECTS = 20_000
MOST_SEGMENTS = 6_000
MOST_RULINGS = 1_500
#: Points: a path thinner than this is a line.
THIN = 3.0
SHORTEST = 4.0
DEEPEST_FORM = 3

Matrix = tuple[float, float, float, float, float, float]
UPRIGHT: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


class Ruling(NamedTuple):
    """A line across (`at` is its height) or a line down (`at` is its distance from the left)."""

    at: float
    start: float
    end: float


class Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float


@dataclass(slots=True)
class Drawings:
    across: list[Ruling] = field(default_factory=list)
    down: list[Ruling] = field(default_factory=list)
    pictures: list[Box] = field(default_factory=list)
    count: int = 0
    _segments: int = 0

    @property
    def full(self) -> bool:
        return len(self.across) + len(self.down) > MOST_RULINGS or self._segments > MOST_SEGMENTS


def read_drawings(page: int, quarter: int) -> Drawings:
    """`quarter`: how far the text of the page is turned, and with it what is drawn."""
    found = Drawings()
    count = min(pdfium.count_objects(page), MOST_OBJECTS)
    addresses = (pdfium.get_object(page, number) for number in range(count))
    for address, matrix in _flat(addresses, UPRIGHT, 0):
        kind = pdfium.object_type(address)
        if kind == pdfium.PATH and not found.full:
            _add_path(found, address, matrix, quarter)
        elif kind == pdfium.PICTURE:
            box = _bounds(address, matrix)
            if box:
                found.pictures.append(turned_box(box, quarter))
    found.count = count
    return found


def _flat(addresses: Iterator[int], matrix: Matrix, depth: int) -> Iterator[tuple[int, Matrix]]:
    """Forms are drawings within drawings."""
    for address in addresses:
        if not address or pdfium.object_type(address) != pdfium.FORM:
            yield address, matrix
        elif depth < DEEPEST_FORM:
            count = min(pdfium.count_form_objects(address), MOST_OBJECTS)
            inner = (pdfium.get_form_object(address, number) for number in range(count))
            yield from _flat(inner, _product(_matrix(address), matrix), depth + 1)


def _matrix(address: int) -> Matrix:
    numbers = pdfium.floats(6)
    pdfium.object_matrix(address, numbers)
    a, b, c, d, e, f = map(near, numbers)
    return a, b, c, d, e, f


def _product(inner: Matrix, outer: Matrix) -> Matrix:
    a, b, c, d, e, f = inner
    x, y = _moved(e, f, outer)
    return (
        a * outer[0] + b * outer[2], a * outer[1] + b * outer[3],
        c * outer[0] + d * outer[2], c * outer[1] + d * outer[3],
        x, y,
    )  # fmt: skip


def _moved(x: float, y: float, matrix: Matrix) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return near(a * x + c * y + e), near(b * x + d * y + f)


def _bounds(address: int, matrix: Matrix) -> Box | None:
    sides = pdfium.floats(4)
    base = ctypes.addressof(sides)
    if not pdfium.object_bounds(address, base, base + 4, base + 8, base + 12):
        return None
    left, bottom, right, top = map(near, sides)
    if matrix is UPRIGHT:
        return Box(left, bottom, right, top)
    corners = [_moved(x, y, matrix) for x in (left, right) for y in (bottom, top)]
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    return Box(min(xs), min(ys), max(xs), max(ys))


def turned_box(box: Box, quarter: int) -> Box:
    left, bottom, right, top = box
    if quarter == 0:
        return box
    if quarter == 1:
        return Box(bottom, -right, top, -left)
    if quarter == 2:
        return Box(-right, -top, -left, -bottom)
    return Box(-top, left, -bottom, right)


def _add_path(found: Drawings, address: int, matrix: Matrix, quarter: int) -> None:
    bounds = _bounds(address, matrix)
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.path_mode(address, ctypes.addressof(fill), ctypes.addressof(stroke))
    if bounds is None or not (fill.value or stroke.value):
        return
    box = turned_box(bounds, quarter)
    width, height = box.right - box.left, box.top - box.bottom
    if width <= THIN or height <= THIN:
        _add_ruling(found, box)
        return
    for line in _straight_lines(found, address, _product(_matrix(address), matrix)):
        _add_ruling(found, turned_box(line, quarter))


def _add_ruling(found: Drawings, box: Box) -> None:
    width, height = box.right - box.left, box.top - box.bottom
    if height <= THIN and width >= SHORTEST:
        found.across.append(Ruling((box.top + box.bottom) / 2, box.left, box.right))
    elif width <= THIN and height >= SHORTEST:
        found.down.append(Ruling((box.left + box.right) / 2, box.bottom, box.top))


def _straight_lines(found: Drawings, address: int, matrix: Matrix) -> Iterator[Box]:
    count = pdfium.path_segments(address)
    if count > MOST_SEGMENTS:
        return
    found._segments += count
    point = pdfium.floats(2)
    to_x = ctypes.addressof(point)
    begun = before = (0.0, 0.0)
    for number in range(count):
        segment = pdfium.path_segment(address, number)
        pdfium.segment_point(segment, to_x, to_x + 4)
        here = _moved(near(point[0]), near(point[1]), matrix)
        kind = pdfium.segment_type(segment)
        if kind == pdfium.MOVE:
            begun = here
        elif kind == pdfium.LINE:
            yield _box(before, here)
        if pdfium.segment_close(segment):
            yield _box(here, begun)
        before = here


def _box(a: tuple[float, float], b: tuple[float, float]) -> Box:
    return Box(min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1]))
