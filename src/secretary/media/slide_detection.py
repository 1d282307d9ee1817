"""Which of the pictures that stood still are slides of their own, and worth to be shown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy

from ..core.errors import FileCorrupt, InvalidParameters
from .frame_similarity import (
    AHEAD_S,
    COLUMNS,
    RATE,
    ROWS,
    SCENE,
    STAND,
    Blocks,
    Frame,
    Gallery,
    Sight,
    changes,
    differing,
    examine,
    is_blank,
    is_change,
    is_part,
    is_same,
    is_same_shot,
    over_pixels,
    packed_blocks,
    packed_grey,
    sight_of,
    small_frames,
)
from .recording import PictureTrack
from .slides import MAX_WINDOW_S, Candidate, Seen, Slide

#: Between two frames of scenes that are filmed; and how many of them one video may have.
SCENE_DISTANCE_S = 60.0
MAX_SCENES = 40
#: Each is compared with all before it; those that stand longest come first.
MAX_COMPARED = 1_000
#: What may be left of a change when it counts as done.
NEARLY = 0.25


class Known(NamedTuple):
    candidate: Candidate
    sight: Sight


def gathered(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Neighbours put together that show the same, or one a part of the other; passages dropped."""
    return [known.candidate for known in _gathered(candidates)]


def chosen(seen: Sequence[Seen], *, limit: int) -> list[Slide]:
    windows = sorted(seen, key=lambda window: window.start)
    candidates = [one for window in windows for one in window.candidates]
    kept = _each_once(_gathered(_few(candidates, MAX_COMPARED)))
    end = max((window.end for window in windows if not window.is_empty), default=0.0)
    return [
        Slide(
            number=number,
            time=round(one.time, 2),
            end=round(min(one.end, end), 2),
            at=round(one.at, 2),
            grey=one.grey,
            lively=one.lively,
            is_scene=one.is_scene,
        )
        for number, one in enumerate(_few([known.candidate for known in kept], limit), 1)
    ]


def _gathered(candidates: Iterable[Candidate]) -> list[Known]:
    states = _without_passages([Known(one, sight_of(one)) for one in candidates])
    result: list[Known] = []
    for known in states:
        joined = _joined(result[-1], known) if result else None
        if joined:
            result[-1] = joined
        else:
            result[-1:] = [_until(one, known.candidate.time) for one in result[-1:]]
            result.append(known)
    return result


def _until(known: Known, time: float) -> Known:
    """A window sees a little of the next, where it may have found the end more exactly."""
    return known._replace(candidate=replace(known.candidate, end=min(known.candidate.end, time)))


def _without_passages(states: list[Known]) -> list[Known]:
    """Neither blank pictures nor halves of a fade; but never nothing."""
    full = [known for known in states if not is_blank(known.sight)]
    standing: list[Known] = []
    since: float | None = None
    for known, after in pairwise([*full, None]):
        assert known is not None
        if since is not None:
            known = known._replace(candidate=replace(known.candidate, time=since))
        since = None
        if _stands(known) or (after and is_part(known.sight, after.sight)):
            standing.append(known)
        elif after and _is_nearly(known, after, standing[-1] if standing else None):
            since = known.candidate.time
    return standing or full[:1] or states[:1]


def _is_nearly(passage: Known, after: Known, before: Known | None) -> bool:
    """Whether most of a change was done: what follows is finer drawn, no more."""
    if before is None:
        return False
    left = int(changes(passage.sight, after.sight).sum())
    return left <= NEARLY * int(changes(before.sight, after.sight).sum())


def _stands(known: Known) -> bool:
    return known.candidate.end - known.candidate.time >= STAND / RATE


def _joined(before: Known, after: Known) -> Known | None:
    """One of both, for the time of both."""
    first, second = before.candidate, after.candidate
    if first.is_scene != second.is_scene:
        return None
    if first.is_scene:
        if not is_same_shot(before.sight, after.sight):
            return None
        return Known(replace(first, end=second.end), before.sight)
    if is_same(before.sight, after.sight) or is_part(after.sight, before.sight):
        return Known(replace(first, end=second.end), before.sight)
    if is_part(before.sight, after.sight):
        return Known(replace(second, time=first.time), after.sight)
    return None


def _each_once(everything: Iterable[Known]) -> list[Known]:
    """Those that did not come before."""
    slides, kept = Gallery(MAX_COMPARED), []
    scenes: list[Known] = []
    for known in everything:
        if known.candidate.is_scene:
            if not _is_old_scene(known, scenes):
                scenes.append(known)
        elif not slides.shows(known.sight):
            slides.add(known.sight)
            kept.append(known)
    return scenes + kept


def _is_old_scene(known: Known, scenes: Sequence[Known]) -> bool:
    if scenes and known.candidate.time - scenes[-1].candidate.time < SCENE_DISTANCE_S:
        return True
    return any(is_same_shot(known.sight, one.sight) for one in scenes)


def _few(candidates: list[Candidate], limit: int) -> list[Candidate]:
    scenes = [one for one in candidates if one.is_scene]
    every = -(-len(scenes) // MAX_SCENES) or 1  # rounded up
    slides = [one for one in candidates if not one.is_scene]
    slides.sort(key=lambda one: one.end - one.time, reverse=True)
    return sorted((scenes[::every] + slides)[:limit], key=lambda one: one.time)


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
