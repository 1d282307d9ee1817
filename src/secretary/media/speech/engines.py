"""Transcriptions, and the local speech engine."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .whisper import Whisper

#: Samples per second of the audio for engines: mono, 32-bit floats between -1 and 1.
SAMPLE_RATE = 16_000
#: Minimum mean confidence of a language that an engine knows. What tiny.en makes of English has
#: 0.68 and more for eleven voices, clean, quiet, over the telephone and in noise 10 dB below the
#: voice; of German, French, Spanish and Italian 0.55 and less. English in so much noise that half
#: of the words are wrong is at the limit.
MIN_CONFIDENCE = 0.62
#: Engines often transcribe nothing of a foreign language: seconds without words per second with.
MAX_UNCLEAR_RATIO = 2.0


class TimedText(NamedTuple):
    """A word (with the space before it), a sentence or a subtitle cue; in seconds."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcription:
    #: ISO 639-1, such as `en`.
    language: str
    segments: tuple[TimedText, ...]
    #: 0 to 1, the mean of all words; 0 without words.
    confidence: float
    #: Seconds that may contain speech, but no recognised word.
    unclear: float = 0.0


@functools.cache
def open_speech_engine(model_directory: str | None) -> "Whisper":
    """Return the same object for the same directory, so that its model stays loaded."""
    from .whisper import Whisper

    return Whisper(model_directory)


def is_intelligible(transcriptions: Sequence[Transcription]) -> bool:
    """Return False if the speech is in a language that the engine does not know, or cannot be
    understood at all; True without speech. Needs about a minute: a single word tells little."""
    unclear = sum(each.unclear for each in transcriptions)
    clear = sum(text.end - text.start for each in transcriptions for text in each.segments)
    if unclear > MAX_UNCLEAR_RATIO * clear:
        return False
    return not clear or mean_confidence(transcriptions) >= MIN_CONFIDENCE


def mean_confidence(transcriptions: Sequence[Transcription]) -> float:
    """Weighted by characters, because an engine is less certain of short texts."""
    characters = [sum(len(text.text) for text in each.segments) for each in transcriptions]
    confidences = [each.confidence for each in transcriptions]
    return fmean(confidences, characters) if any(characters) else 0.0
