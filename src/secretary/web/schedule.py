"""Reads conference schedules (the XML and JSON of pretalx, frab and others) as session jobs."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from lxml import etree

from ..core.errors import FileCorrupt, FileTooLarge, InvalidParameters, UnsupportedFile
from ..documents.office.xml_parser import Element, parse_xml
from . import talk

MAX_BYTES = 32 * 1024 * 1024
#: The largest conferences have some two thousand.
MAX_TALKS = 20_000
#: Names that are listed in an error if no talk matches.
_MAX_LISTED = 50
_WEEKDAYS = (
    ("monday", "montag"), ("tuesday", "dienstag"), ("wednesday", "mittwoch"),
    ("thursday", "donnerstag"), ("friday", "freitag"), ("saturday", "samstag", "sonnabend"),
    ("sunday", "sonntag"),
)  # fmt: skip


class ScheduleEntry(NamedTuple):
    """A talk in a schedule."""

    #: Its identifier in the schedule.
    name: str
    day_number: int
    title: str
    #: Other parameters of its session job, as plain text; empty if unknown.
    parameters: dict[str, Any]


def session_parameters(
    data: bytes,
    url: str = "",
    event: str | None = None,
    tracks: Sequence[str] = (),
    days: Sequence[str] = (),
    titles: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the parameters of a session job for each selected talk of `schedule.xml` or
    `schedule.json`. `url` is the base of its links; `event` overrides the name of the conference.

    Tracks match as a whole (`*` is a wildcard), days by date, number or weekday, titles by a part
    of them; without any, all match.
    """
    if len(data) > MAX_BYTES:
        raise FileTooLarge("The schedule is larger than allowed", limit_bytes=MAX_BYTES)
    start = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith((b"<", b"\xff\xfe", b"\xfe\xff")):  # byte order marks of UTF-16
        conference, talks = _parse_xml(data, url)
    elif start.startswith(b"{"):
        conference, talks = _parse_json(data, url)
    else:
        raise UnsupportedFile("The schedule is neither XML nor JSON")
    entries = [entry for entry in islice(talks, MAX_TALKS + 1) if entry.title]
    if len(entries) > MAX_TALKS:
        raise FileTooLarge(f"A schedule may have at most {MAX_TALKS:,} talks")
    event = talk.single_line(event) or talk.single_line(conference) or None
    selected = [
        {"event": event, "session": entry.title, "filename": f"{stem}.md", **entry.parameters}
        # Stems are made of all talks, so that they do not depend on the filter.
        for entry, stem in zip(entries, _stems(entries), strict=True)
        if _is_selected(entry, tracks, days, titles)
    ]
    if not selected:
        raise _no_match(entries)
    return [{name: value for name, value in each.items() if value} for each in selected]


def _stems(entries: Sequence[ScheduleEntry]) -> list[str]:
    """Talks with the same title get their identifier in the schedule: a number would change when
    another one is added before them."""
    stems = [
        talk.title_stem(entry.title) or talk.title_stem(entry.name) or talk.NO_NAME
        for entry in entries
    ]
    counts = Counter(map(talk.filename_key, stems))
    return talk.unique_stems(
        talk.title_stem(f"{stem}-{entry.name}") if counts[talk.filename_key(stem)] > 1 else stem
        for stem, entry in zip(stems, entries, strict=True)
    )


def _is_selected(
    entry: ScheduleEntry, tracks: Sequence[str], days: Sequence[str], titles: Sequence[str]
) -> bool:
    def any_of(patterns: Sequence[str], matches: Callable[[str], bool]) -> bool:
        normalized = (" ".join(pattern.split()).casefold() for pattern in patterns)
        return not patterns or any(map(matches, normalized))

    def is_track(pattern: str) -> bool:
        name = (entry.parameters["track"] or "").casefold()
        pattern_without_sets = pattern.replace("[", "[[]")
        return name == pattern or ("*" in pattern and fnmatchcase(name, pattern_without_sets))

    return (
        any_of(tracks, is_track)
        and any_of(days, partial(_is_on, entry))
        and any_of(titles, lambda part: part in entry.title.casefold())
    )


