"""Pages of programs that many conferences use, known by how they are built."""

import re
from collections.abc import Iterator

from lxml import etree

from .facts import NOTHING, Facts, merged
from .labels import facts_of_labels, labelled
from .links import Link
from .markup import Element, markdown_of, text_of, with_class
from .page_tags import links_in, title_of
from .plain_values import LONGEST_TITLE, date_of, line, names, time_of


def site_of(root: Element) -> tuple[str, Facts]:
    for name, site in (("fosdem", _fosdem), ("pretalx", _pretalx), ("frab", _frab)):
        facts = site(root)
        if facts is not None:
            return name, facts
    return "", NOTHING


def _fosdem(root: Element) -> Facts | None:
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
            Facts(
                title=text_of(heading, LONGEST_TITLE) or title,
                event=event if title else "",
                speakers=names(map(text_of, speakers)),
                text=markdown_of(texts),
                links=tuple(links_in(lists)),
            ),
            facts_of_labels(box),
        ]
    )


def _pretalx(root: Element) -> Facts | None:
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
            Facts(
                title=_without(heading, ("small", "button"), ("buttons", "speakers")),
                event=parts[1] if len(parts) > 2 else "",
                speakers=names(map(text_of, people)),
                text=markdown_of(texts),
                day=date_of(start) or "",
                starttime=time_of(start) or "",
                endtime=time_of(end) or "",
                room=room,
                links=tuple(map(_without_size, links_in([*resources, *texts]))),
            ),
            facts_of_labels(heading),
        ]
    )


def _frab(root: Element) -> Facts | None:
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
            Facts(
                title=_without_type(text_of(heading, LONGEST_TITLE)),
                event=title_of(root).rpartition(" | ")[2],
                speakers=names(text_of(one) for card in cards for one in with_class(card, "title")),
                text=markdown_of(texts),
                track=text_of(next(iter(with_class(root, "bg-success")), None)),
                room=text_of(next(iter(with_class(root, "bg-secondary")), None)),
                day=date_of(start) or "",
                starttime=time_of(start) or "",
                endtime=time_of(end) or "",
                links=tuple(_no_calendars(links_in(with_class(root, "links-section")))),
            ),
            facts_of_labels(heading.getparent()),
        ]
    )


def _older_frab(root: Element, details: Element) -> Facts:
    basic = root.find(".//*[@id='basic']")
    texts = [part for name in ("abstract", "description") for part in with_class(basic, name)]
    people = root.xpath(".//*[@id='sidebar']//td//a")
    heading = next((each for each in root.iter("h2") if text_of(each)), None)
    return merged(
        [
            Facts(
                title=_without_type(text_of(heading, LONGEST_TITLE)),
                speakers=names(map(text_of, people)),
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
    return line("".join(parts), LONGEST_TITLE)


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
