"""What kind of file something is, told by its content: names and announced types can be wrong."""

import re
import zipfile
from pathlib import Path

from .sound_frames import is_transport_stream, kind_by_frames, kind_by_later_frames, tag_length

#: How much of the beginning is looked at. Some programs write before a PDF's own beginning.
HEAD = 4096
PDF_WITHIN = 1024
#: The table of contents of a zip. A document's is small; a hostile one would fill our memory.
MAX_CONTENTS = 8 * 1024 * 1024
#: Records at the end of a zip, and where in them the size of the table stands.
ENDS_OF_ZIP = ((b"PK\x05\x06", slice(12, 16)), (b"PK\x06\x06", slice(40, 48)))
#: The longest tail in which a reader looks for those records: both, and a comment.
TAIL = 22 + 0xFFFF + 20 + 56

OFFICE = frozenset(
    {"docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "rtf", "ole", "html", "text"}
)
PICTURES = frozenset({"png", "jpeg", "gif", "webp", "tiff", "bmp", "heif", "jp2"})
SOUND = frozenset(
    {"mp3", "wav", "w64", "flac", "ogg", "aac", "mp4", "webm", "aiff", "amr", "asf", "caf", "au"}
)
MOVING = frozenset({"mp4", "webm", "avi", "mpeg", "mpegts", "ogg", "asf", "flv"})

#: Kinds by how they begin.
BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jp2"),
    (b"{\\rtf", "rtf"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"fLaC", "flac"),
    (b"OggS", "ogg"),
    (b"\x1aE\xdf\xa3", "webm"),
    (b"#!AMR", "amr"),
    (b"0&\xb2u\x8ef\xcf\x11", "asf"),
    (b"FLV\x01", "flv"),
    (b"\x00\x00\x01\xba", "mpeg"),
    (b"\x00\x00\x01\xb3", "mpeg"),
    (b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00", "w64"),
    (b"caff\x00\x01", "caf"),
    (b".snd\x00\x00", "au"),
)
#: Containers that say at byte 8 what they hold.
INSIDE_RIFF = {b"WAVE": "wav", b"AVI ": "avi", b"WEBP": "webp"}
#: The same with numbers of 64 bits, or with the bytes of all numbers turned round.
KINDS_OF_RIFF = frozenset({b"RIFF", b"RF64", b"BW64", b"RIFX"})
INSIDE_FORM = {b"AIFF": "aiff", b"AIFC": "aiff"}
#: What a film may begin with that does not say its brand.
QUICKTIME = frozenset({b"moov", b"mdat", b"moof", b"styp", b"wide", b"free", b"skip", b"pnot"})
#: More ID3 tags than this nobody writes one behind the other.
MAX_TAGS = 4
PICTURE_BRANDS = frozenset({b"heic", b"heix", b"mif1", b"msf1", b"hevc", b"avif"})
#: Documents that are a zip, by a directory they have.
INSIDE_ZIP = {"word/": "docx", "xl/": "xlsx", "ppt/": "pptx"}
MIME_TYPES = {
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.spreadsheet": "ods",
    b"application/vnd.oasis.opendocument.presentation": "odp",
    b"application/epub+zip": "epub",
}


def kind_of(path: Path) -> str | None:
    """The kind of a file, None when it is none we know. Reads no more than it must."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_zip(path)
    if _has_tag(head):
        return _kind_after_tags(path)
    return _kind_by_head(head)


def _kind_by_head(head: bytes) -> str | None:
    if b"%PDF-" in head[:PDF_WITHIN]:
        return "pdf"
    if head[4:8] == b"ftyp":
        return "heif" if head[8:12] in PICTURE_BRANDS else "mp4"
    if head[4:8] in QUICKTIME and min(head[:4]) < 9:  # no text has such a number before it
        return "mp4"
    if head[:4] in KINDS_OF_RIFF and head[8:12] in INSIDE_RIFF:
        return INSIDE_RIFF[head[8:12]]
    if head[:4] == b"FORM" and head[8:12] in INSIDE_FORM:
        return INSIDE_FORM[head[8:12]]
    if head[:2] == b"BM" and head[6:10] == bytes(4):  # a text may begin with these letters too
        return "bmp"
    for beginning, kind in BEGINNINGS:
        if head.startswith(beginning):
            return kind
    return kind_by_frames(head) or _kind_of_text(head) or _kind_of_stream(head)


def _kind_of_stream(head: bytes) -> str | None:
    return "mpegts" if is_transport_stream(head) else kind_by_later_frames(head)


def _kind_after_tags(path: Path) -> str:
    """Such tags are an MP3's; some programs write them before other sound too."""
    at = 0
    with path.open("rb") as file:
        for _ in range(MAX_TAGS):
            file.seek(at)
            head = file.read(HEAD)
            if not _has_tag(head):
                found = _kind_by_head(head)
                return found if found in ("aac", "flac") else "mp3"
            at += tag_length(head)
    return "mp3"


def _has_tag(head: bytes) -> bool:
    return head[:3] == b"ID3" and head[3:4] in (b"\x02", b"\x03", b"\x04")


def _kind_of_text(head: bytes) -> str | None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text"
    if not head or b"\x00" in head:
        return None
    try:
        # A character may be cut off at the end.
        text = head.decode("utf-8-sig", errors="strict" if len(head) < HEAD else "ignore")
    except UnicodeDecodeError:
        text = head.decode("cp1252", errors="replace")
    if any(ord(char) < 32 and char not in "\t\n\r\f" for char in text):
        return None
    start = text.lstrip().lower()
    is_xhtml = start.startswith("<?xml") and "<html" in start
    return "html" if is_xhtml or start.startswith(("<!doctype html", "<html")) else "text"


def _kind_of_zip(path: Path) -> str | None:
    if _size_of_contents(path) > MAX_CONTENTS:
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if names[:1] == ["mimetype"] and _is_plain(archive.infolist()[0]):
                # A template is a document as well.
                mime_type = archive.read("mimetype").strip().removesuffix(b"-template")
                return MIME_TYPES.get(mime_type)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError):
        return None
    if "[Content_Types].xml" not in names:
        return None
    for directory, kind in INSIDE_ZIP.items():
        if any(name.startswith(directory) for name in names):
            return kind
    return None


def _is_plain(member: zipfile.ZipInfo) -> bool:
    """The formats ask for it, and what is not compressed cannot grow."""
    return member.compress_type == zipfile.ZIP_STORED and member.file_size < 100


def _size_of_contents(path: Path) -> int:
    """The largest that any record claims: which of them a reader believes is its own affair."""
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, TAIL), 2)
        tail = file.read()
    claims = [0]
    for mark, place in ENDS_OF_ZIP:
        for found in re.finditer(re.escape(mark), tail):
            claims.append(int.from_bytes(tail[found.start() :][place], "little"))
    return max(claims)
