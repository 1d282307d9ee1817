"""Members of a zip, read within a budget that lies about their size cannot stretch."""

import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import RawIOBase
from typing import IO, Any, TypeAlias

from lxml import etree

from ...core.errors import FileCorrupt, FileEncrypted, FileTooLarge, UnsupportedFile

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


#: lxml has no types.
Element: TypeAlias = Any

#: Dublin Core: what many formats call titles, authors and the like.
DUBLIN = "{http://purl.org/dc/elements/1.1/}"
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")

#: What nobody counts or measures; to write it down may take more digits than Python writes.
_ABSURD = 10**18
_GUARDED: dict[str, Any] = {
    "resolve_entities": False, "load_dtd": False, "no_network": True, "huge_tree": False,
    "remove_comments": True, "remove_pis": True,
}  # fmt: skip


def parsed(data: bytes) -> Element:
    if b"purl.oclc.org/ooxml" in data[:8192]:
        # "Strict" files are the same under other names.
        data = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data)
    # A parser for each part: it keeps the names of all that it has seen.
    root = etree.fromstring(data, etree.XMLParser(**_GUARDED))
    _refuse_entities(root.getroottree())
    return root


def elements(stream: Any, tags: Iterable[str]) -> Iterator[Element]:
    """Each element of these names when it is complete; what is before it is forgotten."""
    events = etree.iterparse(stream, events=("end",), tag=tuple(tags), **_GUARDED)
    is_first = True
    for _, element in events:
        if is_first and element.getroottree().docinfo.internalDTD is not None:
            raise FileCorrupt("A part of the document has a DTD, as no office program makes one")
        is_first = False
        yield element
        element.clear(keep_tail=False)
        while element.getprevious() is not None:
            del element.getparent()[0]


def integer(text: str | None, default: int = 0) -> int:
    """Numbers in attributes, some of which are written as decimals or not at all."""
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        try:
            number = int(float(text))
        except (ValueError, OverflowError):
            return default
    return number if abs(number) < _ABSURD else default


def is_true(text: str | None) -> bool:
    return text in ("1", "true")


def texts_in(holder: Element, names: Mapping[str, str]) -> dict[str, str]:
    """The texts of its children that have a name of ours, by that name."""
    found = {names[each.tag]: (each.text or "").strip() for each in holder if each.tag in names}
    return {name: text for name, text in found.items() if text}


def _refuse_entities(tree: Any) -> None:
    dtd = tree.docinfo.internalDTD
    if dtd is None:
        return
    declared = next(iter(dtd.iterentities()), None)
    used = next(tree.getroot().iter(etree.Entity), None)
    if declared is not None or used is not None:
        raise FileCorrupt("The document has entities of its own, as no honest program makes them")


#: The streams that tell, in the order in which they are looked for.
_STREAMS = {"WordDocument": "doc", "PowerPoint Document": "ppt", "Workbook": "xls", "Book": "xls"}
#: Streams of new documents that were encrypted as a whole.
_ENCRYPTED = ("EncryptedPackage", "EncryptionInfo")
_SECTOR = 512
_ENTRY = 128


def ole_kind(path: str) -> str:
    """`doc`, `xls` or `ppt`; what is encrypted or something else is refused."""
    names = _names(path)
    if any(name in names for name in _ENCRYPTED):
        raise FileEncrypted("The document is protected by a password")
    kind = next((kind for name, kind in _STREAMS.items() if name in names), None)
    if kind is None:
        raise UnsupportedFile("The file is of an old Microsoft format that is not read here")
    return kind


def refuse_ole(path: str) -> None:
    kind = ole_kind(path)
    raise UnsupportedFile(f"The old format .{kind} is read by way of a PDF only: use via_pdf")


def _names(path: str) -> set[str]:
    """Entries of directories, found by their form: it needs no walk along chains of sectors."""
    names: set[str] = set()
    with open(path, "rb") as file:
        while sector := file.read(_SECTOR):
            for start in range(0, len(sector), _ENTRY):
                entry = sector[start : start + _ENTRY]
                size = int.from_bytes(entry[64:66], "little")
                # The size counts two bytes for the end; the kind of an entry is 1, 2 or 5.
                if 4 <= size <= 64 and not size % 2 and entry[66:67] in (b"\x01", b"\x02", b"\x05"):
                    names.add(entry[: size - 2].decode("utf-16-le", "replace"))
    return names
