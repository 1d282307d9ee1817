"""One talk of a conference, with what a session job is told about it."""

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from .links import Link, best_attachment, best_subtitles, best_video

#: As long as the parameters of a session job may be.
LONGEST_NAME = 500
LONGEST_TITLE = 1000
MOST_SPEAKERS = 100

_TIME = re.compile(r"(?:^|[T\s])([01]?\d|2[0-3]):([0-5]\d)")
_DURATION = re.compile(r"(\d{1,3}):([0-5]\d)(?::[0-5]\d)?")
_CODE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*")
_LANGUAGES = {
    "english": "en", "englisch": "en", "german": "de", "deutsch": "de", "french": "fr",
    "français": "fr", "spanish": "es", "español": "es", "italian": "it", "italiano": "it",
    "dutch": "nl", "nederlands": "nl", "portuguese": "pt", "português": "pt",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A talk as a schedule has it, in plain texts. `name` is the schedule's own for it."""

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
    #: What was said, where the organisers have written it down themselves.
    subtitles_url: str | None = None

    def parameters(self) -> dict[str, Any]:
        """Of a session job; what is not known is left out."""
        told = {name: getattr(self, name) for name in self.__slots__}
        told["speakers"] = list(self.speakers)
        return {name: value for name, value in told.items() if value}


def talk_of(entry: Entry, *, event: str | None, stem: str) -> Talk:
    video, paper = best_video(entry.links), best_attachment(entry.links)
    subtitles = best_subtitles(entry.links)
    starttime = time_of(entry.start)
    return Talk(
        event=event,
        session=entry.title,
        filename=f"{stem}.md",
        url=entry.url,
        track=entry.track,
        day=entry.day,
        starttime=starttime,
        endtime=ending(starttime, entry.duration),
        speakers=entry.speakers,
        video_url=video.url if video else None,
        attachments_url=paper.url if paper else None,
        subtitles_url=subtitles.url if subtitles else None,
        source_language=language_of(entry.language),
    )


def line(text: object, longest: int = LONGEST_NAME) -> str:
    """A text as one line without controls; empty for what is no text."""
    if not isinstance(text, str):
        return ""
    kept = (char if char.isprintable() else " " for char in text[: 4 * longest])
    return " ".join("".join(kept).split())[:longest].strip()


def names(found: Any) -> tuple[str, ...]:
    """Each name once, in order."""
    told = (unicodedata.normalize("NFC", line(name, 300)) for name in found)
    return tuple(dict.fromkeys(name for name in told if name))[:MOST_SPEAKERS]


def time_of(text: str | None) -> str | None:
    """`9:30`, `09:30:00` or `2025-02-01T09:30:00+01:00` -> `09:30`."""
    found = _TIME.search(text or "")
    return f"{int(found[1]):02}:{found[2]}" if found else None


def date_of(text: str | None) -> str | None:
    """The date that an ISO time begins with."""
    try:
        return date.fromisoformat((text or "").strip()[:10]).isoformat()
    except ValueError:
        return None


def ending(starttime: str | None, duration: str | None) -> str | None:
    length = _DURATION.fullmatch((duration or "").strip())
    if not starttime or not length:
        return None
    hours, minutes = map(int, starttime.split(":"))
    last = timedelta(hours=hours + int(length[1]), minutes=minutes + int(length[2]))
    if last == timedelta(hours=hours, minutes=minutes):
        return None
    minute = int(last.total_seconds()) // 60
    return f"{minute // 60 % 24:02}:{minute % 60:02}"


def language_of(text: str | None) -> str | None:
    """`de-formal`, `de_DE` and `German` are all `de`."""
    told = line(text, 60)
    found = _CODE.fullmatch(told)
    known = _LANGUAGES.get(told.casefold()) or _LANGUAGES.get(told.partition(" ")[0].casefold())
    return known or (found[1].lower() if found else None)
