"""What recognises text in a picture: the protocol, and the engines by name."""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..errors import EngineUnavailable

if TYPE_CHECKING:
    from PIL import Image

#: Engine -> the packages whose versions tell what it may read.
PACKAGES = {"tesseract": ("tesserocr",), "rapidocr": ("rapidocr", "onnxruntime")}


class Word(NamedTuple):
    text: str
    left: int
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    text: str
    words: tuple[Word, ...]
    #: 0 to 100.
    confidence: float
    #: Left, top, right, bottom, in pixels.
    box: tuple[int, int, int, int]
    #: Where its letters stand, and how high they are, whichever of them it holds.
    baseline: float
    height: float
    #: Lines that belong together, for instance a column, have the same number.
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    #: Lines as they stand, an empty line between paragraphs.
    text: str
    #: Lines joined to paragraphs, with headings and lists where they can be told.
    markdown: str
    #: 0 to 100, the mean over all letters; 0 when there are none.
    confidence: float
    #: As the engine calls them, for instance `deu+eng`.
    languages: str
    words: int
    #: Quarters of a turn, clockwise, that made the picture upright: 0, 90, 180 or 270.
    rotation: int = 0
    #: What was turned beside that, in degrees clockwise.
    skew: float = 0.0


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

    def read(self, image: "Image.Image", *, languages: str, dpi: int | None) -> list[Line]:
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
        from .rapid import Rapid

        return Rapid(data_directory)
    raise EngineUnavailable(f"There is no OCR engine {name!r}; there is: {', '.join(PACKAGES)}")
