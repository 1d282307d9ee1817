"""Names for files that others have named: safe to use, and as close to theirs as can be."""

import mimetypes
import re
import unicodedata
from urllib.parse import unquote, unquote_to_bytes

LONGEST_NAME = 200  # bytes; file systems allow 255, and something may be put before or behind
LONGEST_SUFFIX = 20
FALLBACK = "download"

PARAMETER = re.compile(r';\s*([\w!#$&+^`|~.*-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)')


def downloaded_name(disposition: str | None, raw_path: str, content_type: str | None) -> str:
    """The name of a downloaded file: as its server calls it, else as its URL does."""
    told = disposed_name(disposition) if disposition else None
    last = unquote(raw_path.partition("?")[0].rpartition("/")[2])
    suffix = mimetypes.guess_extension(content_type) if content_type else None
    return safe_name(told or "") or safe_name(last) or f"{FALLBACK}{suffix or ''}"


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
