"""Splits a recording at pauses into chunks that are transcribed one by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

#: Seconds of a window at most. Whisper was trained on 30.
LONGEST = 29.0
#: A window is not cut before this if possible: it takes the same time, full or not.
SHORTEST = 19.0
#: Seconds of a pause that are kept before and after speech.
MARGIN = 0.3
#: Longer pauses are left out.
LONGEST_PAUSE = 4.0
#: Windows per chunk: an engine is faster with several at once.
WINDOWS = 4


class Span(NamedTuple):
    """In seconds from the start of the recording."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class SpeechActivity:
    #: Seconds of audio, with and without speech.
    duration: float
    #: In order, none longer than 14 seconds; two may touch.
    speech: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """The input of an engine: up to 30 seconds."""

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
    def from_json(number: int, windows: Sequence[Any]) -> "Chunk":
        parsed = (
            Window(start, end, tuple(Span(*span) for span in speech))
            for start, end, speech in windows
        )
        return Chunk(number, tuple(parsed))


def build_chunks(activity: SpeechActivity) -> list[Chunk]:
    """Return chunks of windows that do not overlap, numbered from 0; none without speech."""
    windows = _windows(activity)
    chunks: list[Chunk] = []
    first = 0
    while first < len(windows):
        # Smaller chunks at the end, so that all processes finish at about the same time.
        count = WINDOWS if len(windows) - first > 2 * WINDOWS else WINDOWS // 2
        chunks.append(Chunk(len(chunks), tuple(windows[first : first + count])))
        first += count
    return chunks


def _windows(activity: SpeechActivity) -> list[Window]:
    windows: list[Window] = []
    spans, first = activity.speech, 0
    while first < len(spans):
        after = _end_of_window(spans, first)
        previous_end = windows[-1].end if windows else 0.0
        next_start = spans[after].start if after < len(spans) else activity.duration
        pause = next_start - spans[after - 1].end
        windows.append(
            Window(
                start=max(previous_end, spans[first].start - MARGIN),
                end=spans[after - 1].end + min(MARGIN, pause if after == len(spans) else pause / 2),
                speech=tuple(spans[first:after]),
            )
        )
        first = after
    return windows


def _end_of_window(spans: Sequence[Span], first: int) -> int:
    """Return the index after its last span. A full window ends at its longest late pause."""
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
