"""Which parts of a picture stand still, which never rest: told by small frames, in blocks."""

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from .picture_stream import HEIGHT, RATE, WIDTH, Frame

Blocks = NDArray[numpy.bool_]

#: In pixels of the small pictures.
BLOCK = 12
ROWS, COLUMNS = HEIGHT // BLOCK, WIDTH // BLOCK
#: A pixel that changes by less has been coded anew, no more.
MOVED = 10
MOVED_PIXELS = 2
#: What stands for so long can be a slide.
STAND = round(1.5 * RATE)
#: How far to look ahead to know what never rests.
AHEAD_S = 12
#: Where the video ends sooner, what has passed counts too.
LEAST_S = 6
#: Beyond this share of the picture in motion it is a scene, filmed and not shown.
SCENE = 0.6
#: The share of half seconds with motion: this much never rests, this much belongs to what does not.
LIVELY, NEARLY_LIVELY = 0.4, 0.12
#: Of these half seconds there must be more than slides that follow each other quickly can have.
LIVELY_HALVES = 6


@dataclass(frozen=True, slots=True)
class Stillness:
    """For each frame and block."""

    stands: NDArray[numpy.bool_]
    lively: NDArray[numpy.bool_]


def examine(frames: Frame) -> Stillness:
    count = len(frames)
    moving = numpy.zeros((count + STAND, ROWS, COLUMNS), numpy.bool_)
    for index in range(1, count):
        moving[index] = moved(frames[index - 1], frames[index])
    stands = numpy.zeros((count, ROWS, COLUMNS), numpy.bool_)
    for index in range(max(1, count - STAND + 1)):
        later = frames[min(index + STAND, count - 1)]
        # A slow fade shows only in the long run.
        rests = ~moving[index + 1 : index + 1 + STAND].any(axis=0)
        stands[index] = rests & ~moved(frames[index], later)
    return Stillness(stands, _lively(moving[:count]))


def moved(before: Frame, after: Frame) -> Blocks:
    pixels = numpy.maximum(before, after) - numpy.minimum(before, after) > MOVED
    return in_blocks(pixels) >= MOVED_PIXELS


def in_blocks(pixels: NDArray[numpy.bool_]) -> NDArray[numpy.int64]:
    counts: NDArray[numpy.int64] = pixels.reshape(ROWS, BLOCK, COLUMNS, BLOCK).sum(axis=(1, 3))
    return counts


def over_pixels(blocks: Blocks) -> NDArray[numpy.bool_]:
    return blocks.repeat(BLOCK, axis=0).repeat(BLOCK, axis=1)


def _lively(moving: NDArray[numpy.bool_]) -> NDArray[numpy.bool_]:
    """Slides may change every three seconds; a speaker moves in more seconds than not."""
    lively = numpy.zeros_like(moving)
    for index in range(len(moving)):
        first = max(1, min(index + 1, len(moving) - LEAST_S * RATE))
        coming = moving[first : first + AHEAD_S * RATE]
        halves = [
            coming[half : half + RATE // 2].any(axis=0) for half in range(0, len(coming), RATE // 2)
        ]
        if len(halves) >= LIVELY_HALVES:
            count = numpy.sum(halves, axis=0)
            core = count >= max(LIVELY_HALVES, LIVELY * len(halves))
            lively[index] = _grown(core, count >= NEARLY_LIVELY * len(halves))
            if lively[index].mean() > SCENE:  # it may begin with a slide that is shown for a while
                lively[index] &= numpy.any(halves[:LIVELY_HALVES], axis=0)
    return lively


def _grown(core: Blocks, also: Blocks) -> Blocks:
    """The core with what touches it, and is allowed to."""
    if not core.any():
        return core
    while True:
        wide = numpy.pad(core, 1)
        near = numpy.zeros_like(core)
        for row in range(3):
            for column in range(3):
                near |= wide[row : row + ROWS, column : column + COLUMNS]
        grown = core | (near & also)
        if (grown == core).all():
            return grown
        core = grown