def _is_on(entry: ScheduleEntry, day: str) -> bool:
    own_day = entry.parameters["day"]
    if day in (str(entry.day_number), own_day):
        return True
    if own_day is None:
        return False
    names = _WEEKDAYS[date.fromisoformat(own_day).weekday()]
    return day in names or day == names[0][:3]


def _no_match(entries: Sequence[ScheduleEntry]) -> InvalidParameters:
    if not entries:
        return InvalidParameters("The schedule has no talks")

    def listed(name: str) -> list[str]:
        values = filter(None, (entry.parameters[name] for entry in entries))
        return list(dict.fromkeys(values))[:_MAX_LISTED]

    tracks, days = listed("track"), listed("day")
    available = f"Tracks: {', '.join(tracks) or 'none'}. Days: {', '.join(days) or 'none'}."
    return InvalidParameters(
        f"No talk of the schedule matches. {available}",
        tracks=tracks,
        days=days,
        talks=len(entries),
    )


def _entry(event: dict[str, Any], day: str | None, day_number: int, base: str) -> ScheduleEntry:
    """The entry of a JSON event, or of an XML event as one."""
    links = _links(event, base)
    url, timestamp = talk.single_line(event.get("url"), 8000), talk.single_line(event.get("date"))
    name = event.get("id") or event.get("code") or event.get("slug") or event.get("guid")
    persons = event["persons"] if isinstance(event.get("persons"), list) else ()
    starttime = talk.parse_time(talk.single_line(event.get("start")) or timestamp)
    parameters = {
        "url": talk.absolute_url(url, base) if url else None,
        "track": _localized(event.get("track")),
        "day": talk.parse_date(day) or talk.parse_date(timestamp),
        "starttime": starttime,
        "endtime": talk.end_time(starttime, talk.single_line(event.get("duration"))),
        "speakers": list(talk.unique_names(map(_person_name, persons))),
        "video_url": talk.best_url(links, *talk.VIDEO_KINDS),
        "attachments_url": talk.best_url(links, talk.LinkKind.ATTACHMENT),
        "source_language": talk.parse_language(talk.single_line(event.get("language"))),
        "subtitles_url": talk.best_url(links, talk.LinkKind.SUBTITLES),  # by the organisers
    }
    return ScheduleEntry(
        name=talk.single_line(str(name)) if isinstance(name, str | int) else "",
        day_number=day_number,
        title=_localized(event.get("title"), talk.MAX_TITLE),
        parameters=parameters,
    )


def _links(event: dict[str, Any], base: str) -> list[talk.Link]:
    links = []
    kinds = {"video_download_url": talk.LinkKind.VIDEO, "attachments": None, "links": None}
    for key, kind in kinds.items():
        value = event.get(key)
        for item in value if isinstance(value, list) else [value]:
            link = item if isinstance(item, dict) else {"url": item}
            url = talk.single_line(link.get("url") or link.get("href"), 8000)
            title = _localized(link.get("title") or link.get("description"))
            own_kind = (
                talk.LinkKind.ATTACHMENT if link.get("kind") is talk.LinkKind.ATTACHMENT else kind
            )
            links.append(talk.make_link(url, title, base=base, kind=own_kind) if url else None)
    return talk.deduplicated(links)


def _person_name(person: Any) -> str:
    if isinstance(person, str):
        return person
    names = map(_mapping(person).get, ("name", "public_name", "full_public_name"))
    return next(filter(None, map(talk.single_line, names)), "")


def _localized(value: Any, max_length: int = 500) -> str:
    """Return a text, or the English or first one of several languages."""
    if isinstance(value, dict):
        value = value.get("en") or next(iter(value.values()), "")
    return talk.single_line(value, max_length)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# JSON -------------------------------------------------------------------------------------------


