"""A slide as a picture file, as large as the video shows it."""

import contextlib
import io
import os
from functools import partial

import numpy
from PIL import Image

from ..core.errors import FileCorrupt, ProcessingTimeout
from ..documents.ocr.engines import open_engine
from ..documents.ocr.images import open_frame, save_jpeg
from ..documents.ocr.recognition import recognise_upright
from .frame_similarity import (
    COLUMNS,
    HEIGHT,
    ROWS,
    WIDTH,
    is_roughly,
    one_frame,
    sight_of,
    unpacked_blocks,
)
from .recording import PictureTrack
from .slides import DrawnSlide, Slide, SlideText


def draw_slide(
    path: str,
    track: PictureTrack,
    slide: Slide,
    into: str,
    *,
    max_side: int,
    timeout_s: float,
    program: str | None,
) -> DrawnSlide:
    """The file has its name only when it is whole."""
    find = partial(
        one_frame,
        *(path, track, slide.at),
        max_side=max_side,
        timeout_s=timeout_s,
        program=program,
    )
    picture = _opened(find(can_seek=True))
    if not picture or not _shows(picture, slide):
        # Some files say other times than they keep, and lead elsewhere.
        with contextlib.suppress(ProcessingTimeout):
            picture = _opened(find(can_seek=False)) or picture
    if not picture:
        raise FileCorrupt(f"The picture at {slide.at:.1f} s of the video cannot be decoded")
    unfinished = f"{into}/.{slide.file_name}"
    save_jpeg(picture, unfinished)
    os.replace(unfinished, f"{into}/{slide.file_name}")
    return DrawnSlide(
        number=slide.number, name=slide.file_name, width=picture.width, height=picture.height
    )


def _opened(content: bytes) -> Image.Image | None:
    return Image.open(io.BytesIO(content), formats=["PPM"]) if content else None


def _shows(picture: Image.Image, slide: Slide) -> bool:
    if slide.is_scene:
        return True
    small = picture.convert("L").resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    return is_roughly(numpy.asarray(small, numpy.uint8), sight_of(slide))


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
