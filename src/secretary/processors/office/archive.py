"""Members of a zip, read within a budget that lies about their size cannot stretch."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from typing import IO, Any

from ...errors import FileCorrupt, FileEncrypted, FileTooLarge

MIB = 1024 * 1024
#: Of a member that is held in memory as a whole.
MAX_PART_BYTES = 128 * MIB
#: XML of honest documents shrinks to a fiftieth at the best, deflate ends at a thousandth.
MAX_RATIO = 250
#: Below this the ratio does no harm: a blank sheet or picture shrinks to almost nothing.
RATIO_MATTERS_BYTES = 8 * MIB
_CHUNK = 256 * 1024
_IS_ENCRYPTED = 1
#: The formats know no others, and damage to those ends in errors of their own.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Archive:
    """Names are looked up as OOXML wants it: whatever their case."""

    def __init__(self, archive: zipfile.ZipFile, max_expanded_bytes: int) -> None:
        self._archive = archive
        self._members = {member.filename.lower(): member for member in archive.infolist()}
        self._max_expanded_bytes = max_expanded_bytes
        self._expanded_bytes = 0

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._members

    def read(self, name: str, max_bytes: int = MAX_PART_BYTES) -> bytes:
        with self.stream(name) as stream:
            parts: list[bytes] = []
            size = 0
            while chunk := stream.read(_CHUNK):
                size += len(chunk)
                if size > max_bytes:
                    raise FileTooLarge("A part of the document is too large", limit_bytes=max_bytes)
                parts.append(chunk)
        return b"".join(parts)

    @contextmanager
    def stream(self, name: str) -> "Iterator[_Metered]":
        member = self._members.get(name.lower())
        if member is None:
            raise FileCorrupt("A part of the document is missing")
        if member.flag_bits & _IS_ENCRYPTED:
            raise FileEncrypted("The document is protected by a password")
        if member.compress_type not in _PACKINGS:
            raise FileCorrupt("A part of the document is packed as no office program does it")
        with self._archive.open(member) as stream:
            yield _Metered(stream, member, self)

    @property
    def declared_bytes(self) -> int:
        return sum(member.file_size for member in self._members.values())

    def count(self, size: int) -> None:
        self._expanded_bytes += size
        if self._expanded_bytes > self._max_expanded_bytes:
            text = "The document is larger than allowed once it is unpacked"
            raise FileTooLarge(text, limit_bytes=self._max_expanded_bytes)


#: What a damaged zip makes its reader raise; the last is for names that are no UTF-8.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError)


@contextmanager
def opened_archive(path: str, max_expanded_bytes: int) -> Iterator[Archive]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield Archive(archive, max_expanded_bytes)
    except DAMAGE as error:
        raise FileCorrupt("The document is damaged and cannot be unpacked") from error


class _Metered(RawIOBase):
    """Counts what really comes out, as the table of contents says what it likes."""

    def __init__(self, stream: IO[bytes], member: zipfile.ZipInfo, archive: Archive) -> None:
        self._stream = stream
        self._archive = archive
        self._bytes = 0
        self._max_bytes = max(member.compress_size * MAX_RATIO, RATIO_MATTERS_BYTES)

    def read(self, size: int = -1) -> Any:
        chunk = self._stream.read(size if 0 <= size < _CHUNK else _CHUNK)
        self._bytes += len(chunk)
        if self._bytes > self._max_bytes:
            raise FileTooLarge("The document is packed so tightly that it cannot be an honest one")
        self._archive.count(len(chunk))
        return chunk


def declared_bytes(path: str) -> int:
    """What a zip says it expands to: enough to refuse, not to trust."""
    with opened_archive(path, 0) as archive:
        return archive.declared_bytes
