"""What recognises speech: the protocol that all engines share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np

#: Samples a second, in one channel, as 32-bit floats between -1 and 1: what engines listen to.
RATE = 16_000


class Said(NamedTuple):
    """A sentence, or what is said in one breath; in seconds from the beginning of the sound."""

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

    def listen(self, sound: "np.ndarray", *, language: str | None) -> Heard:
        """What is said in up to some minutes of sound. Without a language it is detected, by
        engines that can; nothing is said in silence or noise."""
        ...
