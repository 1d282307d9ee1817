"""Schedules as XML: what Pentabarf began, and frab, pretalx and FOSDEM write."""

import re
from collections.abc import Iterator

from lxml import etree

from ...errors import FileCorrupt, UnsupportedFile
from ..office.xml_parts import Element, parsed
from .links import Link, LinkKind, absolute, distinct, link_to
from .plain_values import LONGEST_TITLE, date_of, line, names
from .talk import Entry


def read_xml(data: bytes, base: str) -> tuple[str, Iterator[Entry]]:
    """The name of the conference, and its talks."""
    root = _parsed(data)
    if root.tag != "schedule":
        raise UnsupportedFile("This XML is no schedule of a conference: it begins otherwise")
    conference = root.find("conference")
    title = acronym = ""
    if conference is not None:
        title, acronym = _text(conference, "title"), _text(conference, "acronym")
        for place in (root.findtext("base_url"), conference.findtext("base_url"),
                      conference.findtext("url")):  # fmt: skip
            base = absolute(line(place), base) or base if place else base
    return title or acronym, _entries(root, base, _older_fosdem(title))


def _parsed(data: bytes) -> Element:
    try:
        return parsed(data)
    except etree.XMLSyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno else ""
        raise FileCorrupt(f"The schedule is no XML that can be read{where}") from None


def _entries(root: Element, base: str, pages: str | None) -> Iterator[Entry]:
    for number, day in enumerate(root.iter("day"), 1):
        index = line(day.get("index"), 9)
        of_day = int(index) if index.isdecimal() else number
        for event in day.iter("event"):
            yield _entry(event, day.get("date"), of_day, base, pages)


def _entry(event: Element, day: str | None, number: int, base: str, pages: str | None) -> Entry:
    slug = _text(event, "slug")
    url = absolute(_text(event, "url", 8000), base) if _text(event, "url") else None
    if url is None and pages and re.fullmatch(r"[\w.-]+", slug):
        url = absolute(f"{slug}/", pages)
    return Entry(
        title=_text(event, "title", LONGEST_TITLE),
        name=line(event.get("id")) or slug or line(event.get("guid")),
        url=url,
        track=_text(event, "track") or None,
        day=date_of(day) or date_of(_text(event, "date")),
        day_number=number,
        start=_text(event, "start") or _text(event, "date"),
        duration=_text(event, "duration"),
        language=_text(event, "language"),
        speakers=names("".join(person.itertext()) for person in event.findall("persons/person")),
        links=tuple(_links(event, base)),
    )


def _links(event: Element, base: str) -> list[Link]:
    found = []
    for path, kind in (
        ("video_download_url", LinkKind.VIDEO),
        ("attachments/attachment", None),
        ("links/link", None),
    ):
        for element in event.findall(path):
            text = line("".join(element.itertext()), 4000)
            url = element.get("href") or element.get("url") or text
            if not url:
                continue
            title = "" if url == text else text
            is_slides = element.get("type") == "slides"
            title = f"Slides: {title}" if is_slides else title
            told = LinkKind.ATTACHMENT if is_slides else kind
            found.append(link_to(url, title, base=base, kind=told))
    return distinct(found)


def _older_fosdem(title: str) -> str | None:
    """Schedules of FOSDEM before 2024 do not tell where the page of a talk is."""
    found = re.fullmatch(r"FOSDEM (20\d\d)", title)
    return f"https://archive.fosdem.org/{found[1]}/schedule/event/" if found else None


def _text(element: Element, name: str, longest: int = 500) -> str:
    found = element.find(name)
    return "" if found is None else line("".join(found.itertext()), longest)
