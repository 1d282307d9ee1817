"""Reads the ZIP and OLE containers of office files safely."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from typing import IO, Any

from ...core.errors import FileCorrupt, FileEncrypted, FileTooLarge, UnsupportedFile

MIB = 1024 * 1024
#: Of a member that is read into memory as a whole.
MAX_PART_BYTES = 128 * MIB
#: XML of real documents compresses 50:1 at best; deflate is limited to about 1000:1.
MAX_RATIO = 250
#: Below this size any ratio is harmless: a blank sheet or image compresses to almost nothing.
MIN_RATIO_BYTES = 8 * MIB
_CHUNK = 256 * 1024
_IS_ENCRYPTED = 1
#: The formats allow no others.
_COMPRESSION_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


#: Characters in the cells of all tables. Cells may share one long text, so a small file can have
#: more than fits into memory.
MAX_CELL_CHARACTERS = 100_000_000


class Archive:
    """A ZIP archive with a limit on its expanded size. Names are case-insensitive, as in OOXML."""

    def __init__(self, archive: zipfile.ZipFile, max_expanded_bytes: int) -> None:
        self._archive = archive
        self._members = {member.filename.lower(): member for member in archive.infolist()}
        self._max_expanded_bytes = max_expanded_bytes
        self._expanded_bytes = 0
        self._cell_characters = 0

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._members

    def read(self, name: str, max_bytes: int = MAX_PART_BYTES) -> bytes:
        content = bytearray()
        with self.stream(name) as stream:
            while chunk := stream.read(_CHUNK):
                content += chunk
                if len(content) > max_bytes:
                    raise FileTooLarge("A part of the document is too large", limit_bytes=max_bytes)
        return bytes(content)

    @contextmanager
    def stream(self, name: str) -> "Iterator[_CountingStream]":
        member = self._members.get(name.lower())
        if member is None:
            raise FileCorrupt("A part of the document is missing")
        if member.flag_bits & _IS_ENCRYPTED:
            raise FileEncrypted("The document is protected by a password")
        if member.compress_type not in _COMPRESSION_METHODS:
            raise FileCorrupt("A part of the document is packed with an unsupported method")
        with self._archive.open(member) as stream:
            yield _CountingStream(stream, member, self)

    def check_declared_bytes(self) -> None:
        """Check the expanded size the archive claims: enough to reject it, not to trust it."""
        self._check_size(sum(member.file_size for member in self._members.values()))

    def count(self, size: int) -> None:
        self._expanded_bytes += size
        self._check_size(self._expanded_bytes)

    def count_cell_text(self, characters: int) -> None:
        """Call this for the text of each cell before it is kept."""
        self._cell_characters += characters
        if self._cell_characters > MAX_CELL_CHARACTERS:
            text = f"The cells of the document have more than {MAX_CELL_CHARACTERS:,} characters"
            raise FileTooLarge(text, limit=MAX_CELL_CHARACTERS)

    def _check_size(self, size: int) -> None:
        if size > self._max_expanded_bytes:
            text = "The document is larger than allowed once it is unpacked"
            raise FileTooLarge(text, limit_bytes=self._max_expanded_bytes)


#: Errors of the ZIP reader on damaged files; the last one is for names that are not UTF-8.
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError)


@contextmanager
def open_archive(path: str, max_expanded_bytes: int) -> Iterator[Archive]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield Archive(archive, max_expanded_bytes)
    except _ZIP_ERRORS as error:
        raise FileCorrupt("The document is damaged and cannot be unpacked") from error


class _CountingStream(RawIOBase):
    """Counts the bytes that are really read, whatever the archive's directory claims."""

    def __init__(self, stream: IO[bytes], member: zipfile.ZipInfo, archive: Archive) -> None:
        self._stream = stream
        self._archive = archive
        self._bytes = 0
        self._max_bytes = max(member.compress_size * MAX_RATIO, MIN_RATIO_BYTES)

    def read(self, size: int = -1) -> Any:
        chunk = self._stream.read(size if 0 <= size < _CHUNK else _CHUNK)
        self._bytes += len(chunk)
        if self._bytes > self._max_bytes:
            raise FileTooLarge("The document is packed so tightly that it looks like a zip bomb")
        self._archive.count(len(chunk))
        return chunk


#: Streams that identify the format, in order of precedence.
_STREAMS = {"WordDocument": "doc", "PowerPoint Document": "ppt", "Workbook": "xls", "Book": "xls"}
#: Streams of OOXML documents that were encrypted as a whole.
_ENCRYPTED = ("EncryptedPackage", "EncryptionInfo")
_SECTOR = 512
_ENTRY = 128


def detect_ole_type(path: str) -> str:
    """Return `doc`, `xls` or `ppt`; encrypted and other files are rejected."""
    names = _ole_stream_names(path)
    if any(name in names for name in _ENCRYPTED):
        raise FileEncrypted("The document is protected by a password")
    kind = next((kind for name, kind in _STREAMS.items() if name in names), None)
    if kind is None:
        raise UnsupportedFile("The file has an unsupported legacy Microsoft format")
    return kind


def _ole_stream_names(path: str) -> set[str]:
    """Return the names of directory entries, found by their form without following sectors."""
    names: set[str] = set()
    with open(path, "rb") as file:
        while sector := file.read(_SECTOR):
            for start in range(0, len(sector), _ENTRY):
                entry = sector[start : start + _ENTRY]
                size = int.from_bytes(entry[64:66], "little")
                # The size includes two bytes for the terminator; the entry type is 1, 2 or 5.
                if 4 <= size <= 64 and not size % 2 and entry[66:67] in (b"\x01", b"\x02", b"\x05"):
                    names.add(entry[: size - 2].decode("utf-16-le", "replace"))
    return names
