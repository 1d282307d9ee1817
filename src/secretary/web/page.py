"""Reads downloaded pages: conference talks (FOSDEM, pretalx, frab and others) and articles.

Each source on a page (the markup of a known conference system, JSON-LD, meta tags, labels, players)
yields fields; the first source that has a field wins.
"""

import copy
import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Any

from lxml import etree

from ..core.errors import FileCorrupt
from .markup import (
    FRAME,
    Element,
    content_element,
    html_to_markdown,
    is_within,
    main_text,
    parse_page,
    read_page,
    remove_unread,
    text_of,
    to_page_markdown,
    with_class,
)
from .selectors import select
from .talk import (
    MAX_TITLE,
    Article,
    Link,
    LinkKind,
    TalkPage,
    absolute_url,
    deduplicated,
    end_time,
    link_kind,
    make_link,
    page_key,
    parse_date,
    parse_language,
    parse_time,
    single_line,
    unique_names,
)

MAX_LINKS = 300
#: Elements that are not read even where the whole page is.
MENUS = ("nav", "footer", "form", "button", "dialog")


def read_article(path: str, url: str, *, selector: str | None, with_links: bool) -> Article:
    """Run this in a sandbox: the page is untrusted. Nothing is fetched, no script is run.

    The text is what the page is about; with links, all of the page with the addresses of its
    images and videos; with a selector, the matching elements in that form."""
    root = parse_page(read_page(path), url)
    title = _heading(root) or _html_title(root)
    language = parse_language(root.get("lang")) or None
    description = _description(root)
    players = _player_links(root)
    remove_unread(root)
    if with_links or selector:
        _images_to_links(root)
    if selector:
        elements = select(root, selector)
        parts = [to_page_markdown([_without_tail(element)]).strip() for element in elements]
        text = "\n\n".join(part for part in parts if part)
        return Article(title, language, text, selected=len(elements))
    if with_links:
        etree.strip_elements(root, *MENUS, with_tail=False)
        videos = "\n".join(f"- [{link.kind}]({link.url})" for link in players)
        text = "\n\n".join(filter(None, (to_page_markdown([root]).strip(), videos)))
        return Article(title, language, f"{text}\n")
    text = main_text(root) or to_page_markdown([root])
    text = text or html_to_markdown(html.escape(description))
    if not text.strip():
        raise FileCorrupt("There is no text on the page")
    if title and not text.startswith("# "):
        text = f"{html_to_markdown(f'<h1>{html.escape(title)}</h1>').strip()}\n\n{text}"
    return Article(title, language, text)


def _images_to_links(root: Element) -> None:
    for image in root.iter("img"):
        url = image.get("src") or image.get("data-src")
        if url:
            image.tag = "a"
            image.set("href", url)
            image.text = f"Image: {single_line(image.get('alt'), 200)}".strip()


def _without_tail(element: Element) -> Element:
    element = copy.deepcopy(element)
    element.tail = None
    return element


def read_talk_page(path: str, url: str) -> TalkPage:
    """Run this in a sandbox: the page is untrusted. Nothing is fetched, no script is run."""
    return parse_talk_page(read_page(path), url)


def parse_talk_page(data: bytes, url: str) -> TalkPage:
    root = parse_page(data, url)
    json_ld = _json_ld_fields(root, f"{_heading(root)} {_html_title(root)}", url)
    remove_unread(root)
    site, site_fields = "", TalkPage()
    for name, parse in (("fosdem", _fosdem), ("pretalx", _pretalx), ("frab", _frab)):
        if extracted := parse(root):
            own_fields, labelled = extracted
            site, site_fields = name, _merge([own_fields, _label_fields(labelled)])
            break
    sources = [site_fields, TalkPage(links=tuple(_player_links(root))), json_ld, _meta_fields(root)]
    if not site:
        # All links in the content, and those to files and videos on the whole page.
        content = content_element(root)
        own = _links_in([content]) if content is not None else []
        links = [*own, *_links_in([root], media_only=content is not None)]
        sources += [TalkPage(links=tuple(links)), _label_fields(root)]
    merged = _merge(sources)
    text = site_fields.text or (main_text(root) if not site else "")
    text = text or json_ld.text or html_to_markdown(html.escape(_description(root)))
    if not (merged.title or text):
        raise FileCorrupt("The page has neither a title nor a text")
    # The heading may repeat the title.
    first, _, rest = text.partition("\n")
    heading = re.sub(r"^#+ |\\(?=[^\w\s])", "", first).strip()
    if first.startswith("#") and heading == merged.title and rest.strip():
        text = rest.lstrip("\n")
    own_key = page_key(absolute_url(url) or url)
    others = tuple(link for link in merged.links if page_key(link.url) != own_key)
    return replace(merged, site=site, text=text, links=others)