def _parse_json(data: bytes, base: str) -> tuple[str, Iterator[ScheduleEntry]]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise FileCorrupt("The schedule is not valid JSON") from None
    schedule = _mapping(_mapping(document).get("schedule")) or _mapping(document)
    conference = _mapping(schedule.get("conference"))
    if not isinstance(conference.get("days"), list):
        raise UnsupportedFile("The JSON file is not a conference schedule: it has no days")
    for url in (schedule.get("base_url"), conference.get("url")):
        base = talk.absolute_url(talk.single_line(url), base) or base if url else base
    title = _localized(conference.get("title")) or _localized(conference.get("acronym"))
    return title, _json_entries(conference["days"], base)


def _json_entries(days: list[Any], base: str) -> Iterator[ScheduleEntry]:
    for number, day in enumerate(map(_mapping, days), 1):
        index = day.get("index")
        day_number = index if isinstance(index, int) else number
        for events in _mapping(day.get("rooms")).values():
            for event in events if isinstance(events, list) else ():
                if isinstance(event, dict):
                    yield _entry(event, talk.single_line(day.get("date")), day_number, base)


# XML --------------------------------------------------------------------------------------------


def _parse_xml(data: bytes, base: str) -> tuple[str, Iterator[ScheduleEntry]]:
    try:
        root = parse_xml(data)
    except etree.XMLSyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno else ""
        raise FileCorrupt(f"The schedule is not valid XML{where}") from None
    if root.tag != "schedule":
        raise UnsupportedFile("The XML file is not a conference schedule")
    conference = root.find("conference")
    title = acronym = ""
    if conference is not None:
        title, acronym = _text(conference, "title"), _text(conference, "acronym")
        for url in (root.findtext("base_url"), conference.findtext("base_url"),
                    conference.findtext("url")):  # fmt: skip
            base = talk.absolute_url(talk.single_line(url), base) or base if url else base
    # FOSDEM's schedules before 2024 do not tell where the pages of talks are.
    fosdem = re.fullmatch(r"FOSDEM (20\d\d)", title)
    pages = f"https://archive.fosdem.org/{fosdem[1]}/schedule/event/" if fosdem else None
    return title or acronym, _xml_entries(root, base, pages)


def _xml_entries(root: Element, base: str, pages: str | None) -> Iterator[ScheduleEntry]:
    for number, day in enumerate(root.iter("day"), 1):
        index = talk.single_line(day.get("index"), 9)
        day_number = int(index) if index.isdecimal() else number
        for event in day.iter("event"):
            yield _entry(_xml_event(event, base, pages), day.get("date"), day_number, base)


def _xml_event(event: Element, base: str, pages: str | None) -> dict[str, Any]:
    """The event as it would be in a JSON schedule."""
    names = ("title", "track", "date", "start", "duration", "language")
    slug, url = _text(event, "slug"), _text(event, "url", 8000)
    has_url = url and talk.absolute_url(url, base)
    if not has_url and pages and re.fullmatch(r"[\w.-]+", slug):
        url = f"{pages}{slug}/"
    return {
        **{name: _text(event, name, talk.MAX_TITLE) for name in names},
        "id": talk.single_line(event.get("id")),
        "slug": slug,
        "guid": event.get("guid"),
        "url": url,
        "persons": ["".join(person.itertext()) for person in event.findall("persons/person")],
        "video_download_url": [*map(_xml_link, event.findall("video_download_url"))],
        "attachments": [*map(_xml_link, event.findall("attachments/attachment"))],
        "links": [*map(_xml_link, event.findall("links/link"))],
    }


def _xml_link(element: Element) -> dict[str, Any]:
    text = talk.single_line("".join(element.itertext()), 4000)
    url = element.get("href") or element.get("url") or text
    title = "" if url == text else text
    if element.get("type") == "slides":
        return {"url": url, "title": f"Slides: {title}", "kind": talk.LinkKind.ATTACHMENT}
    return {"url": url, "title": title}


def _text(element: Element, name: str, max_length: int = 500) -> str:
    child = element.find(name)
    return "" if child is None else talk.single_line("".join(child.itertext()), max_length)
