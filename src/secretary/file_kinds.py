"""What kind of file something is, told by its content: names and announced types can be wrong."""

import zipfile
from pathlib import Path

#: How much of the beginning is looked at. Some programs write before a PDF's own beginning.
HEAD = 4096
PDF_WITHIN = 1024
#: The table of contents of a zip. A document's is small; a hostile one would fill our memory.
MAX_CONTENTS = 8 * 1024 * 1024
END_OF_ZIP = b"PK\x05\x06"

OFFICE = frozenset(
    {"docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "rtf", "ole", "html", "text"}
)
PICTURES = frozenset({"png", "jpeg", "gif", "webp", "tiff", "bmp", "heif", "jp2"})
SOUND = frozenset({"mp3", "wav", "flac", "ogg", "aac", "mp4", "webm", "aiff", "amr", "asf"})
MOVING = frozenset({"mp4", "webm", "avi", "mpeg", "ogg", "asf", "flv"})

#: Kinds by how they begin.
BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"BM", "bmp"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jp2"),
    (b"{\\rtf", "rtf"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"ID3", "mp3"),
    (b"fLaC", "flac"),
    (b"OggS", "ogg"),
    (b"\x1aE\xdf\xa3", "webm"),
    (b"#!AMR", "amr"),
    (b"0&\xb2u\x8ef\xcf\x11", "asf"),
    (b"FLV\x01", "flv"),
    (b"\x00\x00\x01\xba", "mpeg"),
    (b"\x00\x00\x01\xb3", "mpeg"),
)
#: Containers that say at byte 8 what they hold.
INSIDE_RIFF = {b"WAVE": "wav", b"AVI ": "avi", b"WEBP": "webp"}
INSIDE_FORM = {b"AIFF": "aiff", b"AIFC": "aiff"}
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
    return _kind_by_head(head)


def _kind_by_head(head: bytes) -> str | None:
    if b"%PDF-" in head[:PDF_WITHIN]:
        return "pdf"
    if head[4:8] == b"ftyp":
        return "heif" if head[8:12] in PICTURE_BRANDS else "mp4"
    if head[:4] == b"RIFF":
        return INSIDE_RIFF.get(head[8:12])
    if head[:4] == b"FORM":
        return INSIDE_FORM.get(head[8:12])
    for beginning, kind in BEGINNINGS:
        if head.startswith(beginning):
            return kind
    return _kind_by_frames(head) or _kind_of_text(head)


def _kind_by_frames(head: bytes) -> str | None:
    """MPEG sound has no beginning of its own, but frames that all start with eleven ones."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    layer = (head[1] >> 1) & 0b11
    if layer == 0:
        return "aac"
    return "mp3" if head[2] >> 4 not in (0, 15) else None


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
    return "html" if start.startswith(("<!doctype html", "<html")) else "text"


def _kind_of_zip(path: Path) -> str | None:
    if _size_of_contents(path) > MAX_CONTENTS:
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if names[:1] == ["mimetype"] and archive.getinfo("mimetype").file_size < 100:
                return MIME_TYPES.get(archive.read("mimetype").strip())
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, ValueError):
        return None
    if "[Content_Types].xml" not in names:
        return None
    for directory, kind in INSIDE_ZIP.items():
        if any(name.startswith(directory) for name in names):
            return kind
    return None


def _size_of_contents(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, 22 + 0xFFFF), 2)
        tail = file.read()
    start = tail.rfind(END_OF_ZIP)
    return int.from_bytes(tail[start + 12 : start + 16], "little") if start >= 0 else 0
