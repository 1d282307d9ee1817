"""A conference talk: its data types, links, dates and times, and the paths of its document. Without
heavy imports, for processes that only pass talks and articles on."""

import hashlib
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import PurePosixPath
from urllib.parse import parse_qs, quote, unquote, urljoin, urlsplit, urlunsplit

from ..core.languages import language_code

# Links: absolute, to the web only, classified by what they lead to ------------------------------

#: Maximum lengths of parameters of a session job.
MAX_NAME = 500
MAX_TITLE = 1000
MAX_LINK_TITLE = 300
#: Longer URLs contain data, not an address.
MAX_URL = 4000


class LinkKind(StrEnum):
    VIDEO = "video"
    VIDEO_PAGE = "video page"
    SUBTITLES = "subtitles"
    ATTACHMENT = "attachment"
    OTHER = "other"


VIDEO_KINDS = (LinkKind.VIDEO, LinkKind.VIDEO_PAGE)


@dataclass(frozen=True, slots=True)
class Link:
    url: str
    title: str = ""
    kind: LinkKind = LinkKind.OTHER


#: File name suffixes by kind, preferred formats first.
_SUFFIXES = {
    LinkKind.VIDEO: ("mp4", "m4v", "webm", "mkv", "mov", "ogv", "mpg", "mpeg", "avi"),
    LinkKind.SUBTITLES: ("vtt", "srt"),
    LinkKind.ATTACHMENT: ("pdf", "pptx", "odp", "ppt", "ppsx", "pps", "docx", "odt", "doc"),
}
_BY_SUFFIX = {
    suffix: (kind, rank)
    for kind, suffixes in _SUFFIXES.items()
    for rank, suffix in enumerate(suffixes)
}
_UNKNOWN_RANK = 99
_SLIDES = re.compile(r"\b(slides?|slide ?deck|deck|presentation|folien|pr[äa]sentation)\b", re.I)
_SPACE_OR_CONTROL = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ufffe\uffff\ud800-\udfff]")
#: Not escaped. All others are invalid in a URL, or would end it in Markdown or HTML.
_SAFE = "%/:=&?~#+!$,;'@*[]"


def single_line(text: object, max_length: int = MAX_NAME) -> str:
    """Return a text as one line without control characters; empty if it is not a string."""
    if not isinstance(text, str):
        return ""
    printable = (char if char.isprintable() else " " for char in text[: 4 * max_length])
    return " ".join("".join(printable).split())[:max_length].strip()


def make_link(
    url: str, title: str = "", *, base: str = "", kind: LinkKind | None = None
) -> Link | None:
    """Return a link of the kind that its URL shows, else of the given one; None if invalid."""
    target = absolute_url(url, base)
    if target is None:
        return None
    detected = link_kind(target)
    if detected is LinkKind.OTHER and kind is not None:
        detected = kind
    if detected is LinkKind.VIDEO_PAGE:
        target = canonical_video_url(target) or target
    return Link(target, single_line(title, MAX_LINK_TITLE), detected)


def absolute_url(url: str, base: str = "") -> str | None:
    """Return the absolute, escaped URL; None unless it leads to the web."""
    if len(url) > MAX_URL:
        return None
    try:
        parts = urlsplit(urljoin(base, url.strip()))
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or _SPACE_OR_CONTROL.search(host):
        return None
    if parts.username is not None or parts.password is not None or not re.search(r"\w", host):
        return None  # a user name hides the real host
    netloc = f"[{host}]" if ":" in host else host
    netloc = f"{netloc}:{port}" if port else netloc
    rest = (_escape(part) for part in (parts.path or "/", parts.query, parts.fragment))
    whole = urlunsplit((parts.scheme, netloc, *rest))
    return whole if len(whole) <= MAX_URL else None


def _escape(part: str) -> str:
    text = part.encode("utf-8", "replace").decode()
    return quote(text, safe=_SAFE) if re.search(r"[^\w/.~%-]", text) else text


def link_kind(url: str) -> LinkKind:
    by_suffix = _BY_SUFFIX.get(_suffix(url))
    if by_suffix:
        return by_suffix[0]
    return LinkKind.VIDEO_PAGE if canonical_video_url(url) else LinkKind.OTHER


