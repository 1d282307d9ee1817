"""When two small pictures show the same slide, or one a part of the other."""

import base64
import zlib
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from .picture_stream import HEIGHT, WIDTH, Frame
from .slides import Candidate, Slide
from .stillness import BLOCK, COLUMNS, ROWS, Blocks, in_blocks, over_pixels

#: By how much a pixel must differ; docs/explanation/slides.md has the figures.
DIFFERENT = 14
#: How many of them make another slide: fewer may be a mouse pointer. A word is twice as much.
DIFFERENT_PIXELS = 10
#: A block whose mean differs by more has more different pixels than that, whatever it shows: it
#: spares to look at them.
DIFFERENT_BLOCK = (DIFFERENT_PIXELS * 255 + BLOCK**2 * DIFFERENT) / BLOCK**2
#: The range of grey around a pixel that is part of something, not of a background.
INK = 20
#: What of a slide's ink may change while it is built up: lines are close to each other.
TOUCHED = 0.15
#: A picture with less ink is blank.
BLANK_PIXELS = 6
#: Among so many slides before, one may be the fuller state of a slide that is turned back to.
STEPS_BACK = 20
#: The mean difference of blocks within one shot of a camera.
SAME_SHOT = 14.0

#: Of one picture that was scaled in two ways.
SAME_PICTURE = 6.0

Pixels = NDArray[numpy.bool_]


@dataclass(frozen=True, slots=True)
class Sight:
    """A candidate's picture, ready to be compared."""

    grey: Frame
    lively: Blocks
    #: The mean of each block.
    coarse: NDArray[numpy.float64]
    #: Where something is, and not only background.
    ink: Pixels


def packed_grey(grey: Frame) -> str:
    return base64.b64encode(zlib.compress(grey.tobytes(), 6)).decode()


def packed_blocks(blocks: Blocks) -> str:
    return numpy.packbits(blocks).tobytes().hex()


def sight_of(candidate: Candidate | Slide) -> Sight:
    content = zlib.decompress(base64.b64decode(candidate.grey))
    grey = numpy.frombuffer(content, numpy.uint8).reshape(HEIGHT, WIDTH)
    return Sight(grey, unpacked_blocks(candidate.lively), _coarse(grey), _ink(grey))


def unpacked_blocks(packed: str) -> Blocks:
    bits = numpy.unpackbits(numpy.frombuffer(bytes.fromhex(packed), numpy.uint8))
    return bits[: ROWS * COLUMNS].reshape(ROWS, COLUMNS).astype(numpy.bool_)


def is_same(one: Sight, other: Sight) -> bool:
    return not is_change(changes(one, other))


class Gallery:
    """Many slides, among which one is looked for."""

    def __init__(self, room: int) -> None:
        self._sights: list[Sight] = []
        self._coarse = numpy.zeros((room, ROWS, COLUMNS), numpy.float32)
        self._lively = numpy.zeros((room, ROWS, COLUMNS), numpy.bool_)

    def add(self, sight: Sight) -> None:
        self._coarse[len(self._sights)] = sight.coarse
        self._lively[len(self._sights)] = sight.lively
        self._sights.append(sight)

    def shows(self, sight: Sight) -> bool:
        """A slide that differs by a line is another."""
        count = len(self._sights)
        apart = numpy.abs(self._coarse[:count] - sight.coarse) > DIFFERENT_BLOCK
        apart &= ~(self._lively[:count] | sight.lively)
        alike = numpy.flatnonzero(~apart.any(axis=(1, 2)))
        return any(is_same(sight, self._sights[index]) for index in alike.tolist()) or any(
            is_part(sight, one) for one in self._sights[-STEPS_BACK:]
        )


def is_change(pixels: Pixels) -> bool:
    """Whether enough of them are near each other. A pointer that moves leaves two small traces."""
    if numpy.count_nonzero(pixels) >= DIFFERENT_PIXELS * ROWS * COLUMNS:
        return True
    counts = numpy.zeros((ROWS + 1, COLUMNS + 1), numpy.int64)
    counts[:-1, :-1] = in_blocks(pixels)
    near = counts[:-1, :-1] + counts[1:, :-1] + counts[:-1, 1:] + counts[1:, 1:]
    return int(near.max()) >= DIFFERENT_PIXELS


def is_part(part: Sight, whole: Sight) -> bool:
    """Whether all that the first shows is on the second too, which may show more: a build-up."""
    changed = changes(part, whole)
    # Only there: what stays elsewhere, such as the hall around a screen, tells nothing of it.
    ink = part.ink & over_pixels((in_blocks(changed) > 0) & ~(part.lively | whole.lively))
    lost = int((changed & ink).sum())
    return lost <= TOUCHED * int(changed.sum()) and lost <= TOUCHED * int(ink.sum())


def is_same_shot(one: Sight, other: Sight) -> bool:
    difference = numpy.abs(one.coarse - other.coarse)
    return float(difference.mean()) < SAME_SHOT


def is_roughly(grey: Frame, sight: Sight) -> bool:
    """Whether a picture that was scaled in another way is this one, apart from what never rests."""
    difference = numpy.abs(_coarse(grey) - sight.coarse)[~sight.lively]
    return not difference.size or float(difference.mean()) < SAME_PICTURE


def is_blank(sight: Sight) -> bool:
    return int((sight.ink & over_pixels(~sight.lively)).sum()) < BLANK_PIXELS


def differing(one: Frame, other: Frame) -> Pixels:
    changed: Pixels = numpy.maximum(one, other) - numpy.minimum(one, other) > DIFFERENT
    return changed


def changes(one: Sight, other: Sight) -> Pixels:
    return differing(one.grey, other.grey) & over_pixels(~(one.lively | other.lively))


def _ink(grey: Frame) -> Pixels:
    high, low = grey.copy(), grey.copy()
    for axis in (0, 1):
        for near, here in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
            at = (here, slice(None)) if axis == 0 else (slice(None), here)
            of = (near, slice(None)) if axis == 0 else (slice(None), near)
            high[at] = numpy.maximum(high[at], grey[of])
            low[at] = numpy.minimum(low[at], grey[of])
    ink: Pixels = high - low > INK
    return ink


def _coarse(grey: Frame) -> NDArray[numpy.float64]:
    means: NDArray[numpy.float64] = grey.reshape(ROWS, BLOCK, COLUMNS, BLOCK).mean(axis=(1, 3))
    return means
