"""What is said in a piece of a recording, with its times in the whole."""

from collections.abc import Sequence
from pathlib import Path

from ...engines.speech import Heard, Said, open_speech_engine
from ..media.sound import samples
from .lines import lines, within
from .pieces import Piece, Window
from .understanding import mean_confidence


def transcribe(
    sound_path: Path,
    piece: Piece,
    engine_name: str,
    model_directory: str | None,
    language: str | None,
) -> Heard:
    """Raw sound as in `find_speech`. The engine stays warm in this process."""
    engine = open_speech_engine(engine_name, model_directory)
    sounds = [samples(str(sound_path), window.start, window.end) for window in piece.windows]
    heard = engine.listen(sounds, language=language)
    pairs = list(zip(piece.windows, heard, strict=True))
    return Heard(
        language=heard[0].language,
        said=tuple(said for window, one in pairs for said in _lines(window, one.said)),
        confidence=mean_confidence(heard),
        unclear=sum(min(one.unclear, window.seconds_of_speech) for window, one in pairs),
    )


def _lines(window: Window, words: Sequence[Said]) -> list[Said]:
    """In the time of the recording."""
    shifted = [
        word._replace(start=word.start + window.start, end=word.end + window.start)
        for word in words
    ]
    return lines(list(within(window.speech, shifted)))
