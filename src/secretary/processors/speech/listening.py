"""What is said in a piece of a recording, with its times in the whole."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ...engines.speech import RATE, Heard, Said, open_speech_engine
from .pieces import Piece, Span, Window

#: Seconds that a word may reach into the speech before it or after it by mistake.
_TOLERANCE = 0.15


def transcribe(
    sound_path: Path,
    piece: Piece,
    engine_name: str,
    model_directory: str | None,
    language: str | None,
) -> Heard:
    """Raw sound as in `find_speech`. The engine stays warm in this process."""
    engine = open_speech_engine(engine_name, model_directory)
    sounds = [_read(sound_path, window) for window in piece.windows]
    heard = engine.listen(sounds, language=language)
    pairs = list(zip(piece.windows, heard, strict=True))
    return Heard(
        language=heard[0].language,
        said=tuple(said for window, one in pairs for said in _placed(window, one.said)),
        confidence=_mean_confidence(heard),
    )


def _read(sound_path: Path, window: Window) -> np.ndarray:
    first, last = (round(time * RATE) for time in (window.start, window.end))
    with sound_path.open("rb") as file:
        file.seek(first * 2)
        block = file.read((last - first) * 2)
    return np.frombuffer(block[: len(block) // 2 * 2], "<i2").astype(np.float32) / 32768


def _placed(window: Window, said: Sequence[Said]) -> Iterator[Said]:
    """In the time of the recording. An engine lets words reach into silence: where there is
    speech is known better."""
    for one in said:
        start, end = one.start + window.start, one.end + window.start
        touched = [span for span in window.speech if _overlap(span, start, end) > 0]
        firm = [span for span in touched if _overlap(span, start, end) > _TOLERANCE] or touched
        if firm:
            start, end = max(start, firm[0].start), min(end, firm[-1].end)
        yield _at(one, start, end)


def _overlap(span: Span, start: float, end: float) -> float:
    return min(span.end, end) - max(span.start, start)


def _at(said: Said, start: float, end: float) -> Said:
    return said._replace(start=round(start, 2), end=round(end, 2))


def _mean_confidence(heard: Sequence[Heard]) -> float:
    """Over all letters, as windows with little in them are less sure."""
    letters = [sum(len(said.text) for said in one.said) for one in heard]
    weighted = sum(one.confidence * count for one, count in zip(heard, letters, strict=True))
    return weighted / sum(letters) if any(letters) else 0.0
