"""Where the document of a session goes, whatever its event, track and title are called."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

ROOT = "sessions"
SUFFIX = ".md"
NO_EVENT, NO_TRACK, NO_NAME = "Event", "General", "Session"
#: What the standard calls a language that is not known.
NO_LANGUAGE = "und"

#: Bytes. A file system takes 255, Windows 260 for a whole path.
LONGEST_FOLDER = 60
LONGEST_STEM = 80
#: No event, track or title has more; to look at each sign of a longer one takes time.
LONGEST_TEXT = 2000
_DIGEST = 6

#: Beside letters and digits. What else there is has a meaning to shells, Markdown, URLs or Windows.
_IN_FOLDERS = frozenset(" -_.+,()&'!=")
_IN_STEMS = frozenset("-_.+")
#: Letters and marks that cannot be seen.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_RESERVED = re.compile(
    r"(con|prn|aux|nul|conin|conout|clock|(com|lpt)[0-9\u00b9\u00b2\u00b3])(?=\s*(\.|$))", re.I
)
_LANGUAGE = re.compile(r"([A-Za-z]{2,3})((?:[-_][A-Za-z0-9]{1,8}){0,3})")
_MARKDOWN = re.compile(r"(\.(md|markdown))+$", re.I)


@dataclass(frozen=True, slots=True)
class SessionPaths:
    """`document` and the directory `assets` are relative to the same place. Translations of a
    session share its assets."""

    document: PurePosixPath
    assets: PurePosixPath

    @property
    def assets_from_document(self) -> PurePosixPath:
        """How the document names its assets."""
        depth = len(self.document.parts) - 1 - _shared(self.document, self.assets)
        rest = self.assets.parts[_shared(self.document, self.assets) :]
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
    place = home / language_name(language) / folder_name(track, NO_TRACK)
    return SessionPaths(place / f"{stem}{SUFFIX}", home / "assets" / stem)


def folder_name(text: str | None, default: str) -> str:
    return _tidy(text or "", _IN_FOLDERS, LONGEST_FOLDER) or default


def language_name(text: str | None) -> str:
    """`pt_BR` -> `pt-br`. Never `assets`, which stands beside the languages."""
    found = _LANGUAGE.fullmatch((text or "").strip()[:40])
    name = found[0].replace("_", "-").lower() if found else NO_LANGUAGE
    return f"{name}-x" if _RESERVED.match(name) else name


def file_stem(name: str | None) -> str:
    """Of a file that others have named; the last part counts when it is a path."""
    parts = [part for part in re.split(r"[/\\]", (name or "")[:LONGEST_TEXT]) if part.strip(". ")]
    return title_stem(_MARKDOWN.sub("", parts[-1].strip())) if parts else ""


def title_stem(title: str | None) -> str:
    """`What's new? Ö & more` -> `Whats-new-Ö-more`; empty when nothing is left."""
    text = re.sub(r"(?<=\w)['\u2019](?=\w)", "", (title or "")[:LONGEST_TEXT])
    return _tidy(text, _IN_STEMS, LONGEST_STEM, space="-")


def unique_stems(stems: Iterable[str]) -> list[str]:
    """The same, each with a number where an earlier one is the same file somewhere."""
    taken: set[str] = set()
    last: dict[str, int] = {}
    found = []
    for stem in stems:
        name, number = stem, last.get(filename_key(stem), 1)
        while filename_key(name) in taken:
            number += 1
            name = f"{stem}-{number}"
        last[filename_key(stem)] = number
        taken.add(filename_key(name))
        found.append(name)
    return found


def filename_key(name: str) -> str:
    """Equal for names that some file system takes for one: by case, or by how they are composed."""
    text = unicodedata.normalize("NFKD", name).casefold()
    return unicodedata.normalize("NFKD", text).casefold()


def _tidy(text: str, allowed: frozenset[str], longest: int, space: str = " ") -> str:
    text = unicodedata.normalize("NFC", _INVISIBLE.sub("", text[:LONGEST_TEXT]))
    kept = "".join(char if char in allowed or _is_word(char) else " " for char in text)
    words = re.sub(r"\s+", space, kept.strip())
    if space == "-":
        words = re.sub(r"-{2,}", "-", words)
    name = unicodedata.normalize("NFC", _trimmed(re.sub(r"\.{2,}", ".", words)))
    if _RESERVED.match(name):
        name = f"_{name}"
    return _shortened(name, longest)


def _is_word(char: str) -> bool:
    """Letters, marks and digits of every script, and pictures: no controls, no separators."""
    return unicodedata.category(char) in _WORDS


_WORDS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "So"})


def _trimmed(name: str) -> str:
    """No dot in front hides it, no dash makes it an option, and Windows keeps what is behind."""
    return name.lstrip(" .-+,=").rstrip(" .-,=")


def _shortened(name: str, longest: int) -> str:
    """Long names that begin alike stay apart by a digest."""
    if len(name.encode()) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    cut = name.encode()[: longest - _DIGEST - 1].decode(errors="ignore")
    whole = re.sub(r"[ -][^ -]{0,15}$", "", cut)  # at the end of a word, where that is near
    return f"{_trimmed(whole) or _trimmed(cut)}-{digest}"


def _shared(one: PurePosixPath, other: PurePosixPath) -> int:
    pairs = zip(one.parts[:-1], other.parts, strict=False)
    count = 0
    for left, right in pairs:
        if left != right:
            break
        count += 1
    return count
