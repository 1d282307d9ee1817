"""Pictures of every kind, opened within a budget of pixels: upright, on white, grey or RGB."""

import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from ...core.errors import (
    EngineUnavailable,
    FileCorrupt,
    FileTooLarge,
    InvalidParameters,
    UnsupportedFile,
)
from ...core.file_types import IMAGE_TYPES, detect_file_type

#: Size of an entry, and how the count of entries and the place of the next page are written.
_CLASSIC = (12, "H", "I", 4)
_BIG = (20, "Q", "Q", 8)


def page_places(file: BinaryIO) -> Iterator[int]:
    """The places of the directories. Ends where the file does, or where it turns in a circle."""
    order, (entry, count, place, start) = _layout(file)
    seen: set[int] = set()
    following = _number(file, start, order + place)
    while following and following not in seen:
        seen.add(following)
        entries = _number(file, following, order + count)
        if entries is None:
            return
        yield following
        behind = following + struct.calcsize(count) + entries * entry
        following = _number(file, behind, order + place)


class FromPage:
    """The file as if the page at `place` were its first."""

    def __init__(self, file: BinaryIO, place: int) -> None:
        order, (_, _, width, start) = _layout(file)
        file.seek(0)
        self._head = file.read(start) + struct.pack(order + width, place)
        self._file = file
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        at = self._file.tell()
        data = self._file.read(size)
        head = self._head[at : at + len(data)]
        return head + data[len(head) :]

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()


def page_place(file: BinaryIO, number: int) -> int | None:
    return next(islice(page_places(file), number - 1, None), None)


def _layout(file: BinaryIO) -> tuple[str, tuple[int, str, str, int]]:
    file.seek(0)
    head = file.read(4)
    order = "<" if head[:2] == b"II" else ">"
    return order, _BIG if 43 in head[2:] else _CLASSIC


def _number(file: BinaryIO, at: int, form: str) -> int | None:
    try:
        file.seek(at)
    except (OSError, ValueError):  # farther than any file reaches
        return None
    data = file.read(struct.calcsize(form))
    return int(struct.unpack(form, data)[0]) if len(data) == struct.calcsize(form) else None


#: A progressive JPEG is held whole, however small it is to become.
PROGRESSIVE_FACTOR = 4
#: Far beyond any fax; what has more is made to keep us busy.
MAX_FRAMES = 20_000
#: What Pillow's readers raise on damaged files, beside what they should.
DAMAGE = (
    OSError, SyntaxError, ValueError, EOFError, struct.error, IndexError, KeyError, TypeError,
    AttributeError, ArithmeticError, RuntimeError,
)  # fmt: skip


def count_frames(path: str, *, max_pixels: int) -> int:
    """The pages of a TIFF. Of all other kinds only the first frame is a page."""
    with _opened(path, 1) as picture:
        _reduce_jpeg(picture, max_pixels)
        _check_size(picture, max_pixels)
        if picture.format != "TIFF":
            return 1
    with open(path, "rb") as file:
        count = sum(1 for _ in islice(page_places(file), MAX_FRAMES + 1))
    if count > MAX_FRAMES:
        raise FileTooLarge(f"The TIFF has more than {MAX_FRAMES:,} pages", limit_pages=MAX_FRAMES)
    return count


def open_frame(path: str, number: int, *, max_pixels: int) -> Image.Image:
    """Frame numbers begin with 1. The picture's `info` holds no more than its `dpi`."""
    with _opened(path, number) as picture:
        _reduce_jpeg(picture, max_pixels)
        _check_size(picture, max_pixels)
        picture.load()
        upright = _on_white(_turned(picture))
        dpi = dpi_of(picture)
        upright.info = {} if dpi is None else {"dpi": (dpi, dpi)}
        return upright


def dpi_of(picture: Image.Image) -> int | None:
    """Dots per inch, where the file tells them and they can be true."""
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
    # No EXIF goes along: the picture is upright already.
    picture.save(path, "JPEG", quality=quality)


