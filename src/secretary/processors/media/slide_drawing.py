"""A slide as a picture file, as large as the video shows it."""

import contextlib
import io
import os
from functools import partial

import numpy
from PIL import Image

from ...errors import FileCorrupt, ProcessingTimeout
from ..pictures import save_jpeg
from .likeness import is_roughly, sight_of
from .picture_stream import HEIGHT, WIDTH, one_frame
from .recording import PictureTrack
from .slides import DrawnSlide, Slide


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
