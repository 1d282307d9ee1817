"""Compares thumbnails of video frames: what moves, and whether two of them show the same slide.
docs/explanation/slides.md has the measurements behind the thresholds."""

import base64
import zlib
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from .slides import Slide, SlideCandidate

#: Pixels of a thumbnail; one stands for 10 x 10 of a 1080p video, less than a word.
WIDTH, HEIGHT = 192, 108
#: Thumbnails per second. Decoding takes the time; taking more of what is decoded does not.
FRAME_RATE = 4
#: Pixels of a block, the unit in which motion is detected.
BLOCK = 12
ROWS, COLUMNS = HEIGHT // BLOCK, WIDTH // BLOCK

Frame = NDArray[numpy.uint8]
Blocks = NDArray[numpy.bool_]
Pixels = NDArray[numpy.bool_]

# Motion -----------------------------------------------------------------------------------------

#: A pixel that changes by less was only encoded again.
MOTION_DIFFERENCE = 10
#: Changed pixels that make a block a moving one.
MOTION_PIXELS = 2
#: Frames for which a block has to stand still to belong to a slide.
STILL_FRAMES = round(1.5 * FRAME_RATE)
#: Seconds to look ahead for blocks that are always in motion.
LOOK_AHEAD_S = 12
#: Near the end of the video, at least this many seconds count, even if they are past.
MIN_LOOK_AHEAD_S = 6
#: If a larger share of the frame is in motion, it is a filmed scene and not a slide.
SCENE_SHARE = 0.6
#: A block with motion in this share of half seconds is always in motion; its neighbours need less.
LIVELY_SHARE, LIVELY_NEIGHBOUR_SHARE = 0.4, 0.12
#: More half seconds with motion than slides in quick succession cause.
MIN_LIVELY_HALF_SECONDS = 6


def detect_motion(frames: Frame) -> tuple[Blocks, Blocks]:
    """Return for each frame which blocks stand still, and which are always in motion."""
    count = len(frames)
    moving = numpy.zeros((count + STILL_FRAMES, ROWS, COLUMNS), numpy.bool_)
    for index in range(1, count):
        moving[index] = _moved(frames[index - 1], frames[index])
    still = numpy.zeros((count, ROWS, COLUMNS), numpy.bool_)
    for index in range(max(1, count - STILL_FRAMES + 1)):
        later = frames[min(index + STILL_FRAMES, count - 1)]
        rests = ~moving[index + 1 : index + 1 + STILL_FRAMES].any(axis=0)
        # A slow fade shows only over several frames.
        still[index] = rests & ~_moved(frames[index], later)
    return still, _lively(moving[:count])


def _moved(before: Frame, after: Frame) -> Blocks:
    pixels = numpy.maximum(before, after) - numpy.minimum(before, after) > MOTION_DIFFERENCE
    return _count_in_blocks(pixels) >= MOTION_PIXELS


def _count_in_blocks(pixels: Pixels) -> NDArray[numpy.int64]:
    counts: NDArray[numpy.int64] = pixels.reshape(ROWS, BLOCK, COLUMNS, BLOCK).sum(axis=(1, 3))
    return counts


def _lively(moving: Blocks) -> Blocks:
    """Slides may change every three seconds; a speaker moves in more seconds than not."""
    lively = numpy.zeros_like(moving)
    half = FRAME_RATE // 2
    for index in range(len(moving)):
        first = max(1, min(index + 1, len(moving) - MIN_LOOK_AHEAD_S * FRAME_RATE))
        ahead = moving[first : first + LOOK_AHEAD_S * FRAME_RATE]
        halves = [ahead[start : start + half].any(axis=0) for start in range(0, len(ahead), half)]
        if len(halves) >= MIN_LIVELY_HALF_SECONDS:
            count = numpy.sum(halves, axis=0)
            core = count >= max(MIN_LIVELY_HALF_SECONDS, LIVELY_SHARE * len(halves))
            lively[index] = _grow(core, count >= LIVELY_NEIGHBOUR_SHARE * len(halves))
            if lively[index].mean() > SCENE_SHARE:  # a scene may start with a slide
                lively[index] &= numpy.any(halves[:MIN_LIVELY_HALF_SECONDS], axis=0)
    return lively


def _grow(core: Blocks, allowed: Blocks) -> Blocks:
    """Extend the core by adjacent allowed blocks."""
    if not core.any():
        return core
    while True:
        padded = numpy.pad(core, 1)
        near = numpy.zeros_like(core)
        for row in range(3):
            for column in range(3):
                near |= padded[row : row + ROWS, column : column + COLUMNS]
        grown = core | (near & allowed)
        if (grown == core).all():
            return grown
        core = grown


# Comparison -------------------------------------------------------------------------------------