@contextmanager
def _opened(path: str, number: int) -> Iterator[Image.Image]:
    kind = detect_file_type(Path(path))
    if kind not in IMAGE_TYPES:
        named = f"it is {kind}" if kind else "its content is of no kind that is known"
        raise UnsupportedFile(f"The file is not a picture: {named}", kind=kind)
    guard = Image.MAX_IMAGE_PIXELS
    # The budget is ours, and an error; Pillow's own would come as a warning first.
    Image.MAX_IMAGE_PIXELS = None
    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about damage; what matters comes as an error
            with _reader(file, kind, number) as picture:
                yield picture
    except (UnidentifiedImageError, *DAMAGE):
        raise FileCorrupt(f"The picture ({kind}) is damaged or cut off", kind=kind) from None
    finally:
        Image.MAX_IMAGE_PIXELS = guard


def _reader(file: BinaryIO, kind: str, number: int) -> Image.Image:
    if kind == "tiff" and number > 1:
        place = page_place(file, number)
        if place:
            return Image.open(FromPage(file, place), formats=["TIFF"])  # type: ignore[arg-type]  # all it uses
    if number != 1:
        raise InvalidParameters(f"The picture has no page {number}")
    if kind == "heif" and not _is_avif(file):
        return _heic(file)
    return Image.open(file)


def _is_avif(file: BinaryIO) -> bool:
    file.seek(8)
    brand = file.read(4)
    file.seek(0)
    return brand == b"avif"


def _heic(file: BinaryIO) -> Image.Image:
    try:
        from pi_heif import HeifImageFile
    except ImportError:
        raise EngineUnavailable(
            "HEIC pictures need a decoder. Install it: pip install pi-heif"
        ) from None
    picture: Image.Image = HeifImageFile(file)
    return picture


def _reduce_jpeg(picture: Image.Image, max_pixels: int) -> None:
    """A JPEG can be read at half, a quarter or an eighth of its size, at less than the cost."""
    width, height = picture.size
    pixels = width * height
    if not isinstance(picture, JpegImageFile) or pixels <= max_pixels:
        return
    if picture.info.get("progressive") and pixels > PROGRESSIVE_FACTOR * max_pixels:
        return
    scale = next((n for n in (2, 4, 8) if -(-width // n) * -(-height // n) <= max_pixels), None)
    if scale:
        dpi = dpi_of(picture)
        picture.draft(None, (width // scale, height // scale))
        if dpi:
            picture.info["dpi"] = (dpi / scale, dpi / scale)


def _check_size(picture: Image.Image, max_pixels: int) -> None:
    width, height = picture.size
    if width * height > max_pixels:
        raise FileTooLarge(
            f"The picture has {width:,} x {height:,} pixels; the limit is {max_pixels:,} in all",
            limit_pixels=max_pixels,
            width=width,
            height=height,
        )


def _turned(picture: Image.Image) -> Image.Image:
    """As its camera was held."""
    try:
        return ImageOps.exif_transpose(picture)
    except DAMAGE:
        return picture  # whatever is wrong with its EXIF, the picture itself is there


def _on_white(picture: Image.Image) -> Image.Image:
    mode = picture.mode
    if mode in ("L", "RGB"):
        has_colour_for_none = "transparency" in picture.info
        return _composed(picture) if has_colour_for_none else picture.copy()
    if mode == "1":
        return picture.convert("L")
    if mode.startswith("I") or mode == "F":
        return _eight_bits(picture)
    if picture.has_transparency_data:
        return _composed(picture)
    return picture.convert("RGB")


def _composed(picture: Image.Image) -> Image.Image:
    colours = picture.convert("RGBA")
    white = Image.new("RGB", colours.size, "white")
    white.paste(colours, mask=colours.getchannel("A"))
    return white


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Of 16 bits the upper eight; of wider values whatever range they use."""
    values = numpy.asarray(picture)
    if picture.mode.startswith("I;16"):
        return Image.fromarray((values >> 8).astype(numpy.uint8))
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 65535 and picture.mode == "I":
        low, high = 0.0, 65535.0 if high > 255 else 255.0
    span = (high - low) or 1.0
    return Image.fromarray(((values - low) * (255.0 / span)).astype(numpy.uint8))
