"""What recognises text in a picture: the protocol, and the engines by name."""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...core.errors import EngineUnavailable

if TYPE_CHECKING:
    from PIL import Image


class OcrWord(NamedTuple):
    text: str
    left: int
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OcrLine:
    text: str
    words: tuple[OcrWord, ...]
    #: 0 to 100.
    confidence: float
    #: Left, top, right, bottom, in pixels.
    box: tuple[int, int, int, int]
    #: Where its letters stand, and how high they are, whichever of them it holds.
    baseline: float
    height: float
    #: Lines that belong together, for instance a column, have the same number.
    block: int


class OcrEngine(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Of the engine and of its data: another version may read another text."""
        ...

    def languages(self) -> tuple[str, ...]:
        """Those it has data for, sorted."""
        ...

    def read(self, image: "Image.Image", *, languages: str, dpi: int | None) -> list[OcrLine]:
        """The lines of an upright picture in reading order. Mode `L`; none when it is blank."""
        ...


def open_engine(name: str = "tesseract", data_directory: str | None = None) -> OcrEngine:
    """The same object for the same arguments: what it has loaded stays warm in this process."""
    return _opened(name, data_directory)


@functools.cache
def _opened(name: str, data_directory: str | None) -> OcrEngine:
    if name == "tesseract":
        from .tesseract import Tesseract

        return Tesseract(data_directory)
    if name == "rapidocr":
        from .rapidocr import RapidOcr

        return RapidOcr()  # its data comes with its package
    raise EngineUnavailable(f"There is no OCR engine {name!r}; there is: tesseract, rapidocr")
