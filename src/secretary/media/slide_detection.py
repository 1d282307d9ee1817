"""Detects the slides of a video: frames that stand still, without build-ups and repetitions.
docs/explanation/slides.md has the measurements behind the thresholds."""

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from PIL import Image

from ..core.errors import FileCorrupt, InvalidParameters
from .probe import VideoTrack
from .slides import MAX_SLIDES, MAX_WINDOW_S, ScannedWindow, Slide, SlideCandidate, decode_frames

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
#: The share of a frame that has to stand still for a slide to start.
MIN_STILL_SHARE = 0.3
#: Frames between two candidates of one scene.
SCENE_STEP = 60 * FRAME_RATE
#: Per window; those that are shown longest are kept.
MAX_CANDIDATES = 60
#: After this many seconds without a change, the encoder has reached its best quality.
SHARP_S = 2.0
#: Minimum seconds between two frames of filmed scenes, and how many a video may have.
SCENE_DISTANCE_S = 60.0
MAX_SCENES = 40
#: Each slide is compared with all before it; those that are shown longest come first.
MAX_COMPARED = 1_000
#: The share of a transition that may be left for it to count as done.
TRANSITION_REST = 0.25

# Scan a window ----------------------------------------------------------------------------------


def scan_window(
    path: str,
    track: VideoTrack,
    start_s: float,
    end_s: float,
    *,
    timeout_s: float = 600.0,
    program: str | None = None,
) -> ScannedWindow:
    """Find slide candidates between two times of a video, the end excluded."""
    if not 0 <= start_s < end_s <= start_s + MAX_WINDOW_S:
        raise InvalidParameters(f"Invalid window: {start_s} to {end_s} seconds")
    frame_count = max(1, round((end_s - start_s) * FRAME_RATE))
    content = decode_frames(
        path,
        track,
        seek_s=start_s,
        rate=FRAME_RATE,
        count=frame_count + LOOK_AHEAD_S * FRAME_RATE,
        filters=f"scale={WIDTH}:{HEIGHT}:flags=area,format=gray",
        output=("-f", "rawvideo"),
        # Skipping frames that no other frame needs halves the time and delays changes by 0.1 s.
        options=("-skip_frame", "noref"),
        timeout_s=timeout_s,
        program=program,
    )
    size = WIDTH * HEIGHT
    decoded = min(frame_count + LOOK_AHEAD_S * FRAME_RATE, len(content) // size)
    if not decoded:
        if start_s:
            return ScannedWindow(start=start_s, end=start_s)
        raise FileCorrupt("The frames of the video cannot be decoded")
    frames = numpy.frombuffer(content, numpy.uint8, decoded * size).reshape(-1, HEIGHT, WIDTH)
    # The last frame stays visible if the audio goes on after the video track has ended.
    missing = max(0, min(STILL_FRAMES, frame_count - decoded))
    frames = numpy.concatenate([frames, frames[-1:].repeat(missing, 0)]) if missing else frames
    last_s = start_s + (decoded - 1) / FRAME_RATE
    candidates = [
        replace(each, at=min(each.at, last_s)) for each in _candidates(frames, start_s, frame_count)
    ]
    merged = sorted((each.candidate for each in _merge(candidates)), key=_duration, reverse=True)
    longest = sorted(merged[:MAX_CANDIDATES], key=lambda candidate: candidate.time)
    end = min(end_s, start_s + decoded / FRAME_RATE)
    return ScannedWindow(start=start_s, end=end, candidates=tuple(longest))


class _State(NamedTuple):
    """What the video shows from a frame on."""

    first_frame: int
    lively: Blocks
    is_scene: bool


def _candidates(frames: Frame, start_s: float, frame_count: int) -> Iterator[SlideCandidate]:
    """Yield every state of the picture, including transitions."""
    states = list(_states(frames))
    if not states:
        states = [_State(0, numpy.zeros((ROWS, COLUMNS), numpy.bool_), True)]
    ends = [state.first_frame for state in states[1:]] + [len(frames)]
    for state, end in zip(states, ends, strict=True):
        if state.first_frame < frame_count:
            duration = (end - state.first_frame) / FRAME_RATE
            time = start_s + state.first_frame / FRAME_RATE
            grey = zlib.compress(frames[state.first_frame].tobytes(), 6)
            yield SlideCandidate(
                time=time,
                end=time + duration,
                at=time + min(SHARP_S, duration / 2),
                grey=base64.b64encode(grey).decode(),
                lively=numpy.packbits(state.lively).tobytes().hex(),
                is_scene=state.is_scene,
            )


def _states(frames: Frame) -> Iterator[_State]:
    all_still, all_lively = detect_motion(frames)
    shown: Frame | None = None
    scene_at: int | None = None
    for index in range(len(frames)):
        frame, lively = frames[index], all_lively[index]
        if lively.mean() > SCENE_SHARE:
            if scene_at is None or index - scene_at >= SCENE_STEP:
                shown, scene_at = None, index
                yield _State(index, lively, True)
            continue
        still = all_still[index] & ~lively
        if shown is None:
            is_new = bool(still.mean() >= MIN_STILL_SHARE)
        else:
            is_new = is_change(different_pixels(shown, frame) & over_pixels(still))
        if is_new:
            shown, scene_at = frame, None
            yield _State(index, lively, False)


def _duration(candidate: SlideCandidate) -> float:
    return candidate.end - candidate.time


# Merge candidates -------------------------------------------------------------------------------


def _merge(candidates: Iterable[SlideCandidate]) -> list["Thumbnail"]:
    """Merge adjacent candidates that show the same slide or steps of its build-up, and drop
    transitions."""
    merged: list[Thumbnail] = []
    for state in _without_transitions([unpack_thumbnail(each) for each in candidates]):
        if merged and (both := _merge_two(merged[-1], state)):
            merged[-1] = both
            continue
        if merged:
            # A window sees the start of the next one, which may detect the change more exactly.
            end = min(merged[-1].candidate.end, state.candidate.time)
            merged[-1] = merged[-1].with_times(end=end)
        merged.append(state)
    return merged


def _without_transitions(states: list["Thumbnail"]) -> list["Thumbnail"]:
    """Drop blank frames and unfinished fades, but never everything."""
    filled = [state for state in states if not is_blank(state)]
    standing: list[Thumbnail] = []
    since: float | None = None
    for state, after in pairwise([*filled, None]):
        assert state is not None
        if since is not None:
            state = state.with_times(time=since)
        since = None
        is_standing = _duration(state.candidate) >= STILL_FRAMES / FRAME_RATE
        if is_standing or (after and is_part(state, after)):
            standing.append(state)
        elif after and standing:
            # If most of a transition was done, what follows only looks sharper.
            remaining = int(changed_pixels(state, after).sum())
            whole = int(changed_pixels(standing[-1], after).sum())
            since = state.candidate.time if remaining <= TRANSITION_REST * whole else None
    return standing or filled[:1] or states[:1]


def _merge_two(before: "Thumbnail", after: "Thumbnail") -> "Thumbnail | None":
    """Return the more complete of both with the time of both, or None if they differ."""
    first, second = before.candidate, after.candidate
    if first.is_scene != second.is_scene:
        return None
    if first.is_scene:
        is_first = is_same_shot(before, after)
    else:
        is_first = is_same(before, after) or is_part(after, before)
    if is_first:
        return before.with_times(end=second.end)
    if not first.is_scene and is_part(before, after):
        return after.with_times(time=first.time)
    return None


# Select slides ----------------------------------------------------------------------------------


def select_slides(windows: Sequence[ScannedWindow], *, limit: int = MAX_SLIDES) -> list[Slide]:
    """Return each slide once, in the order of the video; of a build-up its complete state."""
    windows = sorted(windows, key=lambda window: window.start)
    candidates = [candidate for window in windows for candidate in window.candidates]
    distinct = _distinct(_merge(_limit(candidates, MAX_COMPARED)))
    end = max((window.end for window in windows if not window.is_empty), default=0.0)
    slides = []
    for number, each in enumerate(_limit([state.candidate for state in distinct], limit), 1):
        times = {"time": each.time, "end": min(each.end, end), "at": each.at}
        rounded = {name: round(time, 2) for name, time in times.items()}
        slides.append(Slide(number=number, **{**asdict(each), **rounded}))
    return slides


def _distinct(states: Iterable["Thumbnail"]) -> list["Thumbnail"]:
    """Drop what was shown before."""
    slides = ThumbnailIndex(MAX_COMPARED)
    scenes: list[Thumbnail] = []
    for state in states:
        if not state.candidate.is_scene:
            if not slides.contains(state):
                slides.add(state)
            continue
        earliest = scenes[-1].candidate.time + SCENE_DISTANCE_S if scenes else 0.0
        is_known = any(is_same_shot(state, scene) for scene in scenes)
        if state.candidate.time >= earliest and not is_known:
            scenes.append(state)
    return scenes + slides.thumbnails


def _limit(candidates: list[SlideCandidate], limit: int) -> list[SlideCandidate]:
    """Keep scenes at even distances, and the slides that are shown longest."""
    scenes = [each for each in candidates if each.is_scene]
    step = -(-len(scenes) // MAX_SCENES) or 1  # rounded up
    slides = [each for each in candidates if not each.is_scene]
    slides.sort(key=_duration, reverse=True)
    return sorted((scenes[::step] + slides)[:limit], key=lambda candidate: candidate.time)


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
    """A candidate whose thumbnail is prepared for comparisons."""

    candidate: SlideCandidate
    grey: Frame
    lively: Blocks
    #: The mean of each block.
    block_means: NDArray[numpy.float64]
    #: Pixels that belong to text or a drawing.
    ink: Pixels

    def with_times(self, **times: Any) -> "Thumbnail":
        return replace(self, candidate=replace(self.candidate, **times))


def unpack_thumbnail(slide: SlideCandidate) -> Thumbnail:
    content = zlib.decompress(base64.b64decode(slide.grey))
    grey = numpy.frombuffer(content, numpy.uint8).reshape(HEIGHT, WIDTH)
    return Thumbnail(slide, grey, unpack_blocks(slide.lively), _block_means(grey), _ink(grey))


def unpack_blocks(packed: str) -> Blocks:
    bits = numpy.unpackbits(numpy.frombuffer(bytes.fromhex(packed), numpy.uint8))
    return bits[: ROWS * COLUMNS].reshape(ROWS, COLUMNS).astype(numpy.bool_)


def _block_means(grey: Frame) -> NDArray[numpy.float64]:
    means: NDArray[numpy.float64] = grey.reshape(ROWS, BLOCK, COLUMNS, BLOCK).mean(axis=(1, 3))
    return means


def _ink(grey: Frame) -> Pixels:
    high, low = grey.copy(), grey.copy()
    after, before, every = slice(1, None), slice(None, -1), slice(None)
    for here, near in ((before, after), (after, before)):
        for at, of in (((here, every), (near, every)), ((every, here), (every, near))):
            high[at] = numpy.maximum(high[at], grey[of])
            low[at] = numpy.minimum(low[at], grey[of])
    ink: Pixels = high - low > INK_CONTRAST
    return ink


class ThumbnailIndex:
    """Finds a thumbnail among many."""

    def __init__(self, capacity: int) -> None:
        self.thumbnails: list[Thumbnail] = []
        self._block_means = numpy.zeros((capacity, ROWS, COLUMNS), numpy.float32)
        self._lively = numpy.zeros((capacity, ROWS, COLUMNS), numpy.bool_)

    def add(self, thumbnail: Thumbnail) -> None:
        self._block_means[len(self.thumbnails)] = thumbnail.block_means
        self._lively[len(self.thumbnails)] = thumbnail.lively
        self.thumbnails.append(thumbnail)

    def contains(self, thumbnail: Thumbnail) -> bool:
        """Whether the same slide, or a later step of its build-up, was added before."""
        count = len(self.thumbnails)
        differs = numpy.abs(self._block_means[:count] - thumbnail.block_means) > DIFFERENT_BLOCK
        differs &= ~(self._lively[:count] | thumbnail.lively)
        similar = numpy.flatnonzero(~differs.any(axis=(1, 2)))
        return any(is_same(thumbnail, self.thumbnails[index]) for index in similar.tolist()) or any(
            is_part(thumbnail, other) for other in self.thumbnails[-BUILD_UP_STEPS:]
        )


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


def is_frame_of(image: Image.Image, slide: Slide) -> bool:
    """Whether a frame that was scaled differently is the slide, apart from the blocks in motion."""
    if slide.is_scene:
        return True
    thumbnail = unpack_thumbnail(slide)
    scaled = image.convert("L").resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    means = _block_means(numpy.asarray(scaled, numpy.uint8))
    difference = numpy.abs(means - thumbnail.block_means)[~thumbnail.lively]
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


def cover_motion(grey: Image.Image, lively: str) -> None:
    """Paint blocks in motion with the background colour: OCR would read a face as letters."""
    background = int(numpy.argmax(grey.histogram()))
    width, height = grey.size
    for row, column in numpy.argwhere(unpack_blocks(lively)).tolist():
        box = (
            *(column * width // COLUMNS, row * height // ROWS),
            *((column + 1) * width // COLUMNS, (row + 1) * height // ROWS),
        )
        grey.paste(background, box)
