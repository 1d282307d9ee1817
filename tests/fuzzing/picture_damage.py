"""Damages images below the compression: pixels inside a PNG, the tags of a TIFF."""

import random
import struct
import zlib

from .chunk_formats import read_png, write_png
from .chunks import Chunk
from .damage import damage_bytes

#: What TIFF tags are set to: as a type, a count or a value.
ODD_NUMBERS = (0, 1, 2, 7, 8, 255, 32773, 65535, 0x7FFFFFFF, 0xFFFFFFFF)


def png_pixels(content: bytes, chance: random.Random) -> bytes:
    """Compressed again, so that decompression finds nothing wrong."""
    chunks = read_png(content)
    packed = b"".join(chunk.content for chunk in chunks if chunk.name == b"IDAT")
    again = Chunk(b"IDAT", zlib.compress(damage_bytes(zlib.decompress(packed), chance)))
    others = [chunk for chunk in chunks if chunk.name != b"IDAT"]
    return write_png([*others[:-1], again, *others[-1:]])


def tiff_tags(content: bytes, chance: random.Random) -> bytes:
    order = "<" if content.startswith(b"II") else ">"
    damaged = bytearray(content)
    (start,) = struct.unpack_from(f"{order}I", content, 4)
    (count,) = struct.unpack_from(f"{order}H", content, start)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = start + 2 + 12 * chance.randrange(count)
        field, form = chance.choice(((0, "H"), (2, "H"), (4, "I"), (8, "I")))
        most = 0xFFFF if form == "H" else 0xFFFFFFFF
        odd = chance.choice((*ODD_NUMBERS, start, len(content), chance.randrange(most)))
        struct.pack_into(order + form, damaged, at + field, min(odd, most))
    if chance.random() < 0.2:  # the next page is this one again
        struct.pack_into(f"{order}I", damaged, start + 2 + 12 * count, start)
    return bytes(damaged)
