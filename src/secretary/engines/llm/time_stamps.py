"""The times of what was said, as they must be: inside the sound, one after the other."""

from collections.abc import Sequence

from ..speech import Said

#: So far beyond the sound a time is a matter of rounding: whisper counts in windows.
SLACK_SECONDS = 1.0

Segment = tuple[float, float, str]


def put_right(segments: Sequence[Segment], text: str, seconds: float) -> tuple[Said, ...]:
    """Small faults are mended. Where the times make no sense, or there are none, the whole text
    is one piece over the whole sound: no word is lost, and none stands where it was not said."""
    spoken = [
        (start, end, words) for start, end, said in segments if (words := " ".join(said.split()))
    ]
    whole = " ".join(text.split())
    if spoken and _make_sense(spoken, seconds):
        said = _filled(_in_order(spoken, seconds), seconds)
        if all(each.start < each.end for each in said):
            return tuple(said)
    return (Said(0.0, seconds, whole),) if whole else ()


def _make_sense(segments: Sequence[Segment], seconds: float) -> bool:
    starts = [start for start, _, _ in segments]
    return (
        starts == sorted(starts)
        and all(start <= end for start, end, _ in segments)
        and starts[0] >= -SLACK_SECONDS
        and starts[-1] < seconds + SLACK_SECONDS
    )


def _in_order(segments: Sequence[Segment], seconds: float) -> list[Said]:
    """What begins before the last one has ended cuts it short; what begins with it joins it."""
    said: list[Said] = []
    for start, end, words in segments:
        begin, until = (min(max(time, 0.0), seconds) for time in (start, end))
        last = said[-1] if said else None
        if last is not None and (begin <= last.start or begin >= seconds):
            said[-1] = Said(last.start, max(last.end, until), f"{last.text} {words}")
            continue
        if last is not None and last.end > begin:
            said[-1] = last._replace(end=begin)
        said.append(Said(begin, until, words))
    return said


def _filled(said: list[Said], seconds: float) -> list[Said]:
    """What has no length lasts until the next begins."""
    following = [each.start for each in said[1:]] + [seconds]
    return [
        each if each.start < each.end else each._replace(end=begin)
        for each, begin in zip(said, following, strict=True)
    ]
