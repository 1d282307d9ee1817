"""Detects file types by content, because names and declared types can be wrong."""

import mimetypes
import mmap
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes
from uuid import uuid4


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target` that replaces it on success. Existing hard links to
    the target keep their content, and on errors nothing is left behind."""
    temporary = target.with_name(f".{uuid4().hex}")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


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


#: How much of the beginning is looked at. Some programs write before a PDF's own beginning.
HEAD = 4096
PDF_WITHIN = 1024
#: The table of contents of a zip. A document's is small; a hostile one would fill our memory.
MAX_CONTENTS = 8 * 1024 * 1024
#: Records at the end of a zip, and where in them the size of the table stands.
ENDS_OF_ZIP = ((b"PK\x05\x06", slice(12, 16)), (b"PK\x06\x06", slice(40, 48)))
#: The longest tail in which a reader looks for those records: both, and a comment.
TAIL = 22 + 0xFFFF + 20 + 56

OFFICE_TYPES = frozenset(
    {"docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "rtf", "ole", "html", "text"}
)
IMAGE_TYPES = frozenset({"png", "jpeg", "gif", "webp", "tiff", "bmp", "heif", "jp2"})
AUDIO_TYPES = frozenset(
    {"mp3", "wav", "w64", "flac", "ogg", "aac", "mp4", "webm", "aiff", "amr", "asf", "caf", "au"}
)
VIDEO_TYPES = frozenset({"mp4", "webm", "avi", "mpeg", "mpegts", "ogg", "asf", "flv"})

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


def detect_file_type(path: Path) -> str | None:
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


LONGEST_NAME = 200  # bytes; file systems allow 255, and something may be put before or behind
LONGEST_SUFFIX = 20
FALLBACK = "download"

PARAMETER = re.compile(r';\s*([\w!#$&+^`|~.*-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)')


def downloaded_name(disposition: str | None, raw_path: str, content_type: str | None) -> str:
    """The name of a downloaded file: as its server calls it, else as its URL does."""
    declared = disposed_name(disposition) if disposition else None
    last = unquote(raw_path.partition("?")[0].rpartition("/")[2])
    suffix = mimetypes.guess_extension(content_type) if content_type else None
    return safe_name(declared or "") or safe_name(last) or f"{FALLBACK}{suffix or ''}"


def disposed_name(header: str) -> str | None:
    """The file name in a Content-Disposition (RFC 6266); `filename*` is worth more."""
    found: dict[str, str] = {}
    for name, value in PARAMETER.findall(f";{header}" if "=" in header.split(";")[0] else header):
        found.setdefault(name.lower(), value.strip())
    extended = _extended(found["filename*"]) if "filename*" in found else None
    return extended or _unquoted(found.get("filename", "")) or None


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
        # Only quotes and backslashes are ever escaped; elsewhere it is a Windows path.
        return re.sub(r'\\(["\\])', r"\1", value)
    return value


def _extended(value: str) -> str | None:
    """RFC 5987: charset'language'percent-encoded."""
    charset, _, rest = value.strip('"').partition("'")
    _, separator, text = rest.partition("'")
    if not separator or charset.lower() not in ("utf-8", "iso-8859-1"):
        return None
    try:
        return unquote_to_bytes(text).decode(charset)
    except UnicodeDecodeError:
        return None


def safe_name(name: str) -> str:
    """The last part of a path, without what could harm; empty when nothing is left."""
    name = unicodedata.normalize("NFC", name)
    name = re.split(r"[/\\]", name)[-1]
    # Controls, but also marks that turn the direction of writing, and halves of characters.
    name = "".join(char for char in name if unicodedata.category(char)[0] != "C")
    name = re.sub(r'[<>:"|?*]', "_", name)
    return _shortened(name.strip(". \u00a0"))


def _shortened(name: str) -> str:
    if len(name.encode()) <= LONGEST_NAME:
        return name
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix.encode()) > LONGEST_SUFFIX:
        stem, dot, suffix = name, "", ""
    room = LONGEST_NAME - len((dot + suffix).encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip(". ") + dot + suffix
