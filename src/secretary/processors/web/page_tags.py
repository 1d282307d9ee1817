"""What any page tells by its own tags: its head, its headings, its links, its players."""

import re
from collections.abc import Iterator

from .facts import Facts
from .links import Link, LinkKind, distinct, kind_of, link_to
from .markup import FRAME, Element, is_within, text_of
from .plain_values import LONGEST_TITLE, date_of, language_of, line, names, time_of

MOST_LINKS = 300
_MEDIA = frozenset({LinkKind.VIDEO, LinkKind.VIDEO_PAGE, LinkKind.SUBTITLES, LinkKind.ATTACHMENT})
_SPEAKER = re.compile(r"/(speakers?|referent(en|innen)?|sprecher|persons?|people)/[^/?#]+", re.I)


def heading_of(root: Element) -> str:
    """The one heading of the first rank that is not the site's own."""
    found = [heading for heading in root.iter("h1") if not is_within(heading, ("header", "nav"))]
    texts = [text for heading in found if (text := text_of(heading, LONGEST_TITLE))]
    return texts[0] if len(texts) == 1 else ""


def title_of(root: Element) -> str:
    return text_of(root.find(".//head/title"), LONGEST_TITLE)


def facts_of_tags(root: Element) -> Facts:
    told = _metas(root)
    start, end = told.get("event:start_time", ""), told.get("event:end_time", "")
    return Facts(
        title=heading_of(root) or told.get("og:title", "") or title_of(root),
        speakers=_speakers(root),
        event=told.get("og:site_name", ""),
        day=date_of(start) or "",
        starttime=time_of(start) or "",
        endtime=time_of(end) or "",
        language=language_of(root.get("lang") or told.get("og:locale")) or "",
        links=tuple(_of_head(told)),
    )


def description_of(root: Element) -> str:
    told = _metas(root)
    return told.get("og:description", "") or told.get("description", "")


def _metas(root: Element) -> dict[str, str]:
    found: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = line(meta.get("property") or meta.get("name"), 60).lower()
        value = line(meta.get("content"), 4000)
        if name and value:
            found.setdefault(name, value)
    return found


def _of_head(told: dict[str, str]) -> Iterator[Link]:
    for name in ("og:video:secure_url", "og:video:url", "og:video", "twitter:player"):
        link = link_to(told[name], kind=LinkKind.VIDEO_PAGE) if name in told else None
        if link is not None and kind_of(link.url) is not LinkKind.OTHER:
            yield link


def _speakers(root: Element) -> tuple[str, ...]:
    """Who has a page among the speakers and is named outside of the menus."""
    return names(
        text_of(link, 200)
        for link in root.iter("a")
        if _SPEAKER.search(link.get("href") or "") and not is_within(link, FRAME)
    )


def players(root: Element) -> list[Link]:
    """Videos that are shown on the page, and their subtitles."""
    found = []
    for element in root.iter("video", "source", "track", "iframe"):
        url = element.get("src") or element.get("data-src")
        if not url or (element.tag == "source" and not _is_of_video(element)):
            continue
        if element.tag == "iframe":
            found.append(link_to(url) if kind_of(url) is LinkKind.VIDEO_PAGE else None)
        elif element.tag == "track":
            is_text = (element.get("kind") or "subtitles") in ("subtitles", "captions")
            label = line(element.get("label") or element.get("srclang"), 60)
            found.append(link_to(url, label, kind=LinkKind.SUBTITLES) if is_text else None)
        else:
            found.append(link_to(url, kind=LinkKind.VIDEO))
    return distinct(found)


def _is_of_video(source: Element) -> bool:
    parent = source.getparent()
    return parent is not None and parent.tag == "video"


def links_in(elements: list[Element], *, everything: bool = True) -> list[Link]:
    """Links of these parts of a page; without `everything` only those to files and videos."""
    found: list[Link | None] = []
    for part in elements:
        for anchor in part.iter("a"):
            if len(found) >= MOST_LINKS:
                break
            link = link_to(anchor.get("href"), text_of(anchor, 300)) if anchor.get("href") else None
            if link and (link.kind in _MEDIA or everything) and not is_within(anchor, FRAME):
                found.append(link)
    return distinct(found)