def _suffix(url: str) -> str:
    name = urlsplit(url).path.rpartition("/")[2].lower()
    return name.rpartition(".")[2] if "." in name else ""


def deduplicated(links: Iterable[Link | None]) -> list[Link]:
    """Return each page once, in order, with its first title."""
    by_page: dict[str, Link] = {}
    for link in filter(None, links):
        key = page_key(link.url)
        known = by_page.setdefault(key, link)
        if not known.title:
            by_page[key] = replace(known, title=link.title)
    return list(by_page.values())


def page_key(url: str) -> str:
    """Equal for all URLs of one page."""
    return url.partition("#")[0].rstrip("/")


def best_url(links: Iterable[Link], *kinds: LinkKind) -> str | None:
    """The URL of the best link of these kinds: a file rather than a page, mp4 rather than webm,
    slides rather than other documents, PDF rather than formats that must be converted."""

    def rank(link: Link) -> tuple[bool, int]:
        name = unquote(link.url.rpartition("/")[2]).replace("_", " ").replace("-", " ")
        is_slides = _SLIDES.search(link.title) or _SLIDES.search(name)
        _, format_rank = _BY_SUFFIX.get(_suffix(link.url), (link.kind, _UNKNOWN_RANK))
        return link.kind is LinkKind.ATTACHMENT and not is_slides, format_rank

    best = min((link for link in links if link.kind in kinds), key=rank, default=None)
    return best.url if best else None


def canonical_video_url(url: str) -> str | None:
    """Return the usual URL of a video page, also for embedded players; None for other pages."""
    parts = urlsplit(url)
    path, query = unquote(parts.path), parse_qs(parts.query)
    match (parts.hostname or "").removeprefix("www.").removeprefix("m."):
        case "youtube.com" | "youtube-nocookie.com" | "music.youtube.com":
            return _youtube_url(path, query)
        case "youtu.be":
            return _youtube_url(f"/v{path}", query)
        case "vimeo.com" | "player.vimeo.com":
            pattern = r"/(?:video/|channels/\w+/)?(\d{5,12})(?:/([0-9a-f]{6,20}))?/?"
            video = re.fullmatch(pattern, path)
            secret = (video[2] if video else None) or query.get("h", [""])[0]
            end = f"/{secret}" if secret.isalnum() else ""
            return f"https://vimeo.com/{video[1]}{end}" if video else None
        case "media.ccc.de":
            video = re.match(r"/v/([\w.-]+)", path)
            return f"https://media.ccc.de/v/{video[1]}" if video else None
    # PeerTube runs on many hosts and is recognised by its paths.
    uuid = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    pattern = rf"/(?:videos/(?:watch|embed)/({uuid})|w/([1-9A-HJ-NP-Za-km-z]{{22}}))/?"
    if (video := re.fullmatch(pattern, path)) is None:
        return None
    own_path = f"/videos/watch/{video[1]}" if video[1] else f"/w/{video[2]}"
    return f"{parts.scheme}://{parts.netloc}{own_path}"


def _youtube_url(path: str, query: Mapping[str, list[str]]) -> str | None:
    match = re.match(r"/(?:embed|live|shorts|v)/([\w-]{6,20})(?:/|$)", path)
    name = match[1] if match else query.get("v", [""])[0] if path == "/watch" else ""
    is_valid = re.fullmatch(r"[\w-]{6,20}", name, re.ASCII) and name != "videoseries"
    return f"https://www.youtube.com/watch?v={name}" if is_valid else None


# Talks ------------------------------------------------------------------------------------------

MAX_SPEAKERS = 100
_TIME = re.compile(r"(?:^|[T\s])([01]?\d|2[0-3]):([0-5]\d)")
_DURATION = re.compile(r"(\d{1,3}):([0-5]\d)(?::[0-5]\d)?")
_LANGUAGE_TAG = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*")