def _merge(sources: Iterable[TalkPage]) -> TalkPage:
    """Take each field from the first source that has it, and the links of all."""
    sources = list(sources)
    values: dict[str, Any] = {
        field.name: next(
            filter(None, (getattr(source, field.name) for source in sources)), field.default
        )
        for field in fields(TalkPage)
    }
    links = tuple(deduplicated(link for source in sources for link in source.links))
    return TalkPage(**{**values, "links": links})


# Headings, meta tags and links ------------------------------------------------------------------

_SPEAKER = re.compile(r"/(speakers?|referent(en|innen)?|sprecher|persons?|people)/[^/?#]+", re.I)


def _heading(root: Element) -> str:
    """Return the text of the only `h1` outside the page header."""
    headings = [heading for heading in root.iter("h1") if not is_within(heading, ("header", "nav"))]
    texts = [text for heading in headings if (text := text_of(heading, MAX_TITLE))]
    return texts[0] if len(texts) == 1 else ""


def _html_title(root: Element) -> str:
    return text_of(root.find(".//head/title"), MAX_TITLE)


def _meta_fields(root: Element) -> TalkPage:
    tags = _meta_tags(root)
    start, end = tags.get("event:start_time", ""), tags.get("event:end_time", "")
    names = ("og:video:secure_url", "og:video:url", "og:video", "twitter:player")
    videos = [make_link(tags[name], kind=LinkKind.VIDEO_PAGE) for name in names if name in tags]
    return TalkPage(
        title=_heading(root) or tags.get("og:title", "") or _html_title(root),
        speakers=unique_names(  # the texts of links to pages of speakers, outside of menus
            text_of(link, 200)
            for link in root.iter("a")
            if _SPEAKER.search(link.get("href") or "") and not is_within(link, FRAME)
        ),
        event=tags.get("og:site_name", ""),
        **_times(start, end),
        language=parse_language(root.get("lang") or tags.get("og:locale")),
        links=tuple(link for link in videos if link and link_kind(link.url) != LinkKind.OTHER),
    )


def _times(start: str | None, end: str | None) -> dict[str, Any]:
    """The fields for two ISO timestamps."""
    return {"day": parse_date(start), "starttime": parse_time(start), "endtime": parse_time(end)}


def _description(root: Element) -> str:
    tags = _meta_tags(root)
    return tags.get("og:description", "") or tags.get("description", "")


def _meta_tags(root: Element) -> dict[str, str]:
    tags: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = single_line(meta.get("property") or meta.get("name"), 60).lower()
        value = single_line(meta.get("content"), 4000)
        if name and value:
            tags.setdefault(name, value)
    return tags


def _player_links(root: Element) -> list[Link]:
    """Return the videos that are embedded in the page, and their subtitles."""
    links = []
    for element in root.iter("video", "source", "track", "iframe"):
        url = element.get("src") or element.get("data-src")
        if not url or (element.tag == "source" and element.getparent().tag != "video"):
            continue
        if element.tag == "iframe":
            links.append(make_link(url) if link_kind(url) is LinkKind.VIDEO_PAGE else None)
        elif element.tag == "track":
            is_text = (element.get("kind") or "subtitles") in ("subtitles", "captions")
            label = single_line(element.get("label") or element.get("srclang"), 60)
            links.append(make_link(url, label, kind=LinkKind.SUBTITLES) if is_text else None)
        else:
            links.append(make_link(url, kind=LinkKind.VIDEO))
    return deduplicated(links)


