"""Links of strangers: absolute, only to the web, and told apart by what they lead to."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urljoin, urlsplit, urlunsplit

from ..core.languages import language_code

#: As long as the parameters of a session job may be.
MAX_NAME = 500
MAX_TITLE = 1000
MAX_SPEAKERS = 100

_TIME = re.compile(r"(?:^|[T\s])([01]?\d|2[0-3]):([0-5]\d)")
_DURATION = re.compile(r"(\d{1,3}):([0-5]\d)(?::[0-5]\d)?")
_CODE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*")


def single_line(text: object, longest: int = MAX_NAME) -> str:
    """A text as one line without controls; empty for what is no text."""
    if not isinstance(text, str):
        return ""
    kept = (char if char.isprintable() else " " for char in text[: 4 * longest])
    return " ".join("".join(kept).split())[:longest].strip()


def unique_names(found: Any) -> tuple[str, ...]:
    """Each name once, in order."""
    told = (unicodedata.normalize("NFC", single_line(name, 300)) for name in found)
    return tuple(dict.fromkeys(name for name in told if name))[:MAX_SPEAKERS]


def parse_time(text: str | None) -> str | None:
    """`9:30`, `09:30:00` or `2025-02-01T09:30:00+01:00` -> `09:30`."""
    found = _TIME.search(text or "")
    return f"{int(found[1]):02}:{found[2]}" if found else None


def parse_date(text: str | None) -> str | None:
    """The date that an ISO time begins with."""
    try:
        return date.fromisoformat((text or "").strip()[:10]).isoformat()
    except ValueError:
        return None


def end_time(starttime: str | None, duration: str | None) -> str | None:
    length = _DURATION.fullmatch((duration or "").strip())
    if not starttime or not length:
        return None
    lasts = int(length[1]) * 60 + int(length[2])
    hours, minutes = map(int, starttime.split(":"))
    end = hours * 60 + minutes + lasts
    return f"{end // 60 % 24:02}:{end % 60:02}" if lasts else None


def parse_language(text: str | None) -> str | None:
    """`de-formal`, `de_DE` and `German` are all `de`."""
    told = single_line(text, 60)
    if found := _CODE.fullmatch(told):
        return found[1].lower()
    word = told.partition(" ")[0]
    return language_code(word) if len(word) > 3 else None  # `no preference` is not Norwegian


#: No address of a talk is longer; those that are hold data, not a place.
MAX_URL = 4000
MAX_LINK_TITLE = 300


class LinkKind(StrEnum):
    VIDEO = "video"
    VIDEO_PAGE = "video page"
    SUBTITLES = "subtitles"
    ATTACHMENT = "attachment"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Link:
    url: str
    title: str = ""
    kind: LinkKind = LinkKind.OTHER


#: What is left of a path with one of these is a file; the best to work with comes first.
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
_UNKNOWN = 99
_SLIDES = re.compile(r"\b(slides?|slide ?deck|deck|presentation|folien|pr[äa]sentation)\b", re.I)

_SPACE_OR_CONTROL = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ufffe\uffff\ud800-\udfff]")
#: What a URL may not hold as it is, and what would end one in Markdown or HTML.
_KEPT = "%/:=&?~#+!$,;'@*[]"


def absolute_url(url: str, base: str = "") -> str | None:
    """The address as it can be asked for; None where it leads anywhere but to the web."""
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
        return None  # a name before the host hides which host it is
    place = f"[{host}]" if ":" in host else host
    place = f"{place}:{port}" if port else place
    rest = (_clean(part) for part in (parts.path or "/", parts.query, parts.fragment))
    whole = urlunsplit((parts.scheme, place, *rest))
    return whole if len(whole) <= MAX_URL else None


def _clean(part: str) -> str:
    text = part.encode("utf-8", "replace").decode()
    return quote(text, safe=_KEPT) if re.search(r"[^\w/.~%-]", text) else text


def make_link(
    url: str, title: str = "", *, base: str = "", kind: LinkKind | None = None
) -> Link | None:
    """A link to what `url` names, of the kind it is or of the one that its page says it is."""
    found = absolute_url(url, base)
    if found is None:
        return None
    told = link_kind(found)
    if told is LinkKind.OTHER and kind is not None:
        told = kind
    if told is LinkKind.VIDEO_PAGE:
        found = canonical_video_url(found) or found
    return Link(found, single_line(title, MAX_LINK_TITLE), told)


def link_kind(url: str) -> LinkKind:
    known = _BY_SUFFIX.get(_suffix(url))
    if known:
        return known[0]
    return LinkKind.VIDEO_PAGE if canonical_video_url(url) else LinkKind.OTHER


def canonical_video_url(url: str) -> str | None:
    """The page of a video by its usual address, however it is embedded; None for other pages."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.").removeprefix("m.")
    path = unquote(parts.path)
    for hosts, rule in _SITES:
        if host in hosts:
            return rule(path, parts.query)
    return _peertube(parts.scheme, parts.netloc, path)


