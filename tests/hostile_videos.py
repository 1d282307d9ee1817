"""Videos that are meant to break their reader."""

import struct
from pathlib import Path

import numpy

from .video_files import H264, film, five_slides, shown


def one_pixel(path: Path) -> Path:
    grey = numpy.full((1, 1), 90, numpy.uint8)
    return film(path, [grey] * 24, options=("-c:v", "ffv1"))


def one_frame(path: Path) -> Path:
    return film(path, five_slides()[:1])


def cut_off(path: Path) -> Path:
    """A Matroska file that ends in the middle of its third slide."""
    film(path, shown(five_slides(), [3] * 5), options=(*H264, "-g", "8"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


def a_year_long(path: Path) -> Path:
    """Claims a length in its header, but contains nine seconds."""
    film(path, shown(five_slides()[:3], [3] * 3))
    content = bytearray(path.read_bytes())
    for name in (b"mvhd", b"tkhd", b"mdhd"):
        offset = content.index(name) + 4
        scale = 4 if name == b"tkhd" else 0
        at = offset + 16 + scale
        rate = 1000 if name == b"tkhd" else struct.unpack_from(">I", content, offset + 12)[0]
        struct.pack_into(">I", content, at, min(0xFFFFFFFE, 31_536_000 * rate))
    path.write_bytes(content)
    return path


def damaged(path: Path) -> Path:
    """Every thousandth byte of the pictures is changed."""
    film(path, shown(five_slides(), [3] * 5), options=(*H264, "-g", "8", "-movflags", "+faststart"))
    content = numpy.frombuffer(path.read_bytes(), numpy.uint8).copy()
    content[6000::1000] ^= 255
    path.write_bytes(content.tobytes())
    return path


def no_pictures_inside(path: Path) -> Path:
    """The index is intact; everything it points to is gone."""
    film(path, shown(five_slides(), [3] * 5), options=(*H264, "-movflags", "+faststart"))
    content = path.read_bytes()
    offset = content.index(b"mdat") + 4
    path.write_bytes(content[:offset] + bytes(len(content) - offset))
    return path


def growing(path: Path) -> Path:
    """The size of the pictures changes midway."""
    small = film(path.with_suffix(".a.ts"), shown(five_slides(320)[:2], [3, 3]))
    large = film(path.with_suffix(".b.ts"), shown(five_slides(640)[2:4], [3, 3]))
    path.write_bytes(small.read_bytes() + large.read_bytes())
    return path
