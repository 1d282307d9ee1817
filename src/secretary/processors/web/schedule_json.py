"""Schedules as JSON: what frab and pretalx write, as the c3voc describes it."""

import json
from collections.abc import Iterator
from typing import Any

from ...errors import FileCorrupt, UnsupportedFile
from .links import Link, LinkKind, absolute, distinct, link_to
from .plain_values import LONGEST_TITLE, date_of, line, names
from .talk import Entry


def read_json(data: bytes, base: str) -> tuple[str, Iterator[Entry]]:
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
        base = absolute(line(place), base) or base if place else base
    title = _words(conference.get("title")) or _words(conference.get("acronym"))
    return title, _entries(conference["days"], base)


def _entries(days: list[Any], base: str) -> Iterator[Entry]:
    for number, day in enumerate(map(_mapping, days), 1):
        index = day.get("index")
        of_day = index if isinstance(index, int) else number
        for events in _mapping(day.get("rooms")).values():
            for event in events if isinstance(events, list) else ():
                if isinstance(event, dict):
                    yield _entry(event, line(day.get("date")), of_day, base)


def _entry(event: dict[str, Any], day: str, number: int, base: str) -> Entry:
    url, moment = line(event.get("url"), 8000), line(event.get("date"))
    told = event.get("id") or event.get("code") or event.get("slug") or event.get("guid")
    persons = event.get("persons")
    return Entry(
        title=_words(event.get("title"), LONGEST_TITLE),
        name=line(str(told)) if isinstance(told, str | int) else "",
        url=absolute(url, base) if url else None,
        track=_words(event.get("track")) or None,
        day=date_of(day) or date_of(moment),
        day_number=number,
        start=line(event.get("start")) or moment,
        duration=line(event.get("duration")),
        language=line(event.get("language")),
        speakers=names(_name(person) for person in (persons if isinstance(persons, list) else ())),
        links=tuple(_links(event, base)),
    )


def _name(person: Any) -> str:
    if isinstance(person, str):
        return person
    told = _mapping(person)
    found = (line(told.get(key)) for key in ("name", "public_name", "full_public_name"))
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
            url = line(place.get("url") or place.get("href"), 8000)
            title = _words(place.get("title") or place.get("description"))
            found.append(link_to(url, title, base=base, kind=kind) if url else None)
    return distinct(found)


def _words(value: Any, longest: int = 500) -> str:
    """A text, or the first of several languages."""
    if isinstance(value, dict):
        value = value.get("en") or next(iter(value.values()), "")
    return line(value, longest)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
