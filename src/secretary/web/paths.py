"""File paths of session documents: safe on every system, whatever events, tracks and titles are
called."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

ROOT = "sessions"
SUFFIX = ".md"
NO_EVENT, NO_TRACK, NO_NAME = "Event", "General", "Session"
#: ISO 639-2 code of an undetermined language.
NO_LANGUAGE = "und"

#: Bytes. File systems allow 255; Windows allows 260 for a whole path.
MAX_FOLDER = 60
MAX_STEM = 80
#: No event, track or title is longer; checking every character of one would take time.
MAX_TEXT = 2000
_DIGEST_LENGTH = 6

#: Besides letters and digits. All others mean something to shells, Markdown, URLs or Windows.
_IN_FOLDERS = frozenset(" -_.+,()&'!=")
_IN_STEMS = frozenset("-_.+")
#: Invisible letters and marks.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_RESERVED = re.compile(
    r"(con|prn|aux|nul|conin|conout|clock|(com|lpt)[0-9\u00b9\u00b2\u00b3])(?=\s*(\.|$))", re.I
)
_LANGUAGE = re.compile(r"([A-Za-z]{2,3})((?:[-_][A-Za-z0-9]{1,8}){0,3})")
_MARKDOWN = re.compile(r"(\.(md|markdown))+$", re.I)
#: Letters, marks and digits of every script, and pictographs; no controls or separators.
_WORD_CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "So"})


@dataclass(frozen=True, slots=True)
class SessionPaths:
    """The paths of a document and its asset directory, relative to the same root. Translations of a
    session share its assets."""

    document: PurePosixPath
    assets: PurePosixPath

    @property
    def assets_from_document(self) -> PurePosixPath:
        """The relative path for links in the document."""
        depth = len(self.document.parts) - 1 - _common_parts(self.document, self.assets)
        rest = self.assets.parts[_common_parts(self.document, self.assets) :]
        return PurePosixPath(*[".."] * depth, *rest)


def session_paths(
    *,
    event: str | None,
    language: str | None,
    track: str | None,
    session: str | None,
    filename: str | None,
) -> SessionPaths:
    """`sessions/<Event>/<lang>/<Track>/<file>.md` and `sessions/<Event>/assets/<stem>/`."""
    home = PurePosixPath(ROOT, folder_name(event, NO_EVENT))
    stem = file_stem(filename) or title_stem(session) or NO_NAME
    folder = home / language_name(language) / folder_name(track, NO_TRACK)
    return SessionPaths(folder / f"{stem}{SUFFIX}", home / "assets" / stem)


def folder_name(text: str | None, default: str) -> str:
    return _clean(text or "", _IN_FOLDERS, MAX_FOLDER) or default


def language_name(text: str | None) -> str:
    """`pt_BR` -> `pt-br`. Never `assets`, which is beside the languages."""
    match = _LANGUAGE.fullmatch((text or "").strip()[:40])
    name = match[0].replace("_", "-").lower() if match else NO_LANGUAGE
    return f"{name}-x" if _RESERVED.match(name) else name


def file_stem(name: str | None) -> str:
    """Return the stem of a file name from outside; of a path the last part."""
    parts = [part for part in re.split(r"[/\\]", (name or "")[:MAX_TEXT]) if part.strip(". ")]
    return title_stem(_MARKDOWN.sub("", parts[-1].strip())) if parts else ""


def title_stem(title: str | None) -> str:
    """`What's new? Ö & more` -> `Whats-new-Ö-more`; empty if nothing is left."""
    text = re.sub(r"(?<=\w)['\u2019](?=\w)", "", (title or "")[:MAX_TEXT])
    return _clean(text, _IN_STEMS, MAX_STEM, space="-")


def unique_stems(stems: Iterable[str]) -> list[str]:
    """Append a number to each stem that some file system would not distinguish from an earlier
    one."""
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    unique = []
    for stem in stems:
        name, number = stem, numbers.get(filename_key(stem), 1)
        while filename_key(name) in taken:
            number += 1
            name = f"{stem}-{number}"
        numbers[filename_key(stem)] = number
        taken.add(filename_key(name))
        unique.append(name)
    return unique


def filename_key(name: str) -> str:
    """Equal for names that some file system does not distinguish, by case or Unicode form."""
    text = unicodedata.normalize("NFKD", name).casefold()
    return unicodedata.normalize("NFKD", text).casefold()


def _clean(text: str, allowed: frozenset[str], max_bytes: int, space: str = " ") -> str:
    text = unicodedata.normalize("NFC", _INVISIBLE.sub("", text[:MAX_TEXT]))
    safe = "".join(
        char if char in allowed or unicodedata.category(char) in _WORD_CATEGORIES else " "
        for char in text
    )
    words = re.sub(r"\s+", space, safe.strip())
    if space == "-":
        words = re.sub(r"-{2,}", "-", words)
    name = unicodedata.normalize("NFC", _trim(re.sub(r"\.{2,}", ".", words)))
    if _RESERVED.match(name):
        name = f"_{name}"
    return _shorten(name, max_bytes)


def _trim(name: str) -> str:
    """A leading dot hides a file, a dash makes it an option, and Windows drops trailing dots."""
    return name.lstrip(" .-+,=").rstrip(" .-,=")


def _shorten(name: str, max_bytes: int) -> str:
    """Append a digest to a cut name, so that long names with the same start stay distinct."""
    if len(name.encode()) <= max_bytes:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    cut = name.encode()[: max_bytes - _DIGEST_LENGTH - 1].decode(errors="ignore")
    at_word_end = re.sub(r"[ -][^ -]{0,15}$", "", cut)  # if one is near
    return f"{_trim(at_word_end) or _trim(cut)}-{digest}"


def _common_parts(one: PurePosixPath, other: PurePosixPath) -> int:
    count = 0
    for left, right in zip(one.parts[:-1], other.parts, strict=False):
        if left != right:
            break
        count += 1
    return count
