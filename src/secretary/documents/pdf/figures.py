"""Finds the figures on a page, which are one or several images, and their places in the text."""

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pypdfium2
import pypdfium2.raw as raw
from PIL import Image

from ..pages import Figure, PageStore, figure_file, save_figure
from . import pdfium
from .layout.blocks import Block, BlockKind
from .layout.drawings import Box, read_images, rotate_box

#: Points: images this close together are parts of one figure.
MAX_GAP = 2.0
#: Points: anything smaller is a bullet, an icon or a line.
MIN_SIDE = 18.0
#: Share of the page above which an image is the scan of the page, or its background.
PAGE_COVERAGE = 0.65
#: Pages with more images are drawings made of them.
MAX_IMAGES = 400


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A figure in the coordinates of its page."""

    file: str
    box: Box
    fills_page: bool


def find_figures(page: pypdfium2.PdfPage, number: int) -> list[PageFigure]:
    """The figures of a page, from top to bottom."""
    left, bottom, right, top = page.get_bbox()
    area = (right - left) * (top - bottom)
    boxes = []
    for image in read_images(pdfium.handle(page))[:MAX_IMAGES]:
        box = Box(
            max(image.left, left),
            max(image.bottom, bottom),
            min(image.right, right),
            min(image.top, top),
        )
        if box.left < box.right and box.bottom < box.top:
            boxes.append(box)
    figures = [
        box
        for box in _merge_boxes(boxes)
        if min(box.right - box.left, box.top - box.bottom) >= MIN_SIDE
    ]
    figures.sort(key=lambda box: (-box.top, box.left))
    return [
        PageFigure(figure_file(number, index), box, _area(box) >= PAGE_COVERAGE * area)
        for index, box in enumerate(figures)
    ]


def _merge_boxes(boxes: Iterable[Box]) -> list[Box]:
    """Merge boxes that overlap or touch: programs cut large images into strips and tiles."""
    merged: list[Box] = []
    for box in boxes:
        while touching := next((other for other in merged if _touch(box, other)), None):
            merged.remove(touching)
            box = Box(
                min(box.left, touching.left),
                min(box.bottom, touching.bottom),
                max(box.right, touching.right),
                max(box.top, touching.top),
            )
        merged.append(box)
    return merged


def _touch(one: Box, other: Box) -> bool:
    return (
        one.left - MAX_GAP <= other.right
        and other.left - MAX_GAP <= one.right
        and one.bottom - MAX_GAP <= other.top
        and other.bottom - MAX_GAP <= one.top
    )


def _area(box: Box) -> float:
    return (box.right - box.left) * (box.top - box.bottom)


def save_figures(
    page: pypdfium2.PdfPage,
    image: Image.Image,
    figures: Sequence[PageFigure],
    page_store: PageStore,
) -> tuple[Figure, ...]:
    """Cut the figures out of the rendered page: as readers see them, with masks, labels and all
    that is drawn over them."""
    saved = []
    for figure in figures:
        corners = [
            _to_pixels(page, image.size, x, y)
            for x, y in (figure.box[:2], figure.box[2:])
        ]  # fmt: skip
        left, right = sorted(max(0, min(x, image.width)) for x, _ in corners)
        top, bottom = sorted(max(0, min(y, image.height)) for _, y in corners)
        if left < right and top < bottom:
            save_figure(page_store, figure.file, image.crop((left, top, right, bottom)))
            saved.append(Figure(figure.file, left, top, right, bottom))
    return tuple(saved)


def _to_pixels(
    page: pypdfium2.PdfPage, size: tuple[int, int], x: float, y: float
) -> tuple[int, int]:
    """Convert coordinates of the page, which may be rotated and cropped."""
    pixel_x, pixel_y = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, pixel_x, pixel_y)
    return pixel_x.value, pixel_y.value


def place_figures(blocks: list[Block], figures: Iterable[PageFigure], rotation: int) -> list[Block]:
    """Insert the figures into blocks in reading order: each below the text that is above it in the
    same column. `rotation` is that of the text."""
    extents = [_extent(block) for block in blocks]
    places: list[list[Block]] = [[] for _ in range(len(blocks) + 1)]
    for figure in figures:
        box = rotate_box(figure.box, rotation)
        places[_place(box, extents)].append(Block(BlockKind.FIGURE, file=figure.file))
    placed = places[0]
    for block, following in zip(blocks, places[1:], strict=True):
        placed += [block, *following]
    return placed


def _place(box: Box, extents: Sequence[Box]) -> int:
    """The number of blocks before the figure."""
    middle = (box.bottom + box.top) / 2
    beside = [
        number
        for number, extent in enumerate(extents)
        if extent.left < box.right and box.left < extent.right
    ]
    for numbers in (beside, range(len(extents))):
        above = [number for number in numbers if extents[number].bottom >= middle]
        if above:
            return min(above, key=lambda number: (extents[number].bottom, -number)) + 1
        if numbers:
            return max(numbers, key=lambda number: (extents[number].top, -number))
    return 0


def _extent(block: Block) -> Box:
    if (table := block.table) is not None:
        return Box(table.left, table.bottom, table.right, table.top)
    lines = block.lines
    return Box(
        min(line.left for line in lines),
        min(line.baseline for line in lines),
        max(line.right for line in lines),
        max(line.baseline + line.size for line in lines),
    )
