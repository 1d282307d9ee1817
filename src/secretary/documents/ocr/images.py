"""Decodes images of all formats within a pixel budget: upright, on white, grey or RGB."""

import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from ...core import errors
from ...core.files import IMAGE_TYPES, detect_file_type
from ..pages import MODEL_QUALITY, MODEL_SIDE, DocumentInfo

#: A progressive JPEG is decoded at full size in memory, even if it is scaled down.
PROGRESSIVE_FACTOR = 4
#: Far beyond any real fax; files with more are attacks.
MAX_FRAMES = 20_000
#: What Pillow's decoders raise on damaged files, besides the documented errors.
DECODER_ERRORS = (
    OSError, SyntaxError, ValueError, EOFError, struct.error, IndexError, KeyError, TypeError,
    AttributeError, ArithmeticError, RuntimeError,
)  # fmt: skip


def count_frames(path: str, *, max_pixels: int) -> int:
    """Count the pages of a TIFF. Other formats have one page: their first frame."""
    with _open_image(path, 1) as picture:
        _limit_size(picture, max_pixels)
        if picture.format != "TIFF":
            return 1
    with open(path, "rb") as file:
        count = sum(1 for _ in islice(_tiff_page_offsets(file), MAX_FRAMES + 1))
    if count > MAX_FRAMES:
        raise errors.FileTooLarge(
            f"The TIFF has more than {MAX_FRAMES:,} pages", limit_pages=MAX_FRAMES
        )
    return count


def inspect_image(path: str, max_pixels: int) -> DocumentInfo:
    """Check that an image can be decoded, count its pages and describe the first one."""
    info = DocumentInfo(page_count=count_frames(path, max_pixels=max_pixels))
    with _open_image(path, 1) as picture:
        info["dimensions"] = [*picture.size]
        info["format"] = picture.format or ""
        info["color_mode"] = picture.mode
        if dpi := dpi_of(picture):
            info["dpi"] = [dpi, dpi]
    return info


def open_frame(path: str, number: int, *, max_pixels: int) -> Image.Image:
    """Decode a frame; numbers start at 1. The image's `info` contains only its `dpi`."""
    with _open_image(path, number) as picture:
        _limit_size(picture, max_pixels)
        picture.load()
        upright: Image.Image = picture
        with suppress(*DECODER_ERRORS):  # broken EXIF data
            upright = ImageOps.exif_transpose(picture)
        upright = _on_white(upright)
        dpi = dpi_of(picture)
        upright.info = {} if dpi is None else {"dpi": (dpi, dpi)}
        return upright


def dpi_of(picture: Image.Image) -> int | None:
    """Return the resolution in dots per inch, if the file states a plausible one."""
    try:
        dpi = round(float(picture.info["dpi"][0]))
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError):
        return None
    return dpi if 90 <= dpi <= 2400 else None


def save_jpeg(
    picture: Image.Image, path: str | BinaryIO, *, max_side: int | None = None, quality: int = 85
) -> None:
    if max_side and max(picture.size) > max_side:
        picture = picture.copy()
        picture.thumbnail((max_side, max_side), reducing_gap=2.0)
    if picture.mode not in ("L", "RGB"):
        picture = picture.convert("RGB")
    # EXIF data is dropped: the image is upright already.
    picture.save(path, "JPEG", quality=quality)


def inspect_picture(path: str, max_pixels: int) -> tuple[str, int, int]:
    """The format, width and height of a picture that can be decoded."""
    picture = open_frame(path, 1, max_pixels=max_pixels)
    return str(detect_file_type(Path(path))), *picture.size


def write_model_picture(path: str, target: str, max_pixels: int) -> None:
    """Write a picture as vision models get it: the first frame, upright, as a JPEG."""
    picture = open_frame(path, 1, max_pixels=max_pixels)
    save_jpeg(picture, target, max_side=MODEL_SIDE, quality=MODEL_QUALITY)


@contextmanager
def _open_image(path: str, number: int) -> Iterator[Image.Image]:
    kind = detect_file_type(Path(path))
    if kind not in IMAGE_TYPES:
        description = f"it is {kind}" if kind else "its format is unknown"
        raise errors.UnsupportedFile(f"The file is not a picture: {description}", kind=kind)
    guard = Image.MAX_IMAGE_PIXELS
    # We enforce our own budget with an error; Pillow would only warn at first.
    Image.MAX_IMAGE_PIXELS = None
    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about damage; fatal problems raise errors
            with _decoder(file, kind, number) as picture:
                yield picture
    except (UnidentifiedImageError, *DECODER_ERRORS):
        raise errors.FileCorrupt(f"The picture ({kind}) is damaged or cut off", kind=kind) from None
    finally:
        Image.MAX_IMAGE_PIXELS = guard