#: How much a pixel has to differ.
DIFFERENCE = 14
#: Different pixels that make another slide. A mouse pointer has fewer, a word twice as many.
DIFFERENT_PIXELS = 10
#: If the mean of a block differs by more than this, so do enough of its pixels: no need to count.
DIFFERENT_BLOCK = (DIFFERENT_PIXELS * 255 + BLOCK**2 * DIFFERENCE) / BLOCK**2
#: The range of grey around a pixel that belongs to text or a drawing, not to the background.
INK_CONTRAST = 20
#: The share of a slide's ink that may change during a build-up: lines are close to each other.
BUILD_UP_TOLERANCE = 0.15
#: A frame with less ink is blank.
BLANK_PIXELS = 6
#: How many slides back a build-up is searched for the complete state of a slide.
BUILD_UP_STEPS = 20
#: The mean difference of blocks within one camera shot.
SAME_SHOT = 14.0
#: The mean difference of blocks of the same frame, scaled in two ways.
SAME_FRAME = 6.0


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A thumbnail prepared for comparisons."""

    grey: Frame
    lively: Blocks
    #: The mean of each block.
    block_means: NDArray[numpy.float64]
    #: Pixels that belong to text or a drawing.
    ink: Pixels


def pack_grey(grey: Frame) -> str:
    return base64.b64encode(zlib.compress(grey.tobytes(), 6)).decode()


def pack_blocks(blocks: Blocks) -> str:
    return numpy.packbits(blocks).tobytes().hex()


def unpack_thumbnail(slide: SlideCandidate | Slide) -> Thumbnail:
    content = zlib.decompress(base64.b64decode(slide.grey))
    grey = numpy.frombuffer(content, numpy.uint8).reshape(HEIGHT, WIDTH)
    return Thumbnail(grey, unpack_blocks(slide.lively), _block_means(grey), _ink(grey))


def unpack_blocks(packed: str) -> Blocks:
    bits = numpy.unpackbits(numpy.frombuffer(bytes.fromhex(packed), numpy.uint8))
    return bits[: ROWS * COLUMNS].reshape(ROWS, COLUMNS).astype(numpy.bool_)


def _block_means(grey: Frame) -> NDArray[numpy.float64]:
    means: NDArray[numpy.float64] = grey.reshape(ROWS, BLOCK, COLUMNS, BLOCK).mean(axis=(1, 3))
    return means


def _ink(grey: Frame) -> Pixels:
    high, low = grey.copy(), grey.copy()
    for axis in (0, 1):
        for near, here in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
            at = (here, slice(None)) if axis == 0 else (slice(None), here)
            of = (near, slice(None)) if axis == 0 else (slice(None), near)
            high[at] = numpy.maximum(high[at], grey[of])
            low[at] = numpy.minimum(low[at], grey[of])
    ink: Pixels = high - low > INK_CONTRAST
    return ink


class ThumbnailIndex:
    """Finds a thumbnail among many."""

    def __init__(self, capacity: int) -> None:
        self._thumbnails: list[Thumbnail] = []
        self._block_means = numpy.zeros((capacity, ROWS, COLUMNS), numpy.float32)
        self._lively = numpy.zeros((capacity, ROWS, COLUMNS), numpy.bool_)

    def add(self, thumbnail: Thumbnail) -> None:
        self._block_means[len(self._thumbnails)] = thumbnail.block_means
        self._lively[len(self._thumbnails)] = thumbnail.lively
        self._thumbnails.append(thumbnail)

    def contains(self, thumbnail: Thumbnail) -> bool:
        """Whether the same slide, or a later step of its build-up, was added before."""
        count = len(self._thumbnails)
        differs = numpy.abs(self._block_means[:count] - thumbnail.block_means) > DIFFERENT_BLOCK
        differs &= ~(self._lively[:count] | thumbnail.lively)
        similar = numpy.flatnonzero(~differs.any(axis=(1, 2)))
        return any(
            is_same(thumbnail, self._thumbnails[index]) for index in similar.tolist()
        ) or any(is_part(thumbnail, other) for other in self._thumbnails[-BUILD_UP_STEPS:])


def is_same(one: Thumbnail, other: Thumbnail) -> bool:
    return not is_change(changed_pixels(one, other))


def is_change(pixels: Pixels) -> bool:
    """Whether enough changed pixels are close together: a pointer leaves two small traces."""
    if numpy.count_nonzero(pixels) >= DIFFERENT_PIXELS * ROWS * COLUMNS:
        return True
    counts = numpy.zeros((ROWS + 1, COLUMNS + 1), numpy.int64)
    counts[:-1, :-1] = _count_in_blocks(pixels)
    near = counts[:-1, :-1] + counts[1:, :-1] + counts[:-1, 1:] + counts[1:, 1:]
    return int(near.max()) >= DIFFERENT_PIXELS


def is_part(part: Thumbnail, whole: Thumbnail) -> bool:
    """Whether the second shows everything that is on the first, and maybe more: a build-up."""
    changed = changed_pixels(part, whole)
    # Only where something changed: the room around a projection screen is the same on all slides.
    ink = part.ink & over_pixels((_count_in_blocks(changed) > 0) & ~(part.lively | whole.lively))
    lost = int((changed & ink).sum())
    return lost <= BUILD_UP_TOLERANCE * int(changed.sum()) and lost <= BUILD_UP_TOLERANCE * int(
        ink.sum()
    )


def is_same_shot(one: Thumbnail, other: Thumbnail) -> bool:
    return float(numpy.abs(one.block_means - other.block_means).mean()) < SAME_SHOT


def is_roughly_same(grey: Frame, thumbnail: Thumbnail) -> bool:
    """Whether a frame that was scaled differently is the same, apart from the blocks in motion."""
    difference = numpy.abs(_block_means(grey) - thumbnail.block_means)[~thumbnail.lively]
    return not difference.size or float(difference.mean()) < SAME_FRAME


def is_blank(thumbnail: Thumbnail) -> bool:
    return int((thumbnail.ink & over_pixels(~thumbnail.lively)).sum()) < BLANK_PIXELS


def changed_pixels(one: Thumbnail, other: Thumbnail) -> Pixels:
    return different_pixels(one.grey, other.grey) & over_pixels(~(one.lively | other.lively))


def different_pixels(one: Frame, other: Frame) -> Pixels:
    different: Pixels = numpy.maximum(one, other) - numpy.minimum(one, other) > DIFFERENCE
    return different


def over_pixels(blocks: Blocks) -> Pixels:
    return blocks.repeat(BLOCK, axis=0).repeat(BLOCK, axis=1)