def _links_in(elements: list[Element], *, media_only: bool = False) -> list[Link]:
    anchors = (anchor for element in elements for anchor in element.iter("a"))
    links = (
        make_link(anchor.get("href"), text_of(anchor, 300))
        for anchor in anchors
        if anchor.get("href") and not is_within(anchor, FRAME)
    )
    wanted = (each for each in links if each and not (media_only and each.kind is LinkKind.OTHER))
    return deduplicated(islice(wanted, MAX_LINKS))


# Labels, such as `Room: Janson` -----------------------------------------------------------------

_LABELS = {
    "track": "track", "spur": "track", "topic": "track", "themenbereich": "track",
    "room": "room", "raum": "room", "saal": "room", "location": "room", "ort": "room",
    "day": "day", "date": "day", "tag": "day", "datum": "day",
    "start": "start", "start time": "start", "starts": "start", "beginn": "start",
    "startzeit": "start", "begin": "start",
    "end": "end", "end time": "end", "ends": "end", "ende": "end",
    "duration": "duration", "dauer": "duration",
    "language": "language", "sprache": "language", "language used for presentation": "language",
}  # fmt: skip
_LABEL_TAGS = ("strong", "b", "th", "dt")
_MAX_VALUE = 200


def _label_fields(root: Element) -> TalkPage:
    values = _labelled_values(root)
    start = parse_time(values.get("start")) or ""
    end = parse_time(values.get("end")) or end_time(start, values.get("duration")) or ""
    day = values.get("day", "")
    return TalkPage(
        track=values.get("track", ""),
        day=parse_date(day) or day,
        starttime=start,
        endtime=end,
        language=parse_language(values.get("language")),
    )


def _labelled_values(root: Element) -> dict[str, str]:
    """Return the text after the first known label of each kind."""
    values: dict[str, str] = {}
    for element in root.iter(*_LABEL_TAGS):
        name = _LABELS.get(text_of(element, 40).rstrip(": ").casefold())
        if name and name not in values:
            value = _text_after(element).lstrip(": ").strip()
            if value:
                values[name] = value
    return values


def _text_after(label: Element) -> str:
    if label.tag in ("th", "dt"):
        cell = label.getnext()
        return text_of(cell, _MAX_VALUE) if cell is not None and cell.tag in ("td", "dd") else ""
    parts = [label.tail or ""]
    sibling = label.getnext()
    if sibling is None and label.getparent().tag == "td":
        return text_of(label.getparent().getnext(), _MAX_VALUE)
    while sibling is not None and sibling.tag not in (*_LABEL_TAGS, "br", "ul", "table"):
        parts += [text_of(sibling, _MAX_VALUE), sibling.tail or ""]
        sibling = sibling.getnext()
    return single_line(" ".join(parts), _MAX_VALUE)


# JSON-LD ----------------------------------------------------------------------------------------

_MAX_JSON = 1024 * 1024
_MAX_SCRIPTS = 30
_MAX_OBJECTS = 2000

JsonObject = dict[str, Any]


def _json_ld_fields(root: Element, page_title: str, base: str) -> TalkPage:
    """An event whose name is in the title of the page, or that is part of another event, is the
    talk; any other is the conference."""
    objects = list(_json_ld_objects(root))
    events = [each for each in objects if any(kind.endswith("Event") for kind in _types(each))]
    talk = next((event for event in events if _is_talk(event, page_title)), None)
    conference = next((event for event in events if not _is_talk(event, page_title)), None)
    videos = [each for each in objects if "VideoObject" in _types(each)]
    return _merge(
        [
            *([_event_fields(talk, base)] if talk else []),
            *([TalkPage(event=_name(conference))] if conference else []),
            *(TalkPage(links=tuple(_video_links(video, base))) for video in videos),
        ]
    )


