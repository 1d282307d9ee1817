"""Parses files into chunks and writes them again, with correct sizes and checksums."""

import struct
import zlib
from collections.abc import Iterator

from .chunks import Chunk, damage_of

#: Boxes of MP4, HEIF and JPEG 2000 that contain boxes, and how many bytes precede those.
BOXES = {
    **dict.fromkeys(
        (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"dinf", b"edts", b"udta", b"mvex", b"moof",
         b"traf", b"ilst", b"iprp", b"ipco", b"jp2h"), 0,
    ),
    **dict.fromkeys((b"meta",), 4),
    **dict.fromkeys((b"iinf",), 6),
    **dict.fromkeys((b"stsd", b"dref"), 8),
}  # fmt: skip
#: Of Matroska and WebM.
ELEMENTS = frozenset(
    bytes.fromhex(name)
    for name in (
        "18538067", "114d9b74", "4dbb", "1549a966", "1654ae6b", "ae", "e0", "e1", "1f43b675", "a0",
        "1c53bb6b", "bb", "b7", "1254c367", "7373", "63c0", "67c8", "1043a770", "45b9", "b6", "80",
        "1941a469", "61a7", "6d80", "6240",
    )
)  # fmt: skip
LISTS = (b"RIFF", b"LIST")


def read_boxes(content: bytes) -> list[Chunk]:
    return list(_boxes(content))


def _boxes(content: bytes) -> Iterator[Chunk]:
    at = 0
    while at + 8 <= len(content):
        size, name = struct.unpack_from(">I4s", content, at)
        start = at + 8
        if size == 1:
            size, start = struct.unpack_from(">Q", content, start)[0], at + 16
        end = at + size if start - at <= size <= len(content) - at else len(content)
        before = BOXES.get(name)
        if before is None:
            yield Chunk(name, content[start:end])
        else:
            yield Chunk(
                name, content[start : start + before], read_boxes(content[start + before : end])
            )
        at = end


def write_boxes(chunks: list[Chunk]) -> bytes:
    written = []
    for chunk in chunks:
        content = chunk.content + write_boxes(chunk.inside)
        written.append(struct.pack(">I", len(content) + 8) + chunk.name + content)
    return b"".join(written)


def read_riff(content: bytes) -> list[Chunk]:
    chunks, at = [], 0
    while at + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, at)
        body = content[at + 8 : at + 8 + size]
        if name in LISTS:
            chunks.append(Chunk(name, body[:4], read_riff(body[4:])))
        else:
            chunks.append(Chunk(name, body))
        at += 8 + size + size % 2
    return chunks


def write_riff(chunks: list[Chunk]) -> bytes:
    written = []
    for chunk in chunks:
        content = chunk.content + write_riff(chunk.inside)
        written.append(chunk.name + struct.pack("<I", len(content)) + content)
        written.append(bytes(len(content) % 2))
    return b"".join(written)


def read_matroska(content: bytes) -> list[Chunk]:
    chunks, at = [], 0
    while at < len(content) and content[at]:
        length = 9 - content[at].bit_length()
        name, at = content[at : at + length], at + length
        if at >= len(content) or not content[at]:
            break
        length = 9 - content[at].bit_length()
        size = int.from_bytes(content[at : at + length], "big") & ((1 << 7 * length) - 1)
        at += length
        is_open = size == (1 << 7 * length) - 1
        end = len(content) if is_open else min(at + size, len(content))
        if name in ELEMENTS:
            chunks.append(Chunk(name, b"", read_matroska(content[at:end])))
        else:
            chunks.append(Chunk(name, content[at:end]))
        at = end
    return chunks


def write_matroska(chunks: list[Chunk]) -> bytes:
    written = []
    for chunk in chunks:
        content = chunk.content + write_matroska(chunk.inside)
        written.append(chunk.name + (len(content) | 1 << 56).to_bytes(8, "big") + content)
    return b"".join(written)


def read_png(content: bytes) -> list[Chunk]:
    chunks, at = [], 8
    while at + 12 <= len(content):
        size, name = struct.unpack_from(">I4s", content, at)
        chunks.append(Chunk(name, content[at + 8 : at + 8 + size]))
        at += size + 12
    return chunks


def write_png(chunks: list[Chunk]) -> bytes:
    written = [b"\x89PNG\r\n\x1a\n"]
    for chunk in chunks:
        content = chunk.content + write_png(chunk.inside)[8:]
        named = chunk.name + content
        written.append(struct.pack(">I", len(content)) + named)
        written.append(struct.pack(">I", zlib.crc32(named)))
    return b"".join(written)


def read_jpeg(content: bytes) -> list[Chunk]:
    """Segments; the image data is one after all others."""
    chunks, at = [], 2
    while at + 4 <= len(content) and content[at] == 0xFF:
        name, size = content[at : at + 2], int.from_bytes(content[at + 2 : at + 4], "big")
        chunks.append(Chunk(name, content[at + 4 : at + 2 + size]))
        at += 2 + size
        if name == b"\xff\xda":
            break
    return [*chunks, Chunk(b"", content[at:])]


def write_jpeg(chunks: list[Chunk]) -> bytes:
    written = [b"\xff\xd8"]
    for chunk in chunks:
        content = chunk.content + write_jpeg(chunk.inside)[2:]
        size = struct.pack(">H", (len(content) + 2) & 0xFFFF) if chunk.name else b""
        written.append(chunk.name + size + content)
    return b"".join(written)


def read_ogg(content: bytes) -> list[Chunk]:
    """Pages: the header of each is its name, so that it moves with the page undamaged."""
    chunks, at = [], 0
    while at + 27 <= len(content) and content[at : at + 4] == b"OggS":
        count = content[at + 26]
        start = at + 27 + count
        end = start + sum(content[at + 27 : start])
        chunks.append(Chunk(content[at:start], content[start:end]))
        at = end
    return chunks


def write_ogg(chunks: list[Chunk]) -> bytes:
    written = []
    for chunk in chunks:
        content = chunk.content + b"".join(one.content for one in chunk.inside)
        head = bytearray(chunk.name)
        sizes = [255] * min(len(content) // 255, 254)
        sizes.append(min(len(content) - 255 * len(sizes), 255))
        if sum(head[27:]) != len(content):
            head[26:] = bytes([len(sizes), *sizes])
        head[22:26] = bytes(4)
        head[22:26] = struct.pack("<I", _ogg_checksum(bytes(head) + content))
        written.append(bytes(head) + content)
    return b"".join(written)


def _ogg_checksum(page: bytes) -> int:
    """CRC-32 without bit reflection, which no library has: the bits of each byte are reversed."""
    turned = zlib.crc32(page.translate(TURNED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{turned:032b}"[::-1], 2)


TURNED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))

boxes = damage_of(read_boxes, write_boxes)
riff = damage_of(read_riff, write_riff)
matroska = damage_of(read_matroska, write_matroska)
png = damage_of(read_png, write_png)
jpeg = damage_of(read_jpeg, write_jpeg)
ogg = damage_of(read_ogg, write_ogg)
