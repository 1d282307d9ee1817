"""What recognises speech: the protocol that all engines share, and the engines by name."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..errors import EngineUnavailable

if TYPE_CHECKING:
    import numpy as np

#: Samples a second, in one channel, as 32-bit floats between -1 and 1: what engines listen to.
RATE = 16_000


class Said(NamedTuple):
    """A word with the space before it, as an engine hears it, or a line put together of such; in
    seconds from the beginning of the sound."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    #: ISO 639-1, for instance `en`.
    language: str
    said: tuple[Said, ...]
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

    def listen(self, sounds: Sequence["np.ndarray"], *, language: str | None) -> list[Heard]:
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
