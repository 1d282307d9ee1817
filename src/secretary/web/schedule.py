"""The schedule of a conference as session jobs."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from lxml import etree

from ..core.errors import FileCorrupt, FileTooLarge, InvalidParameters, UnsupportedFile
from ..documents.office.xml_parser import Element, parse_xml
from .links import (
    MAX_TITLE,
    Link,
    LinkKind,
    absolute_url,
    deduplicated,
    make_link,
    parse_date,
    single_line,
    unique_names,
)
from .paths import NO_NAME, filename_key, title_stem, unique_stems
from .talk import ScheduleEntry, Talk, make_talk

_WEEKDAYS = (
    ("monday", "montag"), ("tuesday", "dienstag"), ("wednesday", "mittwoch"),
    ("thursday", "donnerstag"), ("friday", "freitag"), ("saturday", "samstag", "sonnabend"),
    ("sunday", "sonntag"),
)  # fmt: skip
#: So many names are told when nothing fits.
_NAMED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkFilter:
    """Any of several; without one, all. A track is named whole (`*` stands for anything), a day
    by its date, its number or as a weekday, a title by a part of it."""

    tracks: tuple[str, ...] = ()
    days: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()

    def chosen(self, entries: Sequence[ScheduleEntry]) -> list[ScheduleEntry]:
        found = [entry for entry in entries if self._fits(entry)]
        if not found:
            raise _nothing(entries)
        return found

    def _fits(self, entry: ScheduleEntry) -> bool:
        return (
            _any(self.tracks, lambda name: _alike(entry.track or "", name))
            and _any(self.days, lambda day: _is_day(entry, day))
            and _any(self.titles, lambda part: part.casefold() in entry.title.casefold())
        )


def _any(wanted: Sequence[str], fits: Callable[[str], bool]) -> bool:
    return not wanted or any(fits(" ".join(one.split())) for one in wanted)


def _alike(name: str, pattern: str) -> bool:
    name, pattern = name.casefold(), pattern.casefold()
    return name == pattern or ("*" in pattern and fnmatchcase(name, pattern.replace("[", "[[]")))


def _is_day(entry: ScheduleEntry, wanted: str) -> bool:
    wanted = wanted.casefold()
    if wanted in (str(entry.day_number), entry.day):
        return True
    if entry.day is None:
        return False
    names = _WEEKDAYS[date.fromisoformat(entry.day).weekday()]
    return wanted in names or wanted == names[0][:3]


def _nothing(entries: Sequence[ScheduleEntry]) -> InvalidParameters:
    if not entries:
        return InvalidParameters("The schedule has no talks")
    tracks = _distinct(entry.track for entry in entries)
    days = _distinct(entry.day for entry in entries)
    told = f"Its tracks: {', '.join(tracks) or 'none'}. Its days: {', '.join(days) or 'none'}."
    return InvalidParameters(
        f"No talk of the schedule fits. {told}", tracks=tracks, days=days, talks=len(entries)
    )


def _distinct(names: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))[:_NAMED]


def read_json(data: bytes, base: str) -> tuple[str, Iterator[ScheduleEntry]]:
    """The name of the conference, and its talks."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise FileCorrupt("The schedule is no JSON that can be read") from None
    schedule = _mapping(_mapping(document).get("schedule")) or _mapping(document)
    conference = _mapping(schedule.get("conference"))
    if not isinstance(conference.get("days"), list):
        raise UnsupportedFile("This JSON is no schedule of a conference: it has no days")
    for place in (schedule.get("base_url"), conference.get("url")):
        base = absolute_url(single_line(place), base) or base if place else base
    title = _words(conference.get("title")) or _words(conference.get("acronym"))
    return title, _entries(conference["days"], base)