def _decoder(file: BinaryIO, kind: str, number: int) -> Image.Image:
    if kind == "tiff" and number > 1:
        offset = next(islice(_tiff_page_offsets(file), number - 1, None), None)
        if offset:
            return Image.open(_TiffPage(file, offset), formats=["TIFF"])
    if number != 1:
        raise errors.InvalidParameters(f"The picture has no page {number}")
    file.seek(8)
    brand = file.read(4)
    file.seek(0)
    if kind != "heif" or brand == b"avif":
        return Image.open(file)
    try:
        from pi_heif import HeifImageFile
    except ImportError:
        text = "HEIC pictures need a decoder. Install it: pip install pi-heif"
        raise errors.EngineUnavailable(text) from None
    picture: Image.Image = HeifImageFile(file)
    return picture


def _limit_size(picture: Image.Image, max_pixels: int) -> None:
    """Have an oversized JPEG decoded at a half, a quarter or an eighth of its size."""
    width, height = picture.size
    if width * height <= max_pixels:
        return
    is_large = width * height > PROGRESSIVE_FACTOR * max_pixels
    if isinstance(picture, JpegImageFile) and not (picture.info.get("progressive") and is_large):
        scale = next((n for n in (2, 4, 8) if -(-width // n) * -(-height // n) <= max_pixels), None)
        if scale:
            dpi = dpi_of(picture)
            picture.draft(None, (width // scale, height // scale))
            if dpi:
                picture.info["dpi"] = (dpi / scale, dpi / scale)
    width, height = picture.size
    if width * height > max_pixels:
        raise errors.FileTooLarge(
            f"The picture has {width:,} x {height:,} pixels; the limit is {max_pixels:,} in all",
            limit_pixels=max_pixels,
            width=width,
            height=height,
        )


def _on_white(picture: Image.Image) -> Image.Image:
    mode = picture.mode
    if mode in ("L", "RGB") and "transparency" not in picture.info:
        return picture.copy()
    if mode == "1":
        return picture.convert("L")
    if mode.startswith("I") or mode == "F":
        return _eight_bits(picture)
    if mode not in ("L", "RGB") and not picture.has_transparency_data:
        return picture.convert("RGB")
    colours = picture.convert("RGBA")
    white = Image.new("RGB", colours.size, "white")
    white.paste(colours, mask=colours.getchannel("A"))
    return white


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Keep the upper eight of 16 bits; scale wider values by the range they use."""
    values = numpy.asarray(picture)
    if picture.mode.startswith("I;16"):
        return Image.fromarray((values >> 8).astype(numpy.uint8))
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 65535 and picture.mode == "I":
        low, high = 0.0, 65535.0 if high > 255 else 255.0
    span = (high - low) or 1.0
    return Image.fromarray(((values - low) * (255.0 / span)).astype(numpy.uint8))


#: Size of a directory entry, struct formats of the entry count and of offsets, header size.
_CLASSIC_TIFF = (12, "H", "I", 4)
_BIG_TIFF = (20, "Q", "Q", 8)


def _tiff_page_offsets(file: BinaryIO) -> Iterator[int]:
    """Yield the offsets of the page directories, up to the end of the file or a cycle."""
    order, (entry_size, count_format, offset_format, start) = _tiff_layout(file)
    visited: set[int] = set()
    next_offset = _read_number(file, start, order + offset_format)
    while next_offset and next_offset not in visited:
        visited.add(next_offset)
        entries = _read_number(file, next_offset, order + count_format)
        if entries is None:
            return
        yield next_offset
        entries_end = next_offset + struct.calcsize(count_format) + entries * entry_size
        next_offset = _read_number(file, entries_end, order + offset_format)


class _TiffPage:
    """A TIFF file presented as if the page at `offset` were its first."""

    def __init__(self, file: BinaryIO, offset: int) -> None:
        order, (_, _, offset_format, start) = _tiff_layout(file)
        file.seek(0)
        self._head = file.read(start) + struct.pack(order + offset_format, offset)
        self._file = file
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        position = self._file.tell()
        data = self._file.read(size)
        head = self._head[position : position + len(data)]
        return head + data[len(head) :]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _tiff_layout(file: BinaryIO) -> tuple[str, tuple[int, str, str, int]]:
    file.seek(0)
    head = file.read(4)
    order = "<" if head[:2] == b"II" else ">"
    return order, _BIG_TIFF if 43 in head[2:] else _CLASSIC_TIFF


def _read_number(file: BinaryIO, position: int, format_: str) -> int | None:
    try:
        file.seek(position)
    except (OSError, ValueError):  # beyond any possible file size
        return None
    data = file.read(struct.calcsize(format_))
    return int(struct.unpack(format_, data)[0]) if len(data) == struct.calcsize(format_) else None
