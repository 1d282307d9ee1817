"""The text of a slide, by OCR."""

import numpy
from PIL import Image

from ...engines.ocr import open_engine
from ..pictures import open_frame
from ..recognition import recognise_upright
from .likeness import unpacked_blocks
from .slides import Slide, SlideText
from .stillness import COLUMNS, ROWS

MAX_PIXELS = 50_000_000


def read_slide(
    path: str, slide: Slide, languages: str | None, ocr_engine: str, ocr_data_directory: str | None
) -> SlideText:
    engine = open_engine(ocr_engine, ocr_data_directory)
    grey = open_frame(path, 1, max_pixels=MAX_PIXELS).convert("L")
    if not slide.is_scene:
        _cover(grey, slide.lively)
    found = recognise_upright(grey, engine=engine, languages=languages)
    return SlideText(
        text=found.text,
        markdown=found.markdown,
        confidence=found.confidence,
        languages=found.languages,
    )


def _cover(grey: Image.Image, lively: str) -> None:
    """A face would be read as letters: what never rests gets the colour of the background."""
    background = int(numpy.argmax(grey.histogram()))
    width, height = grey.size
    for row, column in numpy.argwhere(unpacked_blocks(lively)).tolist():
        box = (
            *(column * width // COLUMNS, row * height // ROWS),
            *((column + 1) * width // COLUMNS, (row + 1) * height // ROWS),
        )
        grey.paste(background, box)
