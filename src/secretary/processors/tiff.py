"""The pages of a TIFF: where each begins, and a file that begins with one of them.

Pillow walks to a page through all before it, and reads their tags on the way: with thousands of
pages that takes longer than to read their text.
"""

import struct
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

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
