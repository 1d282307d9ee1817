"""Pictures that stand still for a while, in one window of a video."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy

from ...errors import FileCorrupt, InvalidParameters
from .likeness import differing, is_change, packed_blocks, packed_grey
from .picture_stream import RATE, Frame, small_frames
from .recording import PictureTrack
from .slide_choice import gathered
from .slides import MAX_WINDOW_S, Candidate, Seen
from .stillness import AHEAD_S, COLUMNS, ROWS, SCENE, STAND, Blocks, examine, over_pixels

#: The share of a picture that must be at rest to begin a slide with.
ENOUGH_AT_REST = 0.3
#: From one frame of a scene to the next.
SCENE_STEP = 60 * RATE
#: In one window; those that stand longest are kept.
MAX_CANDIDATES = 60
#: When a picture has been still for this long, it has also been coded at its best.
SHARP_S = 2.0


class State(NamedTuple):
    """What the picture is, from a frame on."""

    begin: int
    lively: Blocks
    is_scene: bool


def search(
    path: str,
    track: PictureTrack,
    start_s: float,
    end_s: float,
    *,
    timeout_s: float,
    program: str | None,
) -> Seen:
    if not 0 <= start_s < end_s <= start_s + MAX_WINDOW_S:
        raise InvalidParameters(f"There is no window from {start_s} to {end_s} seconds")
    own = max(1, round((end_s - start_s) * RATE))
    frames = small_frames(
        path, track, start_s, own + AHEAD_S * RATE, timeout_s=timeout_s, program=program
    )
    if not len(frames):
        if start_s:
            return Seen(start=start_s, end=start_s)
        raise FileCorrupt("The pictures of the video cannot be decoded")
    last_s = start_s + (len(frames) - 1) / RATE
    states = _candidates(_held(frames, own), start_s, own)
    found = gathered(replace(one, at=min(one.at, last_s)) for one in states)
    kept = sorted(found, key=lambda one: one.end - one.time, reverse=True)[:MAX_CANDIDATES]
    kept.sort(key=lambda one: one.time)
    until = min(end_s, start_s + len(frames) / RATE)
    return Seen(start=start_s, end=until, candidates=tuple(kept))


def _held(frames: Frame, own: int) -> Frame:
    """What is shown last stays to be seen, where the sound goes on and no picture comes."""
    missing = min(STAND, own - len(frames))
    return numpy.concatenate([frames, frames[-1:].repeat(missing, 0)]) if missing > 0 else frames


def _candidates(frames: Frame, start_s: float, own: int) -> list[Candidate]:
    """All states of the picture, those that it only passes through included."""
    states = list(_states(frames))
    if not states:
        states = [State(0, numpy.zeros((ROWS, COLUMNS), numpy.bool_), True)]
    ends = [state.begin for state in states[1:]] + [len(frames)]
    return [
        _candidate(frames[state.begin], state, end, start_s)
        for state, end in zip(states, ends, strict=True)
        if state.begin < own
    ]


def _states(frames: Frame) -> Iterator[State]:
    stillness = examine(frames)
    shown: Frame | None = None
    scene_at: int | None = None
    for index in range(len(frames)):
        frame, lively = frames[index], stillness.lively[index]
        if lively.mean() > SCENE:
            if scene_at is None or index - scene_at >= SCENE_STEP:
                shown, scene_at = None, index
                yield State(index, lively, True)
            continue
        at_rest = stillness.stands[index] & ~lively
        if shown is None:
            is_new = bool(at_rest.mean() >= ENOUGH_AT_REST)
        else:
            is_new = is_change(differing(shown, frame) & over_pixels(at_rest))
        if is_new:
            shown, scene_at = frame, None
            yield State(index, lively, False)


def _candidate(grey: Frame, state: State, end: int, start_s: float) -> Candidate:
    stands_s = (end - state.begin) / RATE
    time = start_s + state.begin / RATE
    return Candidate(
        time=time,
        end=time + stands_s,
        at=time + min(SHARP_S, stands_s / 2),
        grey=packed_grey(grey),
        lively=packed_blocks(state.lively),
        is_scene=state.is_scene,
    )
