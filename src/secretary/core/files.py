"""Files: their type by content (names and announced types can be wrong), safe names, atomic
replacement, permissions, and secrets."""

import fcntl
import mimetypes
import mmap
import os
import re
import secrets
import stat
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes
from uuid import uuid4

#: How many bytes at the beginning are examined. Some programs write before a PDF's own beginning.
HEAD = 4096
PDF_WITHIN = 1024
#: Limits the directory of a zip. That of a document is small; a hostile one would fill the memory.
MAX_CONTENTS = 8 * 1024 * 1024
#: Records at the end of a zip, and where in them the size of the directory stands.
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
BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF87a": "gif", b"GIF89a": "gif",
    b"II*\x00": "tiff", b"MM\x00*": "tiff", b"II+\x00": "tiff", b"{\\rtf": "rtf",
    b"\x00\x00\x00\x0cjP  \r\n\x87\n": "jp2", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "ole",
    b"fLaC": "flac", b"OggS": "ogg", b"\x1aE\xdf\xa3": "webm", b"#!AMR": "amr", b"FLV\x01": "flv",
    b"0&\xb2u\x8ef\xcf\x11": "asf", b"\x00\x00\x01\xba": "mpeg", b"\x00\x00\x01\xb3": "mpeg",
    b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00": "w64", b"caff\x00\x01": "caf",
    b".snd\x00\x00": "au",
}  # fmt: skip
#: Containers that name their content at byte 8.
INSIDE_RIFF = {b"WAVE": "wav", b"AVI ": "avi", b"WEBP": "webp"}
#: RIFF, its 64-bit variants, and its big-endian variant.
KINDS_OF_RIFF = frozenset({b"RIFF", b"RF64", b"BW64", b"RIFX"})
INSIDE_FORM = {b"AIFF": "aiff", b"AIFC": "aiff"}
#: First boxes of an MP4 or QuickTime file without a brand.
QUICKTIME = frozenset({b"moov", b"mdat", b"moof", b"styp", b"wide", b"free", b"skip", b"pnot"})
#: More consecutive ID3 tags than any program writes.
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


#: Of a process that handles documents: what it creates is for its own account only.
PRIVATE_UMASK = 0o077


def make_private(paths: Iterable[str | os.PathLike[str]]) -> int:
    """Revoke the access of other accounts to these files and directory trees, and return the number
    of changes. Leaves out links, what belongs to other accounts, files that are also linked from
    elsewhere, and what is inside a directory that others cannot enter anyway."""
    links: dict[int, list[str]] = {}
    changed = sum(_make_private(os.fspath(path), links) for path in paths)
    for names in links.values():
        with suppress(FileNotFoundError):
            status = os.lstat(names[0])
            if len(names) == status.st_nlink:
                changed += _restrict(names[0], status)
    return changed


def _make_private(path: str, links: dict[int, list[str]], *, is_inside: bool = False) -> int:
    changed = 0
    with suppress(FileNotFoundError):  # removed meanwhile
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode) or status.st_uid != os.geteuid():
            return 0
        if stat.S_ISDIR(status.st_mode):
            if not (is_inside or status.st_mode & 0o077):
                return 0
            with os.scandir(path) as entries:
                for entry in entries:
                    changed += _make_private(entry.path, links, is_inside=True)
        elif status.st_nlink > 1:
            links.setdefault(status.st_ino, []).append(path)
            return 0
        changed += _restrict(path, status)
    return changed


def _restrict(path: str, status: os.stat_result) -> int:
    allowed = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
    mode = stat.S_IMODE(status.st_mode)
    if not mode & 0o077:
        return 0
    os.chmod(path, mode & allowed)
    return 1


#: The length of secrets for keyed hashes.
SECRET_BYTES = 32


