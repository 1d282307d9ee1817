"""Saves slides as images in the resolution of the video, and reads their text."""

import contextlib
import io
import os
from collections.abc import Sequence
from functools import partial

import numpy
from PIL import Image

from ..core.errors import FileCorrupt, ProcessingTimeout
from ..documents.ocr.engines import open_engine
from ..documents.ocr.images import open_frame, save_jpeg
from ..documents.ocr.recognition import recognise_upright
from .ffmpeg import decode_frames
from .frame_similarity import (
    COLUMNS,
    HEIGHT,
    ROWS,
    WIDTH,
    is_roughly_same,
    unpack_blocks,
    unpack_thumbnail,
)
from .recording import VideoTrack
from .slides import MAX_SIDE, Slide, SlideImage, SlideText

MAX_PIXELS = 50_000_000


def save_slides(
    path: str,
    track: VideoTrack,
    slides: Sequence[Slide],
    directory: str,
    *,
    max_side: int = MAX_SIDE,
    timeout_s: float = 60.0,
    program: str | None = None,
) -> list[SlideImage]:
    """Write each slide as `frame_###.jpg` to a directory. The timeout applies to each of them."""
    decode = partial(_decode, path, track, max_side=max_side, timeout_s=timeout_s, program=program)
    return [_save(slide, _frame_of(slide, decode), directory) for slide in slides]


def _frame_of(slide: Slide, decode: "partial[Image.Image | None]") -> Image.Image:
    image = decode(slide.at, can_seek=True)
    if not image or not _shows(image, slide):
        # With wrong timestamps in the index of the file, a seek leads elsewhere.
        with contextlib.suppress(ProcessingTimeout):
            image = decode(slide.at, can_seek=False) or image
    if not image:
        raise FileCorrupt(f"The frame at {slide.at:.1f} s of the video cannot be decoded")
    return image


def _decode(
    path: str,
    track: VideoTrack,
    at_s: float,
    *,
    can_seek: bool,
    max_side: int,
    timeout_s: float,
    program: str | None,
) -> Image.Image | None:
    """Return the frame at a time, upright and with square pixels. Without a seek everything before
    it is decoded: slow, but right even if the timestamps of the file are wrong."""
    # Stretch pixels that are not square; an aspect ratio of 0 is undefined.
    sar = "if(sar\\,clip(sar\\,0.1\\,10)\\,1)"
    width, height = f"(iw*max({sar}\\,1))", f"(ih/min({sar}\\,1))"
    fit = f"min(1\\,{max_side}/max({width}\\,{height}))"
    scale = ":".join(f"max(1\\,round({side}*{fit}))" for side in (width, height))
    content = decode_frames(
        path,
        track,
        seek_s=at_s if can_seek else 0.0,
        skip_s=0.0 if can_seek else at_s,
        rate=50,
        count=1,
        # ffmpeg applies the rotation of the file by itself.
        filters=f"scale={scale}:flags=bicubic,setsar=1,format=rgb24",
        output=("-c:v", "ppm", "-f", "image2pipe"),
        timeout_s=timeout_s,
        program=program,
    )
    return Image.open(io.BytesIO(content), formats=["PPM"]) if content else None


def _shows(image: Image.Image, slide: Slide) -> bool:
    if slide.is_scene:
        return True
    thumbnail = image.convert("L").resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    return is_roughly_same(numpy.asarray(thumbnail, numpy.uint8), unpack_thumbnail(slide))


def _save(slide: Slide, image: Image.Image, directory: str) -> SlideImage:
    unfinished = f"{directory}/.{slide.file_name}"
    save_jpeg(image, unfinished)
    os.replace(unfinished, f"{directory}/{slide.file_name}")
    return SlideImage(
        number=slide.number, name=slide.file_name, width=image.width, height=image.height
    )


def read_slide(
    image_path: str,
    slide: Slide,
    *,
    languages: str | None = None,
    ocr_engine: str = "tesseract",
    ocr_data_directory: str | None = None,
) -> SlideText:
    """Return the text of a saved slide; it may have none."""
    engine = open_engine(ocr_engine, ocr_data_directory)
    grey = open_frame(image_path, 1, max_pixels=MAX_PIXELS).convert("L")
    if not slide.is_scene:
        _cover_motion(grey, slide.lively)
    recognised = recognise_upright(grey, engine=engine, languages=languages)
    return SlideText(
        text=recognised.text,
        markdown=recognised.markdown,
        confidence=recognised.confidence,
        languages=recognised.languages,
    )


def _cover_motion(grey: Image.Image, lively: str) -> None:
    """Paint blocks in motion with the background colour: OCR would read a face as letters."""
    background = int(numpy.argmax(grey.histogram()))
    width, height = grey.size
    for row, column in numpy.argwhere(unpack_blocks(lively)).tolist():
        box = (
            *(column * width // COLUMNS, row * height // ROWS),
            *((column + 1) * width // COLUMNS, (row + 1) * height // ROWS),
        )
        grey.paste(background, box)
