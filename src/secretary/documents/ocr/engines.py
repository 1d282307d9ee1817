"""The interface of OCR engines, and a factory that opens them by name."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
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
    """A recognised line of text."""

    text: str
    words: Sequence[OcrWord]
    #: 0 to 100.
    confidence: float
    #: Left, top, right, bottom, in pixels.
    box: tuple[int, int, int, int]
    #: The baseline and the x-height in pixels, whatever letters the line contains.
    baseline: float
    height: float
    #: Lines that belong together, such as a column, share a number.
    block: int


def weighted_median(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the median of values that come with their weights, 0 if there are none."""
    ordered = sorted(pairs)
    half = sum(weight for _, weight in ordered) / 2
    totals = accumulate(weight for _, weight in ordered)
    values = (value for (value, _), total in zip(ordered, totals, strict=True) if total >= half)
    return next(values, 0.0)


class OcrEngine(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Of the engine and its data: another version may recognise another text."""
        ...

    def languages(self) -> tuple[str, ...]:
        """Return the codes of the installed languages, sorted."""
        ...

    def read(self, image: "Image.Image", *, languages: str, dpi: int | None) -> list[OcrLine]:
        """Return the lines of an upright image (mode `L`) in reading order; none if it is blank."""
        ...

    def read_scattered(
        self, image: "Image.Image", *, languages: str, dpi: int | None
    ) -> list[OcrLine]:
        """Return single words anywhere in an image in which `read` finds no lines."""
        ...


@functools.cache
def open_engine(name: str = "tesseract", data_directory: str | None = None) -> OcrEngine:
    """Return one engine per set of arguments, so that its models stay loaded in this process."""
    if name == "tesseract":
        from .tesseract import Tesseract

        return Tesseract(data_directory)
    if name == "rapidocr":
        from .rapidocr import RapidOcr

        return RapidOcr()  # its models are part of the package
    raise EngineUnavailable(f"Unknown OCR engine {name!r}; there is: tesseract, rapidocr")
