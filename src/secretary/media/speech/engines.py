"""What recognises speech: the protocol that all engines share, and the engines by name."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...core.errors import EngineUnavailable

if TYPE_CHECKING:
    import numpy as np

#: Samples a second, in one channel, as 32-bit floats between -1 and 1: what engines listen to.
SAMPLE_RATE = 16_000


class TimedText(NamedTuple):
    """A word with the space before it, as an engine hears it, or a line put together of such; in
    seconds from the beginning of the sound."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcription:
    #: ISO 639-1, for instance `en`.
    language: str
    segments: tuple[TimedText, ...]
    #: 0 to 1, the mean over all words; 0 when nothing was said.
    confidence: float
    #: Seconds in which somebody may have spoken, and no word was understood.
    unclear: float = 0.0


class SpeechEngine(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Of the engine and of its model: another version may hear other words."""
        ...

    def languages(self) -> tuple[str, ...]:
        """Those it understands, by their ISO 639-1 codes, sorted."""
        ...

    def listen(
        self, sounds: Sequence["np.ndarray"], *, language: str | None
    ) -> list[Transcription]:
        """What is said in each of some sounds of up to 30 seconds; several at once take less time.
        Without a language it is detected, by engines that can; nothing is said in silence or
        noise."""
        ...


def open_speech_engine(name: str = "whisper", model_directory: str | None = None) -> SpeechEngine:
    """The same object for the same arguments: what it has loaded stays warm in this process."""
    return _opened(name, model_directory)


@functools.cache
def _opened(name: str, model_directory: str | None) -> SpeechEngine:
    if name == "whisper":
        from .whisper import Whisper

        return Whisper(model_directory)
    raise EngineUnavailable(
        f"There is no speech engine {name!r} in this process; there is: whisper"
    )


#: Confidence. What tiny.en makes of English has 0.68 and more by eleven voices, clean, quiet, over
#: the telephone and in noise 10 dB below the voice; what it makes of German, French, Spanish and
#: Italian 0.55 and less. English in such noise that half of its words are wrong is at the limit.
UNDERSTOOD = 0.62
#: Of other languages often no word is put down at all: seconds without for each with words.
UNCLEAR = 2.0


def is_intelligible(heard: Sequence[Transcription]) -> bool:
    """False where there is speech of which the engine makes little sense: it is in a language
    that the engine does not know, or not to be understood at all. Ask after about a minute of
    speech: a single word tells little. True where nothing is said."""
    unclear = sum(one.unclear for one in heard)
    clear = sum(said.end - said.start for one in heard for said in one.segments)
    if unclear > UNCLEAR * clear:
        return False
    return not clear or mean_confidence(heard) >= UNDERSTOOD


def mean_confidence(heard: Sequence[Transcription]) -> float:
    """Over all letters, for where few words are said the engine is less sure."""
    letters = [sum(len(said.text) for said in one.segments) for one in heard]
    weighted = sum(one.confidence * count for one, count in zip(heard, letters, strict=True))
    return weighted / sum(letters) if any(letters) else 0.0
