"""What is said in a piece of a recording, with its times in the whole."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..pcm import read_samples
from .chunking import Chunk, Span, Window
from .engines import TimedText, Transcription, mean_confidence, open_speech_engine

SENTENCE_ENDS = (".", "?", "!", "…", "\N{IDEOGRAPHIC FULL STOP}")
CLAUSE_ENDS = (*SENTENCE_ENDS, ",", ";", ":", "\N{IDEOGRAPHIC COMMA}")
CLOSING = "\"')]}”»"
#: Seconds: a line ends at a pause, with its sentence, and if that is long with a part of it.
PAUSE, LONG_LINE, LONGEST_LINE = 0.8, 7.0, 12.0
#: A shorter gap may be within a word.
BREATH = 0.35


def group_into_lines(words: Sequence[TimedText]) -> list[TimedText]:
    found: list[TimedText] = []
    line: list[TimedText] = []
    for word in words:
        if line and _ends(line, word):
            found.append(_line(line))
            line = []
        line.append(word)
    if line:
        found.append(_line(line))
    return [one for one in found if any(map(str.isalnum, one.text))]


def clip_to_speech(speech: Sequence[Span], words: Sequence[TimedText]) -> Iterator[TimedText]:
    """An engine lets words reach into silence; where there is speech is known better."""
    breaths = _breaths(speech)
    for word in words:
        breath = max(breaths, key=lambda breath: _overlap(breath, word))
        if _overlap(breath, word) <= 0:
            yield word
        else:
            yield word._replace(start=max(word.start, breath.start), end=min(word.end, breath.end))


def _ends(line: Sequence[TimedText], following: TimedText) -> bool:
    last = line[-1].text.rstrip(CLOSING)
    length = line[-1].end - line[0].start
    return (
        last.endswith(SENTENCE_ENDS)
        or following.start - line[-1].end >= PAUSE
        or (length >= LONG_LINE and last.endswith(CLAUSE_ENDS))
        or length >= LONGEST_LINE
    )


def _line(words: Sequence[TimedText]) -> TimedText:
    text = "".join(word.text for word in words).strip()
    return TimedText(round(words[0].start, 2), round(max(word.end for word in words), 2), text)


def _breaths(speech: Sequence[Span]) -> list[Span]:
    breaths: list[Span] = []
    for span in speech:
        if breaths and span.start - breaths[-1].end < BREATH:
            breaths[-1] = Span(breaths[-1].start, span.end)
        else:
            breaths.append(span)
    return breaths


def _overlap(span: Span, word: TimedText) -> float:
    return min(span.end, word.end) - max(span.start, word.start)


def transcribe_chunk(
    sound_path: Path,
    piece: Chunk,
    engine_name: str,
    model_directory: str | None,
    language: str | None,
) -> Transcription:
    """Raw sound as in `find_speech`. The engine stays warm in this process."""
    engine = open_speech_engine(engine_name, model_directory)
    sounds = [read_samples(str(sound_path), window.start, window.end) for window in piece.windows]
    heard = engine.listen(sounds, language=language)
    pairs = list(zip(piece.windows, heard, strict=True))
    return Transcription(
        language=heard[0].language,
        segments=tuple(said for window, one in pairs for said in _lines(window, one.segments)),
        confidence=mean_confidence(heard),
        unclear=sum(min(one.unclear, window.seconds_of_speech) for window, one in pairs),
    )


def _lines(window: Window, words: Sequence[TimedText]) -> list[TimedText]:
    """In the time of the recording."""
    shifted = [
        word._replace(start=word.start + window.start, end=word.end + window.start)
        for word in words
    ]
    return group_into_lines(list(clip_to_speech(window.speech, shifted)))