def _entries(days: list[Any], base: str) -> Iterator[ScheduleEntry]:
    for number, day in enumerate(map(_mapping, days), 1):
        index = day.get("index")
        of_day = index if isinstance(index, int) else number
        for events in _mapping(day.get("rooms")).values():
            for event in events if isinstance(events, list) else ():
                if isinstance(event, dict):
                    yield _entry(event, single_line(day.get("date")), of_day, base)


def _entry(event: dict[str, Any], day: str, number: int, base: str) -> ScheduleEntry:
    url, moment = single_line(event.get("url"), 8000), single_line(event.get("date"))
    told = event.get("id") or event.get("code") or event.get("slug") or event.get("guid")
    persons = event.get("persons")
    return ScheduleEntry(
        title=_words(event.get("title"), MAX_TITLE),
        name=single_line(str(told)) if isinstance(told, str | int) else "",
        url=absolute_url(url, base) if url else None,
        track=_words(event.get("track")) or None,
        day=parse_date(day) or parse_date(moment),
        day_number=number,
        start=single_line(event.get("start")) or moment,
        duration=single_line(event.get("duration")),
        language=single_line(event.get("language")),
        speakers=unique_names(
            _name(person) for person in (persons if isinstance(persons, list) else ())
        ),
        links=tuple(_links(event, base)),
    )


def _name(person: Any) -> str:
    if isinstance(person, str):
        return person
    told = _mapping(person)
    found = (single_line(told.get(key)) for key in ("name", "public_name", "full_public_name"))
    return next(filter(None, found), "")


def _links(event: dict[str, Any], base: str) -> list[Link]:
    found = []
    for key, kind in (
        ("video_download_url", LinkKind.VIDEO),
        ("attachments", None),
        ("links", None),
    ):
        value = event.get(key)
        for one in value if isinstance(value, list) else [value]:
            place = one if isinstance(one, dict) else {"url": one}
            url = single_line(place.get("url") or place.get("href"), 8000)
            title = _words(place.get("title") or place.get("description"))
            found.append(make_link(url, title, base=base, kind=kind) if url else None)
    return deduplicated(found)


def _words(value: Any, longest: int = 500) -> str:
    """A text, or the first of several languages."""
    if isinstance(value, dict):
        value = value.get("en") or next(iter(value.values()), "")
    return single_line(value, longest)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def read_xml(data: bytes, base: str) -> tuple[str, Iterator[ScheduleEntry]]:
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
            base = absolute_url(single_line(place), base) or base if place else base
    return title or acronym, _schedule_xml_entries(root, base, _older_fosdem(title))


def _parsed(data: bytes) -> Element:
    try:
        return parse_xml(data)
    except etree.XMLSyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno else ""
        raise FileCorrupt(f"The schedule is no XML that can be read{where}") from None


def _schedule_xml_entries(root: Element, base: str, pages: str | None) -> Iterator[ScheduleEntry]:
    for number, day in enumerate(root.iter("day"), 1):
        index = single_line(day.get("index"), 9)
        of_day = int(index) if index.isdecimal() else number
        for event in day.iter("event"):
            yield _schedule_xml_entry(event, day.get("date"), of_day, base, pages)


def _schedule_xml_entry(
    event: Element, day: str | None, number: int, base: str, pages: str | None
) -> ScheduleEntry:
    slug = _text(event, "slug")
    url = absolute_url(_text(event, "url", 8000), base) if _text(event, "url") else None
    if url is None and pages and re.fullmatch(r"[\w.-]+", slug):
        url = absolute_url(f"{slug}/", pages)
    return ScheduleEntry(
        title=_text(event, "title", MAX_TITLE),
        name=single_line(event.get("id")) or slug or single_line(event.get("guid")),
        url=url,
        track=_text(event, "track") or None,
        day=parse_date(day) or parse_date(_text(event, "date")),
        day_number=number,
        start=_text(event, "start") or _text(event, "date"),
        duration=_text(event, "duration"),
        language=_text(event, "language"),
        speakers=unique_names(
            "".join(person.itertext()) for person in event.findall("persons/person")
        ),
        links=tuple(_schedule_xml_links(event, base)),
    )


