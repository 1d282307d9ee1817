"""When two small pictures show the same slide, or one a part of the other."""

import base64
import zlib
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ..core.errors import FileTooLarge
from .ffmpeg import opening, run
from .recording import PictureTrack
from .slides import Candidate, Slide

#: Of the small pictures. One pixel is 10 x 10 of a video of 1080 lines: less than a word.
WIDTH, HEIGHT = 192, 108
#: Small pictures a second. To decode is what takes time; to take more of what is decoded does not.
RATE = 4
#: 8K. A decoder may hold 17 pictures of this size, which is 900 MB.
MAX_PIXELS = 8192 * 4608

Frame = NDArray[numpy.uint8]


def small_frames(
    path: str,
    track: PictureTrack,
    start_s: float,
    count: int,
    *,
    timeout_s: float,
    program: str | None,
) -> Frame:
    """What is to be seen at the start and each `1 / RATE` seconds later: fewer at the end."""
    arguments = [
        # Frames that no other frame needs are skipped: half the time, and changes 0.1 s late.
        *_opened(path, track, start_s, "-skip_frame", "noref"),
        *("-vf", f"{_shown(RATE, 0.0, count)},scale={WIDTH}:{HEIGHT}:flags=area,format=gray"),
        *("-f", "rawvideo", "pipe:1"),
    ]
    content = _written(arguments, timeout_s, program)
    size = WIDTH * HEIGHT
    whole = min(count, len(content) // size)
    return numpy.frombuffer(content, numpy.uint8, whole * size).reshape(whole, HEIGHT, WIDTH)


def one_frame(
    path: str,
    track: PictureTrack,
    at_s: float,
    *,
    can_seek: bool,
    max_side: int,
    timeout_s: float,
    program: str | None,
) -> bytes:
    """What is to be seen at a time as a PPM file, upright and with square pixels, or nothing.

    Without a seek all before it is decoded: slow, but right where the file's times are wrong."""
    # Pixels that are not square are stretched; 0 stands for a proportion that the file leaves open.
    sar = "if(sar\\,clip(sar\\,0.1\\,10)\\,1)"
    wide, high = f"(iw*max({sar}\\,1))", f"(ih/min({sar}\\,1))"
    fit = f"min(1\\,{max_side}/max({wide}\\,{high}))"
    scale = ":".join(f"max(1\\,round({side}*{fit}))" for side in (wide, high))
    first = _shown(50, 0.0 if can_seek else at_s, 1)
    arguments = [
        # ffmpeg turns a picture by itself where the file says so.
        *_opened(path, track, at_s if can_seek else 0.0),
        *("-vf", f"{first},scale={scale}:flags=bicubic,setsar=1,format=rgb24"),
        *("-c:v", "ppm", "-f", "image2pipe", "pipe:1"),
    ]
    return bytes(_written(arguments, timeout_s, program))


def _shown(rate: int, start_s: float, count: int) -> str:
    """Filters that give so many frames, from a time on: one that stands for long is repeated."""
    # Cut off here and not when written: in a gap of a year there are very many to be scaled.
    return f"fps={rate}:start_time={start_s:.3f},trim=end_frame={count}"


def _opened(path: str, track: PictureTrack, start_s: float, *options: str) -> list[str]:
    if track.width * track.height > MAX_PIXELS:
        raise FileTooLarge(
            f"The pictures of the video have {track.width} x {track.height} pixels",
            limit_pixels=MAX_PIXELS,
        )
    # A frame may stand for minutes. An accurate seek would drop it, for having begun before.
    place = ("-noaccurate_seek", "-ss", f"{start_s:.3f}")
    # Other windows have the other cores: threads would take memory, and save no time in all.
    options = ("-max_pixels", str(MAX_PIXELS), *options, *place)
    return [
        *opening(path, threads=1, options=options),
        *("-map", f"0:{track.stream}", "-filter_threads", "1", "-max_error_rate", "1"),
    ]


def _written(arguments: list[str], timeout_s: float, program: str | None) -> bytearray:
    """As much as there is: of what is damaged a part can often be shown."""
    content = bytearray()
    run(arguments, timeout_s=timeout_s, program=program, level="quiet", take=content.extend)
    return content


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