def _json_ld_objects(root: Element) -> Iterator[JsonObject]:
    remaining = _MAX_OBJECTS
    for script in root.xpath("//script[@type='application/ld+json']")[:_MAX_SCRIPTS]:
        text = script.text or ""
        try:
            queue = [json.loads(text)] if len(text) <= _MAX_JSON else []
        except (ValueError, RecursionError):
            continue
        while queue and remaining:
            remaining -= 1
            value = queue.pop(0)
            if isinstance(value, dict):
                yield value
                queue += [
                    each
                    for key, each in value.items()
                    if isinstance(each, dict | list) and key != "superEvent"
                ]
            elif isinstance(value, list):
                queue += value


def _is_talk(event: JsonObject, page_title: str) -> bool:
    name = _name(event).casefold()
    return bool(_first(event.get("superEvent"))) or bool(name and name in page_title.casefold())


def _event_fields(event: JsonObject, base: str) -> TalkPage:
    start, end = single_line(event.get("startDate"), 60), single_line(event.get("endDate"), 60)
    language = _first(event.get("inLanguage"))
    people = [*_as_list(event.get("performer")), *_as_list(event.get("actor"))]
    return TalkPage(
        title=_name(event),
        speakers=unique_names(_name(person) for person in people),
        text=html_to_markdown(str(event.get("description") or "")),
        event=_name(_first(event.get("superEvent"))),
        **_times(start, end),
        language=parse_language(language.get("alternateName") or language.get("name")),
        links=tuple(_video_links(_first(event.get("recordedIn")), base)),
    )


def _video_links(video: JsonObject, base: str) -> list[Link]:
    title = _name(video)
    links = [
        make_link(single_line(video.get(key), 4000), title, base=base, kind=kind)
        for key, kind in (("contentUrl", LinkKind.VIDEO), ("embedUrl", LinkKind.VIDEO_PAGE))
    ]
    for caption in _as_list(video.get("caption")):
        url = single_line(_first(caption).get("contentUrl"), 4000)
        links.append(make_link(url, base=base, kind=LinkKind.SUBTITLES) if url else None)
    return deduplicated(link for link in links if link and link.url != base)


def _types(value: JsonObject) -> list[str]:
    return [kind for kind in _as_list(value.get("@type")) if isinstance(kind, str)]