def load_or_create_secret(path: Path) -> bytes:
    """The secret in a file that only its owner can read. Processes that create it at the same time
    get the same one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        secret = file.read()
        if len(secret) != SECRET_BYTES:  # new, or its writer was killed
            secret = secrets.token_bytes(SECRET_BYTES)
            file.seek(0)
            file.truncate()
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        return secret


def detect_file_type(path: Path) -> str | None:
    """The type of a file by its content, or None if it is unknown. Reads no more than it must."""
    with path.open("rb") as file:
        head = file.read(HEAD)
        if head.startswith(b"PK\x03\x04"):
            return _type_of_zip(path)
        if not _has_id3_tag(head):
            return _type_by_head(head)
        # ID3 tags belong to MP3 files; some programs write them before other audio too.
        at = 0
        for _ in range(MAX_TAGS):
            file.seek(at)
            head = file.read(HEAD)
            if not _has_id3_tag(head):
                file_type = _type_by_head(head)
                return file_type if file_type in ("aac", "flac") else "mp3"
            at += _id3_tag_length(head)
    return "mp3"


def _has_id3_tag(head: bytes) -> bool:
    return head[:3] == b"ID3" and head[3:4] in (b"\x02", b"\x03", b"\x04")


def _id3_tag_length(head: bytes) -> int:
    """The length of an ID3 tag, from its first ten bytes."""
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size


def _type_by_head(head: bytes) -> str | None:
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
    for beginning, file_type in BEGINNINGS.items():
        if head.startswith(beginning):
            return file_type
    for file_type, length_at in _FRAME_LENGTHS.items():
        if _count_frames(head, 0, length_at):
            return file_type
    if text_type := _type_of_text(head):
        return text_type
    return "mpegts" if _is_transport_stream(head) else _type_by_later_frames(head)


def _type_of_text(head: bytes) -> str | None:
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


def _type_of_zip(path: Path) -> str | None:
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, TAIL), 2)
        tail = file.read()
    # Readers differ in which record they believe, so none may claim more.
    for mark, size in ENDS_OF_ZIP:
        for record in re.finditer(re.escape(mark), tail):
            if int.from_bytes(tail[record.start() :][size], "little") > MAX_CONTENTS:
                return None
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if names[:1] == ["mimetype"]:
                first = archive.infolist()[0]
                # The formats require it to be stored, and what is not compressed cannot grow.
                if first.compress_type == zipfile.ZIP_STORED and first.file_size < 100:
                    # A template is a document as well.
                    mime_type = archive.read("mimetype").strip().removesuffix(b"-template")
                    return MIME_TYPES.get(mime_type)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError):
        return None
    if "[Content_Types].xml" in names:
        for directory, file_type in INSIDE_ZIP.items():
            if any(name.startswith(directory) for name in names):
                return file_type
    return None


Bytes = bytes | mmap.mmap
#: The length of the frame at a position, in bytes; 0 if there is none.
LengthAt = Callable[[Bytes, int], int]

#: A sync mark may occur in any file by chance; this many in a row do not.
_IN_A_ROW = 3
#: Packet sizes of a transport stream: as broadcast, as stored by Blu-ray discs and cameras, and
#: with a checksum.
_PACKETS = (188, 192, 204)
#: In kbit/s, by version (1 or 2) and layer.
_BIT_RATES = {
    (1, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (1, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (2, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_SAMPLE_RATES = (44_100, 48_000, 32_000)
_ID3V1_TAG_BYTES = 128


def share_between_frames(path: str, kind: str) -> float:
    """The share (0 to 1) of an audio file that lies between its frames but belongs to none."""
    length_at = _FRAME_LENGTHS[kind]
    audio = other = 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = _next_frame(content, 0, length_at)
        while at != -1:
            end = at
            while end + 4 <= len(content) and (length := length_at(content, end)):
                end += length
            audio += end - at
            # There are tags between the parts of concatenated files.
            if content[end : end + 3] == b"TAG":
                end += _ID3V1_TAG_BYTES
            while content[end : end + 3] == b"ID3":
                end += _id3_tag_length(content[end : end + 10])
            at = _next_frame(content, end, length_at)
            other += max(at - end, 0)
    return other / (audio + other) if audio else 0.0


def _next_frame(content: Bytes, at: int, length_at: LengthAt) -> int:
    """The position of the next frame that is followed by another one, or -1."""
    while (at := content.find(b"\xff", at)) != -1 and at + 4 <= len(content):
        length = length_at(content, at)
        if length and at + length + 4 <= len(content) and length_at(content, at + length):
            return at
        at += 1
    return -1


def _type_by_later_frames(head: bytes) -> str | None:
    """The type of a part of a longer file that begins in the middle of a frame."""
    at = head.find(b"\xff")
    while at != -1:
        for file_type, length_at in _FRAME_LENGTHS.items():
            if _count_frames(head, at, length_at) >= _IN_A_ROW:
                return file_type
        at = head.find(b"\xff", at + 1)
    return None


def _is_transport_stream(head: bytes) -> bool:
    """Whether its packets start at the first byte, or after the rest of a packet. Each begins with
    the same letter, which also occurs in texts."""
    packets = (head[at::size] for size in _PACKETS for at in range(size))
    return any(len(marks) >= _IN_A_ROW and set(marks) == {0x47} for marks in packets)


def _count_frames(head: bytes, at: int, length_at: LengthAt) -> int:
    """The number of consecutive frames; 0 if anything else follows one of them."""
    count = 0
    while at + 4 <= len(head):
        length = length_at(head, at)
        if not length:
            return 0
        count, at = count + 1, at + length
    return count


def _adts_length(head: Bytes, at: int) -> int:
    if head[at] != 0xFF or head[at + 1] & 0xF6 != 0xF0:
        return 0
    if (head[at + 2] >> 2) & 0b1111 > 12:  # no such sample rate
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
    # There are no files of layer I, and a text in UTF-16 begins like one.
    if version == 1 or layer not in (2, 3) or bit_rate in (0, 15) or rate == 3:
        return 0
    bits = _BIT_RATES[1 if version == 3 else 2, layer][bit_rate - 1] * 1000
    hertz = _SAMPLE_RATES[rate] >> {3: 0, 2: 1, 0: 2}[version]
    samples = 1152 if version == 3 or layer == 2 else 576
    return samples // 8 * bits // hertz + ((head[at + 2] >> 1) & 1)


_FRAME_LENGTHS: dict[str, LengthAt] = {"aac": _adts_length, "mp3": _mpeg_length}


LONGEST_NAME = 200  # bytes; file systems allow 255, and something may be put before or behind
LONGEST_SUFFIX = 20
FALLBACK = "download"

PARAMETER = re.compile(r';\s*([\w!#$&+^`|~.*-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)')


def downloaded_name(disposition: str | None, raw_path: str, content_type: str | None) -> str:
    """The name of a downloaded file: from its Content-Disposition, else from its URL."""
    name = disposed_name(disposition) if disposition else None
    last = unquote(raw_path.partition("?")[0].rpartition("/")[2])
    suffix = mimetypes.guess_extension(content_type) if content_type else None
    return safe_name(name or "") or safe_name(last) or f"{FALLBACK}{suffix or ''}"


def disposed_name(header: str) -> str | None:
    """The file name in a Content-Disposition (RFC 6266); `filename*` takes precedence."""
    values: dict[str, str] = {}
    for name, value in PARAMETER.findall(f";{header}" if "=" in header.split(";")[0] else header):
        values.setdefault(name.lower(), value.strip())
    # RFC 5987: charset'language'percent-encoded.
    charset, _, rest = values.get("filename*", "").strip('"').partition("'")
    _, separator, text = rest.partition("'")
    if separator and charset.lower() in ("utf-8", "iso-8859-1"):
        with suppress(UnicodeDecodeError):
            if decoded := unquote_to_bytes(text).decode(charset):
                return decoded
    plain = values.get("filename", "")
    if len(plain) > 1 and plain[0] == plain[-1] == '"':
        # Only quotes and backslashes are ever escaped; elsewhere it is a Windows path.
        plain = re.sub(r'\\(["\\])', r"\1", plain[1:-1])
    return plain or None


def safe_name(name: str) -> str:
    """The last part of a path without dangerous characters; empty if nothing is left."""
    name = unicodedata.normalize("NFC", name)
    name = re.split(r"[/\\]", name)[-1]
    # Control characters, but also direction marks and lone surrogates.
    name = "".join(char for char in name if unicodedata.category(char)[0] != "C")
    name = re.sub(r'[<>:"|?*]', "_", name).strip(". \u00a0")
    if len(name.encode()) <= LONGEST_NAME:
        return name
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix.encode()) > LONGEST_SUFFIX:
        stem, dot, suffix = name, "", ""
    room = LONGEST_NAME - len((dot + suffix).encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip(". ") + dot + suffix


def inside(path: Path, directory: Path) -> Path:
    """The path, which a sandbox process has named, if it is below the directory of its job."""
    if not path.resolve().is_relative_to(directory.resolve()):
        raise PermissionError(f"a sandbox process named a file outside of its directory: {path}")
    return path