def _schedule_xml_links(event: Element, base: str) -> list[Link]:
    found = []
    for path, kind in (
        ("video_download_url", LinkKind.VIDEO),
        ("attachments/attachment", None),
        ("links/link", None),
    ):
        for element in event.findall(path):
            text = single_line("".join(element.itertext()), 4000)
            url = element.get("href") or element.get("url") or text
            if not url:
                continue
            title = "" if url == text else text
            is_slides = element.get("type") == "slides"
            title = f"Slides: {title}" if is_slides else title
            told = LinkKind.ATTACHMENT if is_slides else kind
            found.append(make_link(url, title, base=base, kind=told))
    return deduplicated(found)


def _older_fosdem(title: str) -> str | None:
    """Schedules of FOSDEM before 2024 do not tell where the page of a talk is."""
    found = re.fullmatch(r"FOSDEM (20\d\d)", title)
    return f"https://archive.fosdem.org/{found[1]}/schedule/event/" if found else None


def _text(element: Element, name: str, longest: int = 500) -> str:
    found = element.find(name)
    return "" if found is None else single_line("".join(found.itertext()), longest)


MAX_BYTES = 32 * 1024 * 1024
#: The largest conferences have some two thousand.
MAX_TALKS = 20_000
ALL = TalkFilter()

#: Of the data and the address it came from: the name of the conference, and its talks.
Reader = Callable[[bytes, str], tuple[str, Iterator[ScheduleEntry]]]


def read_schedule(
    data: bytes, *, url: str = "", event: str | None = None, choice: TalkFilter = ALL
) -> list[Talk]:
    """The chosen talks of `schedule.xml` or `schedule.json`. `url` is where it came from, for the
    links in it; `event` is what the conference is to be called, if not as it says itself."""
    if len(data) > MAX_BYTES:
        raise FileTooLarge("The schedule is larger than allowed", limit_bytes=MAX_BYTES)
    told, talks = _reader_of(data)(data, url)
    entries = [entry for entry in islice(talks, MAX_TALKS + 1) if entry.title]
    if len(entries) > MAX_TALKS:
        raise FileTooLarge(f"A schedule may have {MAX_TALKS:,} talks at the most")
    event = single_line(event) or single_line(told) or None
    # Of all talks, so that one is called the same whichever others are chosen with it.
    stems = dict(zip(map(id, entries), _stems(entries), strict=True))
    return [
        make_talk(entry, event=event, stem=stems[id(entry)]) for entry in choice.chosen(entries)
    ]


def _reader_of(data: bytes) -> Reader:
    begin = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if begin.startswith((b"<", b"\xff\xfe", b"\xfe\xff")):  # those begin XML in UTF-16
        return read_xml
    if begin.startswith(b"{"):
        return read_json
    raise UnsupportedFile("The schedule is neither XML nor JSON")


def _stems(entries: Sequence[ScheduleEntry]) -> list[str]:
    """Talks of one title are told apart by what the schedule calls them: a number would change
    when one is added before them."""
    plain = [title_stem(entry.title) or title_stem(entry.name) or NO_NAME for entry in entries]
    times = Counter(map(filename_key, plain))
    return unique_stems(
        title_stem(f"{stem}-{entry.name}") if times[filename_key(stem)] > 1 else stem
        for stem, entry in zip(plain, entries, strict=True)
    )


def session_parameters(
    data: bytes,
    url: str,
    event: str | None,
    tracks: tuple[str, ...],
    days: tuple[str, ...],
    titles: tuple[str, ...],
) -> list[dict[str, Any]]:
    """The same in plain values, for those who know no processors."""
    choice = TalkFilter(tracks=tracks, days=days, titles=titles)
    talks = read_schedule(data, url=url, event=event, choice=choice)
    return [talk.parameters() for talk in talks]
