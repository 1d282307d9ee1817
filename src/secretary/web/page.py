"""Reads the page of a conference talk, as it was downloaded."""

import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from lxml import etree

from ..core.errors import FileCorrupt
from .links import (
    MAX_TITLE,
    Link,
    LinkKind,
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
from .markup import (
    FRAME,
    Element,
    is_within,
    main_text,
    markdown_of,
    markdown_of_html,
    page_at,
    parsed_page,
    region_of,
    text_of,
    with_class,
    without_scripts,
)
from .talk import TalkPage


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFields:
    """Empty is what is not told. `text` is Markdown, everything else is plain text."""

    title: str = ""
    speakers: tuple[str, ...] = ()
    text: str = ""
    event: str = ""
    track: str = ""
    day: str = ""
    starttime: str = ""
    endtime: str = ""
    room: str = ""
    language: str = ""
    links: tuple[Link, ...] = ()


NOTHING = ExtractedFields()


def merged(sources: Iterable[ExtractedFields]) -> ExtractedFields:
    """Of each fact what the first source tells; the links of all."""
    sources = list(sources)
    told: dict[str, Any] = {
        field.name: next(filter(None, (getattr(one, field.name) for one in sources)), field.default)
        for field in fields(ExtractedFields)
    }
    links = tuple(deduplicated(link for one in sources for link in one.links))
    return ExtractedFields(**{**told, "links": links})


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
_MARKS = ("strong", "b", "th", "dt")
LONGEST = 200


def labelled(root: Element) -> dict[str, str]:
    """What stands behind each label that is known; the first of a kind counts."""
    found: dict[str, str] = {}
    for element in root.iter(*_MARKS):
        name = _LABELS.get(text_of(element, 40).rstrip(": ").casefold())
        if name and name not in found:
            value = _behind(element).lstrip(": ").strip()
            if value:
                found[name] = value
    return found


def facts_of_labels(root: Element) -> ExtractedFields:
    told = labelled(root)
    start = parse_time(told.get("start")) or ""
    end = parse_time(told.get("end")) or end_time(start, told.get("duration")) or ""
    day = told.get("day", "")
    return ExtractedFields(
        track=told.get("track", ""),
        room=told.get("room", ""),
        day=parse_date(day) or day,
        starttime=start,
        endtime=end,
        language=parse_language(told.get("language")) or "",
    )


def _behind(element: Element) -> str:
    if element.tag in ("th", "dt"):
        other = element.getnext()
        return text_of(other, LONGEST) if other is not None and other.tag in ("td", "dd") else ""
    parts = [element.tail or ""]
    other = element.getnext()
    if other is None and element.getparent().tag == "td":
        return text_of(element.getparent().getnext(), LONGEST)
    while other is not None and other.tag not in (*_MARKS, "br", "ul", "table"):
        parts += [text_of(other, LONGEST), other.tail or ""]
        other = other.getnext()
    return single_line(" ".join(parts), LONGEST)


MAX_BYTES = 1024 * 1024
MAX_SCRIPTS = 30
MAX_THINGS = 2000

Thing = dict[str, Any]


def facts_of_linked_data(root: Element, heading: str, base: str) -> ExtractedFields:
    """`heading` is what the page itself is called: an event of that name, or one inside another,
    is the talk; else it is the conference."""
    things = list(_things(root))
    events = [thing for thing in things if any(kind.endswith("Event") for kind in _kinds(thing))]
    talk = next((event for event in events if _is_talk(event, heading)), None)
    whole = next((event for event in events if not _is_talk(event, heading)), None)
    videos = [thing for thing in things if "VideoObject" in _kinds(thing)]
    return merged(
        [
            *([_talk(talk, base)] if talk else []),
            *([ExtractedFields(event=_name(whole))] if whole else []),
            *(ExtractedFields(links=tuple(_videos(video, base))) for video in videos),
        ]
    )


def _things(root: Element) -> Iterator[Thing]:
    left = MAX_THINGS
    scripts = root.xpath("//script[@type='application/ld+json']")[:MAX_SCRIPTS]
    for script in scripts:
        text = script.text or ""
        try:
            waiting = [json.loads(text)] if len(text) <= MAX_BYTES else []
        except (ValueError, RecursionError):
            continue
        while waiting and left:
            left -= 1
            value = waiting.pop(0)
            if isinstance(value, dict):
                yield value
                waiting += [one for key, one in value.items() if isinstance(one, dict | list)
                            and key != "superEvent"]  # fmt: skip
            elif isinstance(value, list):
                waiting += value


def _is_talk(event: Thing, heading: str) -> bool:
    name = _name(event).casefold()
    return bool(_first(event.get("superEvent"))) or bool(name and name in heading.casefold())


def _talk(event: Thing, base: str) -> ExtractedFields:
    start, end = single_line(event.get("startDate"), 60), single_line(event.get("endDate"), 60)
    language = _first(event.get("inLanguage"))
    told = language.get("alternateName") or language.get("name")
    people = [*_listed(event.get("performer")), *_listed(event.get("actor"))]
    return ExtractedFields(
        title=_name(event),
        speakers=unique_names(_name(person) for person in people),
        text=markdown_of_html(str(event.get("description") or "")),
        event=_name(_first(event.get("superEvent"))),
        day=parse_date(start) or "",
        starttime=parse_time(start) or "",
        endtime=parse_time(end) or "",
        room=_name(_first(event.get("location"))),
        language=parse_language(told) or "",
        links=tuple(_videos(_first(event.get("recordedIn")), base)),
    )


def _videos(video: Thing, base: str) -> list[Link]:
    title = _name(video)
    found = [
        make_link(
            single_line(video.get("contentUrl"), 4000), title, base=base, kind=LinkKind.VIDEO
        ),
        make_link(
            single_line(video.get("embedUrl"), 4000), title, base=base, kind=LinkKind.VIDEO_PAGE
        ),
    ]
    for caption in _listed(video.get("caption")):
        url = single_line(_first(caption).get("contentUrl"), 4000)
        found.append(make_link(url, base=base, kind=LinkKind.SUBTITLES) if url else None)
    return deduplicated(link for link in found if link and link.url != base)


def _kinds(thing: Thing) -> list[str]:
    return [kind for kind in _listed(thing.get("@type")) if isinstance(kind, str)]


def _name(thing: Any) -> str:
    told = thing.get("name") if isinstance(thing, dict) else thing
    return single_line(html.unescape(told[:4000]), MAX_TITLE) if isinstance(told, str) else ""


def _first(value: Any) -> Thing:
    """A thing, the first of several, or one that has only a name."""
    value = next(iter(_listed(value)), None)
    return value if isinstance(value, dict) else {"name": value} if value else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


MOST_LINKS = 300
_MEDIA = frozenset({LinkKind.VIDEO, LinkKind.VIDEO_PAGE, LinkKind.SUBTITLES, LinkKind.ATTACHMENT})
_SPEAKER = re.compile(r"/(speakers?|referent(en|innen)?|sprecher|persons?|people)/[^/?#]+", re.I)


def heading_of(root: Element) -> str:
    """The one heading of the first rank that is not the site's own."""
    found = [heading for heading in root.iter("h1") if not is_within(heading, ("header", "nav"))]
    texts = [text for heading in found if (text := text_of(heading, MAX_TITLE))]
    return texts[0] if len(texts) == 1 else ""


def title_of(root: Element) -> str:
    return text_of(root.find(".//head/title"), MAX_TITLE)


def facts_of_tags(root: Element) -> ExtractedFields:
    told = _metas(root)
    start, end = told.get("event:start_time", ""), told.get("event:end_time", "")
    return ExtractedFields(
        title=heading_of(root) or told.get("og:title", "") or title_of(root),
        speakers=_speakers(root),
        event=told.get("og:site_name", ""),
        day=parse_date(start) or "",
        starttime=parse_time(start) or "",
        endtime=parse_time(end) or "",
        language=parse_language(root.get("lang") or told.get("og:locale")) or "",
        links=tuple(_of_head(told)),
    )


def description_of(root: Element) -> str:
    told = _metas(root)
    return told.get("og:description", "") or told.get("description", "")


def _metas(root: Element) -> dict[str, str]:
    found: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = single_line(meta.get("property") or meta.get("name"), 60).lower()
        value = single_line(meta.get("content"), 4000)
        if name and value:
            found.setdefault(name, value)
    return found


def _of_head(told: dict[str, str]) -> Iterator[Link]:
    for name in ("og:video:secure_url", "og:video:url", "og:video", "twitter:player"):
        link = make_link(told[name], kind=LinkKind.VIDEO_PAGE) if name in told else None
        if link is not None and link_kind(link.url) is not LinkKind.OTHER:
            yield link


def _speakers(root: Element) -> tuple[str, ...]:
    """Who has a page among the speakers and is named outside of the menus."""
    return unique_names(
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
            found.append(make_link(url) if link_kind(url) is LinkKind.VIDEO_PAGE else None)
        elif element.tag == "track":
            is_text = (element.get("kind") or "subtitles") in ("subtitles", "captions")
            label = single_line(element.get("label") or element.get("srclang"), 60)
            found.append(make_link(url, label, kind=LinkKind.SUBTITLES) if is_text else None)
        else:
            found.append(make_link(url, kind=LinkKind.VIDEO))
    return deduplicated(found)


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
            link = (
                make_link(anchor.get("href"), text_of(anchor, 300)) if anchor.get("href") else None
            )
            if link and (link.kind in _MEDIA or everything) and not is_within(anchor, FRAME):
                found.append(link)
    return deduplicated(found)


def site_of(root: Element) -> tuple[str, ExtractedFields]:
    for name, site in (("fosdem", _fosdem), ("pretalx", _pretalx), ("frab", _frab)):
        facts = site(root)
        if facts is not None:
            return name, facts
    return "", NOTHING


def _fosdem(root: Element) -> ExtractedFields | None:
    box = next((one for one in with_class(root, "side-box", "ul") if len(labelled(one)) > 2), None)
    if box is None:
        return None
    event, _, title = title_of(root).partition(" - ")
    heading = next(iter(with_class(root, "schedule-title")), None)
    texts = [*with_class(root, "event-abstract"), *with_class(root, "event-description")]
    speakers = root.xpath(".//a[contains(@href, '/schedule/speaker/')]")
    lists = [*with_class(root, "event-attachments"), *_lists_below(root, ("links", "attachments"))]
    return merged(
        [
            ExtractedFields(
                title=text_of(heading, MAX_TITLE) or title,
                event=event if title else "",
                speakers=unique_names(map(text_of, speakers)),
                text=markdown_of(texts),
                links=tuple(links_in(lists)),
            ),
            facts_of_labels(box),
        ]
    )


def _pretalx(root: Element) -> ExtractedFields | None:
    heading = next(iter(with_class(root, "talk-title")), None)
    if heading is None or not (with_class(root, "abstract") or with_class(root, "talk-content")):
        return None
    place = next(iter(with_class(root, "talk-slots")), heading)
    start, end, room = _slot(place)
    people = [
        title
        for person in (*with_class(root, "pretalx-session-info"), *with_class(root, "speaker"))
        for title in with_class(person, "title")[:1] or person.xpath("self::a | .//h3/a")[:1]
    ]
    texts = [
        part
        for name in ("abstract", "description", "answers")
        for part in with_class(root, name)
        if not _is_below(part, ("pretalx-session-info", "speaker"))
    ]
    resources = with_class(root, "resources")
    parts = [part.strip() for part in title_of(root).split("::")]
    return merged(
        [
            ExtractedFields(
                title=_without(heading, ("small", "button"), ("buttons", "speakers")),
                event=parts[1] if len(parts) > 2 else "",
                speakers=unique_names(map(text_of, people)),
                text=markdown_of(texts),
                day=parse_date(start) or "",
                starttime=parse_time(start) or "",
                endtime=parse_time(end) or "",
                room=room,
                links=tuple(map(_without_size, links_in([*resources, *texts]))),
            ),
            facts_of_labels(heading),
        ]
    )


def _frab(root: Element) -> ExtractedFields | None:
    details, cards = root.find(".//*[@id='details']"), with_class(root, "speakers-section")
    if details is not None and root.find(".//*[@id='basic']") is not None:
        return _older_frab(root, details)
    heading = next((each for each in root.iter("h2") if _is_below_tag(each, "article")), None)
    if not cards or heading is None:
        return None
    start, end, _ = _slot(heading.getparent())
    texts = [part for card in with_class(root, "card-body") for part in card if part.tag != "h4"]
    return merged(
        [
            ExtractedFields(
                title=_without_type(text_of(heading, MAX_TITLE)),
                event=title_of(root).rpartition(" | ")[2],
                speakers=unique_names(
                    text_of(one) for card in cards for one in with_class(card, "title")
                ),
                text=markdown_of(texts),
                track=text_of(next(iter(with_class(root, "bg-success")), None)),
                room=text_of(next(iter(with_class(root, "bg-secondary")), None)),
                day=parse_date(start) or "",
                starttime=parse_time(start) or "",
                endtime=parse_time(end) or "",
                links=tuple(_no_calendars(links_in(with_class(root, "links-section")))),
            ),
            facts_of_labels(heading.getparent()),
        ]
    )


def _older_frab(root: Element, details: Element) -> ExtractedFields:
    basic = root.find(".//*[@id='basic']")
    texts = [part for name in ("abstract", "description") for part in with_class(basic, name)]
    people = root.xpath(".//*[@id='sidebar']//td//a")
    heading = next((each for each in root.iter("h2") if text_of(each)), None)
    return merged(
        [
            ExtractedFields(
                title=_without_type(text_of(heading, MAX_TITLE)),
                speakers=unique_names(map(text_of, people)),
                text=markdown_of(texts),
                links=tuple(_no_calendars(links_in(details.findall("ul")))),
            ),
            facts_of_labels(details),
        ]
    )


def _slot(place: Element) -> tuple[str, str, str]:
    """Start and end as ISO times, and the room that stands behind them."""
    times = list(place.iter("time"))[:2]
    told = [one.get("data-isodatetime") or one.get("datetime") or "" for one in times]
    if not times:
        return "", "", ""
    block = next((one for one in times[-1].iterancestors("span")), times[-1])
    room = re.match(r"\s*,\s*([^\n]+)", block.tail or "")
    return told[0], told[1] if len(told) > 1 else "", room[1].strip() if room else ""


def _lists_below(root: Element, headings: tuple[str, ...]) -> Iterator[Element]:
    for heading in root.iter("h3"):
        other = heading.getnext()
        is_list = other is not None and other.tag == "ul"
        if is_list and text_of(heading, 40).rstrip(":").casefold() in headings:
            yield other


def _without(element: Element, tags: tuple[str, ...], classes: tuple[str, ...]) -> str:
    """Its text without that of some of what is in it."""
    parts: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, part in walk:
        if event == "start":
            is_other = part.tag in tags or set((part.get("class") or "").split()) & set(classes)
            if part is not element and is_other:
                walk.skip_subtree()
            else:
                parts.append(part.text or "")
        elif part is not element:
            parts.append(part.tail or "")
    return single_line("".join(parts), MAX_TITLE)


def _without_type(title: str) -> str:
    """frab puts the type before each title: `Lecture: …`."""
    kind, colon, rest = title.partition(": ")
    return rest if colon and len(kind) <= 30 else title


def _without_size(link: Link) -> Link:
    title = re.sub(r"\s*\(\d+([.,]\d+)?\s*([KMGkmg]i?)?(B|bytes?)\)$", "", link.title)
    return Link(link.url, title, link.kind)


def _no_calendars(links: list[Link]) -> Iterator[Link]:
    return (link for link in links if not link.url.endswith(".ics"))


def _is_below(element: Element, classes: tuple[str, ...]) -> bool:
    return any(
        set((parent.get("class") or "").split()) & set(classes)
        for parent in element.iterancestors()
    )


def _is_below_tag(element: Element, tag: str) -> bool:
    return next(element.iterancestors(tag), None) is not None


def read_talk_page(path: str, url: str) -> TalkPage:
    """Runs in a sandbox: the page is a stranger's. Nothing is fetched, no script is run."""
    return parse_talk_page(page_at(path), url)


def parse_talk_page(data: bytes, url: str) -> TalkPage:
    root = parsed_page(data, url)
    linked = facts_of_linked_data(root, f"{heading_of(root)} {title_of(root)}", url)
    without_scripts(root)
    site, told = site_of(root)
    sources = [told, ExtractedFields(links=tuple(players(root))), linked, facts_of_tags(root)]
    if not site:
        sources += [ExtractedFields(links=tuple(_links(root))), facts_of_labels(root)]
    facts = merged(sources)
    text = told.text or (main_text(root) if not site else "")
    text = text or linked.text or markdown_of_html(html.escape(description_of(root)))
    if not (facts.title or text):
        raise FileCorrupt("The page has neither a title nor a text")
    return _page(facts, _without_title(text, facts.title), url, site)


def _without_title(text: str, title: str) -> str:
    """The title stands above the text anyway."""
    first, _, rest = text.partition("\n")
    said = re.sub(r"^#+ |\\(?=[^\w\s])", "", first).strip()
    return rest.lstrip("\n") if first.startswith("#") and said == title and rest.strip() else text


def _links(root: Element) -> list[Link]:
    """All of what says to be the content, and files and videos wherever they are."""
    region = region_of(root)
    own = links_in([region]) if region is not None else []
    return [*own, *links_in([root], everything=region is None)]


def _page(facts: ExtractedFields, text: str, url: str, site: str) -> TalkPage:
    here = page_key(absolute_url(url) or url)
    links = [link for link in facts.links if page_key(link.url) != here]

    def of(*kinds: LinkKind) -> tuple[Link, ...]:
        return tuple(link for link in links if link.kind in kinds)

    return TalkPage(
        url=url,
        site=site,
        title=facts.title,
        speakers=facts.speakers,
        text=text,
        event=facts.event or None,
        track=facts.track or None,
        day=facts.day or None,
        starttime=facts.starttime or None,
        endtime=facts.endtime or None,
        room=facts.room or None,
        language=facts.language or None,
        videos=of(LinkKind.VIDEO, LinkKind.VIDEO_PAGE),
        subtitles=of(LinkKind.SUBTITLES),
        attachments=of(LinkKind.ATTACHMENT),
        links=of(LinkKind.OTHER),
    )


@dataclass(frozen=True, slots=True)
class Article:
    """`text` is Markdown, with the title above it."""

    title: str
    language: str | None
    text: str


def read_article(path: str, url: str) -> Article:
    """Runs in a sandbox: the page is a stranger's. Nothing is fetched, no script is run."""
    root = parsed_page(page_at(path), url)
    title = heading_of(root) or title_of(root)
    language = parse_language(root.get("lang"))
    description = description_of(root)
    without_scripts(root)
    text = main_text(root) or markdown_of([root])
    text = text or markdown_of_html(html.escape(description))
    if not text.strip():
        raise FileCorrupt("There is no text on the page")
    if title and not text.startswith("# "):
        text = f"{markdown_of_html(f'<h1>{html.escape(title)}</h1>').strip()}\n\n{text}"
    return Article(title=title, language=language or None, text=text)
