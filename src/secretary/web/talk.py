"""A conference talk: its data types, and the parsing of names, dates, times and languages. Without
heavy imports, for processes that only pass talks on."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from ..core.languages import language_code
from .links import Link, best_attachment, best_subtitles, best_video, single_line

MAX_SPEAKERS = 100
_TIME = re.compile(r"(?:^|[T\s])([01]?\d|2[0-3]):([0-5]\d)")
_DURATION = re.compile(r"(\d{1,3}):([0-5]\d)(?::[0-5]\d)?")
_LANGUAGE_TAG = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEntry:
    """A talk in a schedule, as plain text. `name` is the identifier in the schedule."""

    title: str
    name: str = ""
    url: str | None = None
    track: str | None = None
    day: str | None = None
    day_number: int = 0
    start: str | None = None
    duration: str | None = None
    language: str | None = None
    speakers: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """The parameters of a session job."""

    event: str | None
    session: str
    filename: str
    url: str | None = None
    track: str | None = None
    day: str | None = None
    starttime: str | None = None
    endtime: str | None = None
    speakers: tuple[str, ...] = ()
    video_url: str | None = None
    attachments_url: str | None = None
    source_language: str | None = None
    #: Subtitles by the organisers.
    subtitles_url: str | None = None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters without those that are unknown."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values["speakers"] = list(self.speakers)
        return {name: value for name, value in values.items() if value}


def make_talk(entry: ScheduleEntry, *, event: str | None, stem: str) -> Talk:
    video, attachment = best_video(entry.links), best_attachment(entry.links)
    subtitles = best_subtitles(entry.links)
    starttime = parse_time(entry.start)
    return Talk(
        event=event,
        session=entry.title,
        filename=f"{stem}.md",
        url=entry.url,
        track=entry.track,
        day=entry.day,
        starttime=starttime,
        endtime=end_time(starttime, entry.duration),
        speakers=entry.speakers,
        video_url=video.url if video else None,
        attachments_url=attachment.url if attachment else None,
        subtitles_url=subtitles.url if subtitles else None,
        source_language=parse_language(entry.language),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkPage:
    """The page of a talk. `text` is Markdown, everything else plain text; None or empty if the page
    does not have it. `day` is a date if the page has one, else its own word. Links are absolute."""

    url: str
    #: `fosdem`, `pretalx`, `frab`, or empty.
    site: str
    title: str
    speakers: tuple[str, ...]
    text: str
    event: str | None
    track: str | None
    day: str | None
    starttime: str | None
    endtime: str | None
    room: str | None
    language: str | None
    videos: tuple[Link, ...]
    subtitles: tuple[Link, ...]
    attachments: tuple[Link, ...]
    links: tuple[Link, ...]


def unique_names(names: Iterable[object]) -> tuple[str, ...]:
    """Return each name once, in order."""
    normalized = (unicodedata.normalize("NFC", single_line(name, 300)) for name in names)
    return tuple(dict.fromkeys(name for name in normalized if name))[:MAX_SPEAKERS]


def parse_time(text: str | None) -> str | None:
    """`9:30`, `09:30:00` or `2025-02-01T09:30:00+01:00` -> `09:30`."""
    match = _TIME.search(text or "")
    return f"{int(match[1]):02}:{match[2]}" if match else None


def parse_date(text: str | None) -> str | None:
    """Return the date at the start of an ISO timestamp."""
    try:
        return date.fromisoformat((text or "").strip()[:10]).isoformat()
    except ValueError:
        return None


def end_time(starttime: str | None, duration: str | None) -> str | None:
    match = _DURATION.fullmatch((duration or "").strip())
    if not starttime or not match:
        return None
    duration_minutes = int(match[1]) * 60 + int(match[2])
    hours, minutes = map(int, starttime.split(":"))
    end = hours * 60 + minutes + duration_minutes
    return f"{end // 60 % 24:02}:{end % 60:02}" if duration_minutes else None


def parse_language(text: str | None) -> str | None:
    """`de-formal`, `de_DE` and `German` -> `de`."""
    name = single_line(text, 60)
    if match := _LANGUAGE_TAG.fullmatch(name):
        return match[1].lower()
    word = name.partition(" ")[0]
    return language_code(word) if len(word) > 3 else None  # `no preference` is not Norwegian
