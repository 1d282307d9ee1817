"""Which of the pictures that stood still are slides of their own, and worth to be shown."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from .likeness import Gallery, Sight, changes, is_blank, is_part, is_same, is_same_shot, sight_of
from .picture_stream import RATE
from .slides import Candidate, Seen, Slide
from .stillness import STAND

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
