"""A recording cut at pauses, into pieces that are listened to one by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

#: Seconds that an engine hears at a time; what it was made for is 30.
LONGEST = 29.0
#: It is not cut before, if it can be helped: each window takes the same time, full or not.
SHORTEST = 19.0
#: Seconds of a pause that stay with the speech before and after.
MARGIN = 0.3
#: Longer silence is left out.
LONGEST_PAUSE = 4.0
#: Several windows are heard at once, which takes less time.
WINDOWS = 4


class Span(NamedTuple):
    """In seconds from the beginning of the recording."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class SpeechActivity:
    #: Seconds of sound, with and without speech.
    duration: float
    #: In order, none longer than 14 seconds; two may touch.
    speech: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """What is heard at once."""

    start: float
    end: float
    speech: tuple[Span, ...]

    @property
    def seconds_of_speech(self) -> float:
        return sum(span.end - span.start for span in self.speech)


@dataclass(frozen=True, slots=True)
class Chunk:
    number: int
    windows: tuple[Window, ...]

    @property
    def start(self) -> float:
        return self.windows[0].start

    @property
    def end(self) -> float:
        return self.windows[-1].end

    def as_json(self) -> list[Any]:
        return [[window.start, window.end, window.speech] for window in self.windows]

    @staticmethod
    def from_json(number: int, told: Sequence[Any]) -> "Chunk":
        windows = (
            Window(start, end, tuple(Span(*span) for span in speech)) for start, end, speech in told
        )
        return Chunk(number, tuple(windows))


def build_chunks(activity: SpeechActivity) -> list[Chunk]:
    """Numbered from 0. Windows do not overlap; none where nobody speaks."""
    windows = _windows(activity)
    pieces: list[Chunk] = []
    first = 0
    while first < len(windows):
        # Smaller ones at the end: all processes are to be done at the same time.
        count = WINDOWS if len(windows) - first > 2 * WINDOWS else WINDOWS // 2
        pieces.append(Chunk(len(pieces), tuple(windows[first : first + count])))
        first += count
    return pieces


def _windows(activity: SpeechActivity) -> list[Window]:
    windows: list[Window] = []
    spans, first = activity.speech, 0
    while first < len(spans):
        after = _end_of_window(spans, first)
        before = windows[-1].end if windows else 0.0
        following = spans[after].start if after < len(spans) else activity.duration
        pause = following - spans[after - 1].end
        windows.append(
            Window(
                start=max(before, spans[first].start - MARGIN),
                end=spans[after - 1].end + min(MARGIN, pause if after == len(spans) else pause / 2),
                speech=tuple(spans[first:after]),
            )
        )
        first = after
    return windows


def _end_of_window(spans: Sequence[Span], first: int) -> int:
    """The span after its last: where it is full, the one after its longest late pause."""
    latest = spans[first].start + LONGEST - 2 * MARGIN
    after = first + 1
    while after < len(spans) and spans[after].end <= latest:
        if spans[after].start - spans[after - 1].end > LONGEST_PAUSE:
            return after
        after += 1
    if after == len(spans):
        return after
    earliest = spans[first].start + SHORTEST
    late = [index for index in range(first + 1, after + 1) if spans[index - 1].end >= earliest]
    return max(late or [after], key=lambda index: spans[index].start - spans[index - 1].end)