@dataclass(frozen=True, slots=True)
class Article:
    """`text` is Markdown and starts with the title, unless it has the selected elements only."""

    title: str
    language: str | None
    text: str
    #: How many elements were selected.
    selected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkPage:
    """The page of a talk. `text` is Markdown, everything else plain text; None or empty if the page
    does not have it. `day` is a date if the page has one, else its own word. Links are absolute."""

    #: `fosdem`, `pretalx`, `frab`, or empty.
    site: str = ""
    title: str = ""
    speakers: tuple[str, ...] = ()
    text: str = ""
    event: str | None = None
    track: str | None = None
    day: str | None = None
    starttime: str | None = None
    endtime: str | None = None
    language: str | None = None
    links: tuple[Link, ...] = ()


def unique_names(names: Iterable[object]) -> tuple[str, ...]:
    """Return each name once, in order."""
    normalized = (unicodedata.normalize("NFC", single_line(name, 300)) for name in names)
    return tuple(dict.fromkeys(name for name in normalized if name))[:MAX_SPEAKERS]


def parse_time(text: str | None) -> str | None:
    """`9:30`, `09:30:00` or `2025-02-01T09:30:00+01:00` -> `09:30`."""
    match = _TIME.search(text or "")
    return f"{int(match[1]):02}:{match[2]}" if match else None


def parse_date(text: str | None) -> str | None:
    """Return the date at the start of an ISO timestamp."""
    try:
        return date.fromisoformat((text or "").strip()[:10]).isoformat()
    except ValueError:
        return None


def end_time(starttime: str | None, duration: str | None) -> str | None:
    match = _DURATION.fullmatch((duration or "").strip())
    if not starttime or not match:
        return None
    duration_minutes = int(match[1]) * 60 + int(match[2])
    hours, minutes = map(int, starttime.split(":"))
    end = hours * 60 + minutes + duration_minutes
    return f"{end // 60 % 24:02}:{end % 60:02}" if duration_minutes else None


def parse_language(text: str | None) -> str | None:
    """`de-formal`, `de_DE` and `German` -> `de`."""
    name = single_line(text, 60)
    if match := _LANGUAGE_TAG.fullmatch(name):
        return match[1].lower()
    word = name.partition(" ")[0]
    return language_code(word) if len(word) > 3 else None  # `no preference` is not Norwegian


# File paths of session documents: safe on every system ------------------------------------------

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
        return PurePosixPath(posixpath.relpath(f"/{self.assets}", f"/{self.document.parent}"))


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


def track_path(*, event: str | None, language: str | None, track: str | None) -> PurePosixPath:
    """`sessions/<Event>/<lang>/<Track>.md`: beside the folder of the talks, not among them."""
    home = PurePosixPath(ROOT, folder_name(event, NO_EVENT), language_name(language))
    return home / f"{folder_name(track, NO_TRACK)}{SUFFIX}"


#: User IDs that name a folder as they are, on every file system.
_PLAIN_USER = re.compile(r"[a-z0-9](?:[a-z0-9._@+-]{0,58}[a-z0-9])?")


def published_root(user_id: str | None) -> PurePosixPath:
    """Where the documents of a user are published: `sessions/@<user>`, so that nobody replaces the
    documents of others, or `sessions` without users. Names of events never begin with `@`."""
    if user_id is None:
        return PurePosixPath(ROOT)
    name = user_id
    if not _PLAIN_USER.fullmatch(user_id):
        digest = hashlib.sha256(user_id.encode(errors="surrogatepass")).hexdigest()[:16]
        name = f"{folder_name(user_id, 'user')}~{digest}"
    return PurePosixPath(ROOT, f"@{name}")


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
    if len(name.encode()) <= max_bytes:
        return name
    # A digest keeps long names with the same start distinct.
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    cut = name.encode()[: max_bytes - _DIGEST_LENGTH - 1].decode(errors="ignore")
    at_word_end = re.sub(r"[ -][^ -]{0,15}$", "", cut)  # if one is near
    return f"{_trim(at_word_end) or _trim(cut)}-{digest}"


def _trim(name: str) -> str:
    """A leading dot hides a file, a dash makes it an option, and Windows drops trailing dots."""
    return name.lstrip(" .-+,=").rstrip(" .-,=")
