"""Links on pages: absolute, to the web only, classified by what they lead to."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qs, quote, unquote, urljoin, urlsplit, urlunsplit

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
    for link in links:
        if link is None:
            continue
        key = page_key(link.url)
        known = by_page.get(key)
        if known is None or (link.title and not known.title):
            by_page[key] = link if known is None else Link(known.url, link.title, known.kind)
    return list(by_page.values())


def page_key(url: str) -> str:
    """Equal for all URLs of one page."""
    return url.partition("#")[0].rstrip("/")


def best_video(links: Iterable[Link]) -> Link | None:
    """Prefer a file to a page, and mp4 to webm."""
    videos = [link for link in links if link.kind in (LinkKind.VIDEO, LinkKind.VIDEO_PAGE)]
    return min(videos, key=_rank, default=None)


def best_attachment(links: Iterable[Link]) -> Link | None:
    """Prefer slides to other documents, and PDF to formats that must be converted."""
    attachments = [link for link in links if link.kind is LinkKind.ATTACHMENT]
    return min(attachments, key=lambda link: (not _is_slides(link), _rank(link)), default=None)


def best_subtitles(links: Iterable[Link]) -> Link | None:
    subtitles = [link for link in links if link.kind is LinkKind.SUBTITLES]
    return min(subtitles, key=_rank, default=None)


def _is_slides(link: Link) -> bool:
    name = unquote(link.url.rpartition("/")[2]).replace("_", " ").replace("-", " ")
    return bool(_SLIDES.search(link.title) or _SLIDES.search(name))


def _rank(link: Link) -> int:
    return _BY_SUFFIX.get(_suffix(link.url), (link.kind, _UNKNOWN_RANK))[1]


# Video sites ------------------------------------------------------------------------------------


def canonical_video_url(url: str) -> str | None:
    """Return the usual URL of a video page, also for embedded players; None for other pages."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.").removeprefix("m.")
    path = unquote(parts.path)
    for hosts, canonical_url in _SITES:
        if host in hosts:
            return canonical_url(path, parts.query)
    return _peertube(parts.scheme, parts.netloc, path)


def _youtube(path: str, query: str) -> str | None:
    match = re.match(r"/(?:embed|live|shorts|v)/([\w-]{6,20})(?:/|$)", path)
    name = match[1] if match else parse_qs(query).get("v", [""])[0] if path == "/watch" else ""
    is_valid = re.fullmatch(r"[\w-]{6,20}", name, re.ASCII) and name != "videoseries"
    return f"https://www.youtube.com/watch?v={name}" if is_valid else None


def _youtu_be(path: str, query: str) -> str | None:
    return _youtube(f"/v{path}", query)


def _vimeo(path: str, query: str) -> str | None:
    match = re.fullmatch(r"/(?:video/|channels/\w+/)?(\d{5,12})(?:/([0-9a-f]{6,20}))?/?", path)
    if not match:
        return None
    secret = match[2] or parse_qs(query).get("h", [""])[0]
    return f"https://vimeo.com/{match[1]}" + (f"/{secret}" if secret.isalnum() else "")


def _ccc(path: str, query: str) -> str | None:
    match = re.match(r"/v/([\w.-]+)", path)
    return f"https://media.ccc.de/v/{match[1]}" if match else None


def _peertube(scheme: str, netloc: str, path: str) -> str | None:
    """PeerTube runs on many hosts and is recognised by its paths."""
    uuid = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    match = re.fullmatch(
        rf"/(?:videos/(?:watch|embed)/({uuid})|w/([1-9A-HJ-NP-Za-km-z]{{22}}))/?", path
    )
    if not match:
        return None
    return f"{scheme}://{netloc}" + (f"/videos/watch/{match[1]}" if match[1] else f"/w/{match[2]}")


_SITES: tuple[tuple[frozenset[str], Callable[[str, str], str | None]], ...] = (
    (frozenset({"youtube.com", "youtube-nocookie.com", "music.youtube.com"}), _youtube),
    (frozenset({"youtu.be"}), _youtu_be),
    (frozenset({"vimeo.com", "player.vimeo.com"}), _vimeo),
    (frozenset({"media.ccc.de"}), _ccc),
)
