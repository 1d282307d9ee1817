"""Malicious images, each small on disk."""

import struct
import zlib

from PIL import Image

from .sample_documents import as_file, picture

MIB = 1024 * 1024


def zeros(count: int) -> bytes:
    """This many zero bytes, compressed: one block is compressed and repeated."""
    packer = zlib.compressobj(9)
    head = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    blocks, rest = divmod(count, MIB)
    tail = packer.compress(bytes(rest)) + packer.flush(zlib.Z_FINISH)
    if blocks < 2:
        return zlib.compress(bytes(count), 9)
    checksum = ((count % 65521) << 16) | 1
    return head + again * (blocks - 1) + tail[:-4] + checksum.to_bytes(4, "big")


def chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def png(
    width: int, height: int, pixels: bytes, *, bits: int = 1, colour: int = 0, more: bytes = b""
) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + more
        + chunk(b"IDAT", pixels)
        + chunk(b"IEND", b"")
    )


def huge_png(side: int) -> bytes:
    """Black, with one bit per pixel."""
    return png(side, side, zeros(((side + 7) // 8 + 1) * side))


def small_png(more: bytes = b"") -> bytes:
    return png(64, 64, zlib.compress((b"\x00" + b"\xff" * 8) * 64), more=more)


def png_with_bombs() -> bytes:
    bomb = zeros(256 * MIB)
    return small_png(chunk(b"iCCP", b"x\0\0" + bomb) + chunk(b"zTXt", b"k\0\0" + bomb))


def png_that_lies(width: int, height: int) -> bytes:
    """Announces much data and contains little."""
    return png(width, height, zlib.compress(bytes(100)))


def tiff(frames: int, *, loop: bool = False) -> bytes:
    """Frames of one white pixel, all with the same strip."""
    head = bytearray(b"II*\x00" + struct.pack("<I", 16) + b"\xff" * 8)
    entries = [
        (256, 3, 1, 1),
        (257, 3, 1, 1),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, 8),
        (278, 3, 1, 1),
        (279, 4, 1, 1),
    ]
    size = 2 + 12 * len(entries) + 4
    for number in range(frames):
        following = 16 + size * (number + 1)
        if number == frames - 1:
            following = 16 if loop else 0
        head += struct.pack("<H", len(entries))
        head += b"".join(struct.pack("<HHII", *entry) for entry in entries)
        head += struct.pack("<I", following)
    return bytes(head)


def tiff_tags(**tags: int) -> bytes:
    """One frame with some tags changed."""
    numbers = {
        "width": 256,
        "height": 257,
        "bits": 258,
        "compression": 259,
        "offset": 273,
        "rows": 278,
        "count": 279,
    }
    content = bytearray(tiff(1))
    for name, value in tags.items():
        at = next(
            at
            for at in range(18, len(content) - 4, 12)
            if int.from_bytes(content[at : at + 2], "little") == numbers[name]
        )
        content[at + 2 : at + 4] = struct.pack("<H", 4)
        content[at + 8 : at + 12] = struct.pack("<I", value)
    return bytes(content)


def deflated_tiff(side: int) -> bytes:
    pixels = zeros(side * side)
    content = bytearray(
        tiff_tags(width=side, height=side, compression=8, rows=side, count=len(pixels))
    )
    at = len(content)
    offset = content.index(struct.pack("<HHI", 273, 4, 1)) + 8
    content[offset : offset + 4] = struct.pack("<I", at)
    return bytes(content) + pixels


def gif(width: int, height: int, *, frame: tuple[int, int] | None = None) -> bytes:
    wide, high = frame or (width, height)
    return (
        b"GIF89a"
        + struct.pack("<HHBBB", width, height, 0x80, 0, 0)
        + b"\0\0\0\xff\xff\xff"
        + b","
        + struct.pack("<HHHHB", 0, 0, wide, high, 0)
        + b"\x02\x02\x4c\x01\x00;"
    )


def webp_that_lies(side: int) -> bytes:
    real = bytearray(picture("WEBP", "L", lossless=True))
    at = real.index(b"VP8L") + 9
    real[at : at + 4] = ((side - 1) | (side - 1) << 14).to_bytes(4, "little")
    return bytes(real)


def webp_canvas(side: int) -> bytes:
    real = picture("WEBP", "L", lossless=True)
    wide = (side - 1).to_bytes(3, "little")
    extended = b"VP8X" + struct.pack("<I", 10) + bytes(4) + wide * 2
    body = b"WEBP" + extended + real[12:]
    return b"RIFF" + struct.pack("<I", len(body)) + body


def heic_that_lies(side: int) -> bytes:
    """Announces a size, and contains nothing."""

    def box(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content) + 8) + kind + content

    size = box(b"ispe", bytes(4) + struct.pack(">II", side, side))
    config = box(b"hvcC", b"\x01" + bytes(22))
    properties = box(
        b"iprp",
        box(b"ipco", size + config) + box(b"ipma", bytes(4) + struct.pack(">IHBBB", 1, 1, 2, 1, 2)),
    )
    info = box(
        b"iinf", bytes(4) + struct.pack(">H", 1) + box(b"infe", b"\x02\0\0\0\0\x01\0\0hvc1\0")
    )
    location = box(b"iloc", bytes(4) + b"\x44\x00" + struct.pack(">HHHHII", 1, 1, 0, 1, 0, 100))
    handler = box(b"hdlr", bytes(8) + b"pict" + bytes(13))
    meta = box(
        b"meta",
        bytes(4) + handler + box(b"pitm", bytes(4) + b"\0\x01") + location + info + properties,
    )
    return box(b"ftyp", b"heic\0\0\0\0mif1heic") + meta + box(b"mdat", bytes(200))


def bmp_that_lies(width: int, height: int) -> bytes:
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + 100, 0, 0, 54) + header + bytes(100)


def exif_garbage() -> bytes:
    jpeg = picture("JPEG")
    tags = (
        b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"
        + b"\x01\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" * 90
    )
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(tags) + 2) + tags + jpeg[2:]


def scans_without_end(scans: int) -> bytes:
    """A progressive JPEG that repeats its last scan: each one is a pass over all of it."""
    real = as_file(Image.new("L", (9000, 9000), 128), "JPEG", progressive=True)
    at = real.rindex(b"\xff\xda")
    last = real[at:-2]
    return real[:at] + last * scans + b"\xff\xd9"


def odd_profile() -> bytes:
    garbage = bytes(at * 37 % 256 for at in range(5000))
    return picture("JPEG", "CMYK", icc_profile=garbage)
