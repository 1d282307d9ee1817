"""Sound and video without a beginning of their own, told by marks that come again and again."""

import mmap
from collections.abc import Callable

Bytes = bytes | mmap.mmap
LengthAt = Callable[[Bytes, int], int]

#: A mark may stand in any file by chance; so many in a row do not.
_IN_A_ROW = 3
#: In bytes: as sent, as Blu-ray discs and cameras keep it, as sent with a checksum.
_PACKETS = (188, 192, 204)
#: In kbit/s, by version (1 or 2) and layer.
_BIT_RATES = {
    (1, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (1, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (2, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_OLD_TAG_BYTES = 128
_RATES = (44_100, 48_000, 32_000)


def kind_by_frames(head: bytes) -> str | None:
    """`mp3` (of all layers) or `aac`: frames from the first byte on, as far as `head` goes."""
    for kind, length_at in _LENGTHS.items():
        if _frames_from(head, 0, length_at):
            return kind
    return None


def kind_by_later_frames(head: bytes) -> str | None:
    """Of what was cut out of a longer file, and begins in the middle of a frame."""
    at = head.find(b"\xff")
    while at != -1:
        for kind, length_at in _LENGTHS.items():
            if _frames_from(head, at, length_at) >= _IN_A_ROW:
                return kind
        at = head.find(b"\xff", at + 1)
    return None


def share_between_frames(path: str, kind: str) -> float:
    """How much of a file of this kind is no frame but has frames before and behind it; 0 to 1."""
    length_at = _LENGTHS[kind]
    sound = other = 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = _next_frame(content, 0, length_at)
        while at != -1:
            end = at
            while end + 4 <= len(content) and (length := length_at(content, end)):
                end += length
            sound += end - at
            at = _next_frame(content, tagged := _behind_tags(content, end), length_at)
            other += max(at - tagged, 0)
    return other / (sound + other) if sound else 0.0


def _next_frame(content: Bytes, at: int, length_at: LengthAt) -> int:
    """One that another follows; -1 when there is none."""
    while (at := content.find(b"\xff", at)) != -1 and at + 4 <= len(content):
        length = length_at(content, at)
        if length and at + length + 4 <= len(content) and length_at(content, at + length):
            return at
        at += 1
    return -1


def _behind_tags(content: Bytes, at: int) -> int:
    """They stand between the parts where files were put together."""
    if content[at : at + 3] == b"TAG":
        at += _OLD_TAG_BYTES
    while content[at : at + 3] == b"ID3":
        at += tag_length(content[at : at + 10])
    return at


def tag_length(head: bytes) -> int:
    """Of an ID3 tag with its first ten bytes."""
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size


def is_transport_stream(head: bytes) -> bool:
    """Whether its packets come from the first byte on, or after what is left of one."""
    return any(_packets_from(head, at, size) for size in _PACKETS for at in range(size))


def _packets_from(head: bytes, at: int, size: int) -> bool:
    """Each begins with the same letter, which a text may have here and there."""
    marks = head[at::size]
    return len(marks) >= _IN_A_ROW and set(marks) == {0x47}


def _frames_from(head: bytes, at: int, length_at: LengthAt) -> int:
    """How many there are one behind the other; 0 when what follows one is none."""
    count = 0
    while at + 4 <= len(head):
        length = length_at(head, at)
        if not length:
            return 0
        count, at = count + 1, at + length
    return count


def _adts_length(head: Bytes, at: int) -> int:
    """In bytes; 0 when there is no such frame."""
    if head[at] != 0xFF or head[at + 1] & 0xF6 != 0xF0:
        return 0
    if (head[at + 2] >> 2) & 0b1111 > 12:  # no such rate
        return 0
    if at + 6 > len(head):
        return len(head)
    length = (head[at + 3] & 0b11) << 11 | head[at + 4] << 3 | head[at + 5] >> 5
    return length if length > 7 else 0


def _mpeg_length(head: Bytes, at: int) -> int:
    if head[at] != 0xFF or head[at + 1] & 0xE0 != 0xE0:
        return 0
    version, layer = (head[at + 1] >> 3) & 0b11, 4 - ((head[at + 1] >> 1) & 0b11)
    bit_rate, rate = head[at + 2] >> 4, (head[at + 2] >> 2) & 0b11
    # Of layer I there are no files, and a text in UTF-16 begins like one.
    if version == 1 or layer not in (2, 3) or bit_rate in (0, 15) or rate == 3:
        return 0
    bits = _BIT_RATES[1 if version == 3 else 2, layer][bit_rate - 1] * 1000
    hertz = _RATES[rate] >> {3: 0, 2: 1, 0: 2}[version]
    samples = 1152 if version == 3 or layer == 2 else 576
    return samples // 8 * bits // hertz + ((head[at + 2] >> 1) & 1)


_LENGTHS: dict[str, LengthAt] = {"aac": _adts_length, "mp3": _mpeg_length}
