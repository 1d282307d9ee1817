"""Splits a recording at pauses into chunks, and transcribes a chunk to lines with their times."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..pcm import read_samples
from .engines import TimedText, Transcription, mean_confidence, open_speech_engine

N = TypeVar("N", int, float)

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


class Window(NamedTuple):
    """The input of an engine: up to 30 seconds."""

    start: float
    end: float
    speech: tuple[Span, ...]


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

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @staticmethod
    def from_json(number: int, windows: Sequence[Any]) -> "Chunk":
        parsed = (
            Window(start, end, tuple(Span(*span) for span in speech))
            for start, end, speech in windows
        )
        return Chunk(number, tuple(parsed))


def build_chunks(duration: float, speech: Sequence[Span]) -> list[Chunk]:
    """Return chunks of windows that do not overlap, numbered from 0; none without speech."""
    windows = _windows(duration, speech)
    chunks: list[Chunk] = []
    first = 0
    while first < len(windows):
        # Smaller chunks at the end, so that all processes finish at about the same time.
        count = WINDOWS if len(windows) - first > 2 * WINDOWS else WINDOWS // 2
        chunks.append(Chunk(len(chunks), tuple(windows[first : first + count])))
        first += count
    return chunks


def _windows(duration: float, spans: Sequence[Span]) -> list[Window]:
    windows: list[Window] = []
    first = 0
    while first < len(spans):
        after = _end_of_window(spans, first)
        previous_end = windows[-1].end if windows else 0.0
        next_start = spans[after].start if after < len(spans) else duration
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


SENTENCE_ENDS = (".", "?", "!", "…", "\N{IDEOGRAPHIC FULL STOP}")
CLAUSE_ENDS = (*SENTENCE_ENDS, ",", ";", ":", "\N{IDEOGRAPHIC COMMA}")
CLOSING = "\"')]}”»"
#: Seconds: a line ends at a pause, with its sentence, and if it is long with a clause.
PAUSE, LONG_LINE, LONGEST_LINE = 0.8, 7.0, 12.0
#: A shorter gap in speech may be within a word.
SHORT_GAP = 0.35


def transcribe_chunk(
    pcm_path: Path, chunk: Chunk, model_directory: str | None, language: str | None
) -> Transcription:
    """Transcribe PCM as `media.pcm` writes it. The engine stays loaded in this process."""
    engine = open_speech_engine(model_directory)
    clips = [read_samples(str(pcm_path), window.start, window.end) for window in chunk.windows]
    transcriptions = engine.transcribe(clips, language=language)
    lines: list[TimedText] = []
    unclear = 0.0
    for window, each in zip(chunk.windows, transcriptions, strict=True):
        words = [
            word._replace(start=word.start + window.start, end=word.end + window.start)
            for word in each.segments
        ]
        lines += group_into_lines(list(clip_to_speech(window.speech, words)))
        unclear += min(each.unclear, sum(span.end - span.start for span in window.speech))
    return Transcription(
        language=transcriptions[0].language,
        segments=tuple(lines),
        confidence=mean_confidence(transcriptions),
        unclear=unclear,
    )


def clip_to_speech(speech: Sequence[Span], words: Sequence[TimedText]) -> Iterator[TimedText]:
    """Engines let words reach into silence; voice activity detection is more exact."""
    spans = join_over_gaps(speech, SHORT_GAP)
    for word in words:
        overlaps = [(max(word.start, start), min(word.end, end)) for start, end in spans]
        start, end = max(overlaps, key=lambda overlap: overlap[1] - overlap[0])
        yield word._replace(start=start, end=end) if end > start else word


def join_over_gaps(spans: Iterable[tuple[N, N]], shortest: float) -> list[tuple[N, N]]:
    """Join spans with a shorter gap between them."""
    joined: list[tuple[N, N]] = []
    for start, end in spans:
        if joined and start - joined[-1][1] < shortest:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def group_into_lines(words: Sequence[TimedText]) -> list[TimedText]:
    lines: list[list[TimedText]] = []
    for word in words:
        if not lines or _is_complete(lines[-1], word):
            lines.append([])
        lines[-1].append(word)
    joined = []
    for line in lines:
        text = "".join(word.text for word in line).strip()
        if any(map(str.isalnum, text)):
            end = max(word.end for word in line)
            joined.append(TimedText(round(line[0].start, 2), round(end, 2), text))
    return joined


def _is_complete(line: Sequence[TimedText], following: TimedText) -> bool:
    last = line[-1].text.rstrip(CLOSING)
    duration = line[-1].end - line[0].start
    return (
        last.endswith(SENTENCE_ENDS)
        or following.start - line[-1].end >= PAUSE
        or (duration >= LONG_LINE and last.endswith(CLAUSE_ENDS))
        or duration >= LONGEST_LINE
    )
