"""A slide as a picture file, as large as the video shows it."""

import io
import os

from PIL import Image

from ...errors import FileCorrupt
from ..pictures import save_jpeg
from .picture_stream import one_frame
from .recording import PictureTrack
from .slides import DrawnSlide, Slide


def draw_slide(
    path: str, track: PictureTrack, slide: Slide, into: str, *, max_side: int, patience_s: float
) -> DrawnSlide:
    """The file has its name only when it is whole."""
    # A moment that was there when looking may be missing now: where the seek is coarse at the end.
    for at in (slide.at, slide.time):
        content = one_frame(path, track, at, max_side=max_side, patience_s=patience_s)
        if content:
            break
    else:
        raise FileCorrupt(f"The picture at {slide.at:.1f} s of the video cannot be decoded")
    unfinished = f"{into}/.{slide.file_name}"
    with Image.open(io.BytesIO(content), formats=["PPM"]) as picture:
        save_jpeg(picture, unfinished)
        width, height = picture.size
    os.replace(unfinished, f"{into}/{slide.file_name}")
    return DrawnSlide(number=slide.number, name=slide.file_name, width=width, height=height)
