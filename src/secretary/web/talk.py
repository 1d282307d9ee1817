"""One talk of a conference, with what a session job is told about it."""

from dataclasses import dataclass
from typing import Any

from .links import (
    Link,
    best_attachment,
    best_subtitles,
    best_video,
    end_time,
    parse_language,
    parse_time,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEntry:
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


def make_talk(entry: ScheduleEntry, *, event: str | None, stem: str) -> Talk:
    video, paper = best_video(entry.links), best_attachment(entry.links)
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
        attachments_url=paper.url if paper else None,
        subtitles_url=subtitles.url if subtitles else None,
        source_language=parse_language(entry.language),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkPage:
    """Plain text all but `text`, which is Markdown. None and empty is what the page does not
    tell. `day` is a date where it tells one, else as it calls it. All links are absolute."""

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