def _youtube(path: str, query: str) -> str | None:
    found = re.match(r"/(?:embed|live|shorts|v)/([\w-]{6,20})(?:/|$)", path)
    name = found[1] if found else parse_qs(query).get("v", [""])[0] if path == "/watch" else ""
    is_name = re.fullmatch(r"[\w-]{6,20}", name, re.ASCII) and name != "videoseries"
    return f"https://www.youtube.com/watch?v={name}" if is_name else None


def _youtu_be(path: str, query: str) -> str | None:
    return _youtube(f"/v{path}", query)


def _vimeo(path: str, query: str) -> str | None:
    found = re.fullmatch(r"/(?:video/|channels/\w+/)?(\d{5,12})(?:/([0-9a-f]{6,20}))?/?", path)
    if not found:
        return None
    secret = found[2] or parse_qs(query).get("h", [""])[0]
    return f"https://vimeo.com/{found[1]}" + (f"/{secret}" if secret.isalnum() else "")


def _ccc(path: str, query: str) -> str | None:
    found = re.match(r"/v/([\w.-]+)", path)
    return f"https://media.ccc.de/v/{found[1]}" if found else None


def _peertube(scheme: str, place: str, path: str) -> str | None:
    """PeerTube runs on many hosts; its paths are its own."""
    uuid = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    found = re.fullmatch(
        rf"/(?:videos/(?:watch|embed)/({uuid})|w/([1-9A-HJ-NP-Za-km-z]{{22}}))/?", path
    )
    if not found:
        return None
    return f"{scheme}://{place}" + (f"/videos/watch/{found[1]}" if found[1] else f"/w/{found[2]}")


_SITES: tuple[tuple[frozenset[str], Callable[[str, str], str | None]], ...] = (
    (frozenset({"youtube.com", "youtube-nocookie.com", "music.youtube.com"}), _youtube),
    (frozenset({"youtu.be"}), _youtu_be),
    (frozenset({"vimeo.com", "player.vimeo.com"}), _vimeo),
    (frozenset({"media.ccc.de"}), _ccc),
)


def deduplicated(links: Iterable[Link | None]) -> list[Link]:
    """Each address once, in order; the first title that is told stays."""
    found: dict[str, Link] = {}
    for link in links:
        if link is None:
            continue
        key = page_key(link.url)
        known = found.get(key)
        if known is None or (link.title and not known.title):
            found[key] = link if known is None else Link(known.url, link.title, known.kind)
    return list(found.values())


def page_key(url: str) -> str:
    """The same for all addresses that lead to one page."""
    return url.partition("#")[0].rstrip("/")


def best_video(links: Iterable[Link]) -> Link | None:
    """A file before a page, mp4 before webm: every program reads it."""
    videos = [link for link in links if link.kind in (LinkKind.VIDEO, LinkKind.VIDEO_PAGE)]
    return min(videos, key=_rank, default=None)


def best_attachment(links: Iterable[Link]) -> Link | None:
    """What calls itself slides before other papers, a PDF before what must be converted."""
    papers = [link for link in links if link.kind is LinkKind.ATTACHMENT]
    return min(papers, key=lambda link: (not _is_slides(link), _rank(link)), default=None)


def best_subtitles(links: Iterable[Link]) -> Link | None:
    return min((x for x in links if x.kind is LinkKind.SUBTITLES), key=_rank, default=None)


def _is_slides(link: Link) -> bool:
    name = unquote(link.url.rpartition("/")[2]).replace("_", " ").replace("-", " ")
    return bool(_SLIDES.search(link.title) or _SLIDES.search(name))


def _rank(link: Link) -> int:
    return _BY_SUFFIX.get(_suffix(link.url), (link.kind, _UNKNOWN))[1]


def _suffix(url: str) -> str:
    name = urlsplit(url).path.rpartition("/")[2].lower()
    return name.rpartition(".")[2] if "." in name else ""