def _name(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else value
    return single_line(html.unescape(name[:4000]), MAX_TITLE) if isinstance(name, str) else ""


def _first(value: Any) -> JsonObject:
    """Return an object, the first of several, or an object for a bare name."""
    value = next(iter(_as_list(value)), None)
    return value if isinstance(value, dict) else {"name": value} if value else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


# Known conference systems -----------------------------------------------------------------------


#: The fields of a page, and the element that has more of them with labels.
SiteFields = tuple[TalkPage, Element]


def _fosdem(root: Element) -> SiteFields | None:
    boxes = with_class(root, "side-box", "ul")
    box = next((each for each in boxes if len(_labelled_values(each)) > 2), None)
    if box is None:
        return None
    event, _, title = _html_title(root).partition(" - ")
    texts = [*with_class(root, "event-abstract"), *with_class(root, "event-description")]
    speakers = root.xpath(".//a[contains(@href, '/schedule/speaker/')]")
    lists = with_class(root, "event-attachments")
    for heading in root.iter("h3"):
        below = heading.getnext()
        name = text_of(heading, 40).rstrip(":").casefold()
        if below is not None and below.tag == "ul" and name in ("links", "attachments"):
            lists.append(below)
    return TalkPage(
        title=text_of(_first_with_class(root, "schedule-title"), MAX_TITLE) or title,
        event=event if title else "",
        speakers=unique_names(map(text_of, speakers)),
        text=to_page_markdown(texts),
        links=tuple(_links_in(lists)),
    ), box


def _pretalx(root: Element) -> SiteFields | None:
    heading = _first_with_class(root, "talk-title")
    if heading is None or not (with_class(root, "abstract") or with_class(root, "talk-content")):
        return None
    slots = _first_with_class(root, "talk-slots")
    times = _slot_times(slots if slots is not None else heading)
    cards = ("pretalx-session-info", "speaker")
    people = [
        title
        for name in cards
        for person in with_class(root, name)
        for title in with_class(person, "title")[:1] or person.xpath("self::a | .//h3/a")[:1]
    ]
    texts = [
        part
        for name in ("abstract", "description", "answers")
        for part in with_class(root, name)
        if not any(_has_class(parent, cards) for parent in part.iterancestors())
    ]
    title_parts = [part.strip() for part in _html_title(root).split("::")]
    links = _links_in([*with_class(root, "resources"), *texts])
    size = re.compile(r"\s*\(\d+([.,]\d+)?\s*([KMGkmg]i?)?(B|bytes?)\)$")
    return TalkPage(
        title=_text_without(heading, ("small", "button"), ("buttons", "speakers")),
        event=title_parts[1] if len(title_parts) > 2 else "",
        speakers=unique_names(map(text_of, people)),
        text=to_page_markdown(texts),
        **times,
        links=tuple(replace(link, title=size.sub("", link.title)) for link in links),
    ), heading


def _frab(root: Element) -> SiteFields | None:
    details, basic = root.find(".//*[@id='details']"), root.find(".//*[@id='basic']")
    if details is not None and basic is not None:
        return _older_frab(root, basic, details)
    cards = with_class(root, "speakers-section")
    heading = next((each for each in root.iter("h2") if is_within(each, ("article",))), None)
    if not cards or heading is None:
        return None
    speakers = [title for card in cards for title in with_class(card, "title")]
    texts = [part for card in with_class(root, "card-body") for part in card if part.tag != "h4"]
    return TalkPage(
        title=_without_type(text_of(heading, MAX_TITLE)),
        event=_html_title(root).rpartition(" | ")[2],
        speakers=unique_names(map(text_of, speakers)),
        text=to_page_markdown(texts),
        track=text_of(_first_with_class(root, "bg-success")),
        **_slot_times(heading.getparent()),
        links=_frab_links(with_class(root, "links-section")),
    ), heading.getparent()


def _older_frab(root: Element, basic: Element, details: Element) -> SiteFields:
    texts = [part for name in ("abstract", "description") for part in with_class(basic, name)]
    people = root.xpath(".//*[@id='sidebar']//td//a")
    heading = next((each for each in root.iter("h2") if text_of(each)), None)
    return TalkPage(
        title=_without_type(text_of(heading, MAX_TITLE)),
        speakers=unique_names(map(text_of, people)),
        text=to_page_markdown(texts),
        links=_frab_links(details.findall("ul")),
    ), details


def _first_with_class(root: Element, name: str) -> Element | None:
    return next(iter(with_class(root, name)), None)


def _slot_times(element: Element) -> dict[str, Any]:
    """Return the fields for the first two `time` elements: start and end."""
    times = [each.get("data-isodatetime") or each.get("datetime") for each in element.iter("time")]
    start, end, *_ = [*times, None, None]
    return _times(start, end)


def _text_without(element: Element, tags: tuple[str, ...], classes: tuple[str, ...]) -> str:
    """Return the text of an element without that of some of its descendants."""
    part = copy.deepcopy(element)
    for descendant in part.iterdescendants():
        if _has_class(descendant, classes):
            descendant.tag = tags[0]
    etree.strip_elements(part, *tags, with_tail=False)
    return text_of(part, MAX_TITLE)


def _without_type(title: str) -> str:
    """frab prefixes the type of the talk: `Lecture: …`."""
    kind, colon, rest = title.partition(": ")
    return rest if colon and len(kind) <= 30 else title


def _frab_links(elements: list[Element]) -> tuple[Link, ...]:
    """All but calendars."""
    return tuple(link for link in _links_in(elements) if not link.url.endswith(".ics"))


def _has_class(element: Element, classes: tuple[str, ...]) -> bool:
    return bool(set((element.get("class") or "").split()) & set(classes))
