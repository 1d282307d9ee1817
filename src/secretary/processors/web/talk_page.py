"""What the page of a conference talk tells."""

from dataclasses import dataclass

from .links import Link


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
