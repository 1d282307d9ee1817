"""Transcribes a chunk of a recording to lines with their times in the recording."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..pcm import read_samples
from .chunking import Chunk, Span, Window
from .engines import TimedText, Transcription, mean_confidence, open_speech_engine

SENTENCE_ENDS = (".", "?", "!", "…", "\N{IDEOGRAPHIC FULL STOP}")
CLAUSE_ENDS = (*SENTENCE_ENDS, ",", ";", ":", "\N{IDEOGRAPHIC COMMA}")
CLOSING = "\"')]}”»"
#: Seconds: a line ends at a pause, with its sentence, and if it is long with a clause.
PAUSE, LONG_LINE, LONGEST_LINE = 0.8, 7.0, 12.0
#: A shorter gap in speech may be within a word.
SHORT_GAP = 0.35


def transcribe_chunk(
    pcm_path: Path,
    chunk: Chunk,
    engine_name: str,
    model_directory: str | None,
    language: str | None,
) -> Transcription:
    """Transcribe PCM as `media.pcm` writes it. The engine stays loaded in this process."""
    engine = open_speech_engine(engine_name, model_directory)
    clips = [read_samples(str(pcm_path), window.start, window.end) for window in chunk.windows]
    transcriptions = engine.transcribe(clips, language=language)
    pairs = list(zip(chunk.windows, transcriptions, strict=True))
    return Transcription(
        language=transcriptions[0].language,
        segments=tuple(line for window, each in pairs for line in _lines(window, each.segments)),
        confidence=mean_confidence(transcriptions),
        unclear=sum(min(each.unclear, window.seconds_of_speech) for window, each in pairs),
    )


def _lines(window: Window, words: Sequence[TimedText]) -> list[TimedText]:
    """Return lines in the time of the recording."""
    shifted = [
        word._replace(start=word.start + window.start, end=word.end + window.start)
        for word in words
    ]
    return group_into_lines(list(clip_to_speech(window.speech, shifted)))


def clip_to_speech(speech: Sequence[Span], words: Sequence[TimedText]) -> Iterator[TimedText]:
    """Engines let words reach into silence; voice activity detection is more exact."""
    spans = _without_short_gaps(speech)
    for word in words:
        span = max(spans, key=lambda span: _overlap(span, word))
        if _overlap(span, word) <= 0:
            yield word
        else:
            yield word._replace(start=max(word.start, span.start), end=min(word.end, span.end))


def _without_short_gaps(speech: Sequence[Span]) -> list[Span]:
    spans: list[Span] = []
    for span in speech:
        if spans and span.start - spans[-1].end < SHORT_GAP:
            spans[-1] = Span(spans[-1].start, span.end)
        else:
            spans.append(span)
    return spans


def _overlap(span: Span, word: TimedText) -> float:
    return min(span.end, word.end) - max(span.start, word.start)


def group_into_lines(words: Sequence[TimedText]) -> list[TimedText]:
    lines: list[TimedText] = []
    line: list[TimedText] = []
    for word in words:
        if line and _is_complete(line, word):
            lines.append(_join(line))
            line = []
        line.append(word)
    if line:
        lines.append(_join(line))
    return [each for each in lines if any(map(str.isalnum, each.text))]


def _is_complete(line: Sequence[TimedText], following: TimedText) -> bool:
    last = line[-1].text.rstrip(CLOSING)
    duration = line[-1].end - line[0].start
    return (
        last.endswith(SENTENCE_ENDS)
        or following.start - line[-1].end >= PAUSE
        or (duration >= LONG_LINE and last.endswith(CLAUSE_ENDS))
        or duration >= LONGEST_LINE
    )


def _join(words: Sequence[TimedText]) -> TimedText:
    text = "".join(word.text for word in words).strip()
    return TimedText(round(words[0].start, 2), round(max(word.end for word in words), 2), text)
