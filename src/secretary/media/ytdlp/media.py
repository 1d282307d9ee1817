"""What is asked of a site, and what comes from it."""

from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

from ...config import DownloadLimits
from ..recording import Chapter

Want = Literal["video", "audio"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRequest:
    """Plain values only, so that it can travel to a sandbox process."""

    url: str
    into: Path
    want: Want = "video"
    allow_hosts: tuple[str, ...] = ()
    limits: DownloadLimits = field(default_factory=DownloadLimits)
    max_duration: timedelta | None = None
    #: Take what the site itself has recognised, where nobody has written subtitles.
    automatic_subtitles: bool = False
    #: Of these languages the subtitles are wanted most.
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSubtitles:
    """A WebVTT file."""

    language: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteMedia:
    """A recording and what its site says of it; None where it says nothing."""

    path: Path
    #: The address of the page it is on, as the site itself gives it.
    page_url: str
    site: str
    title: str | None = None
    description: str | None = None
    uploader: str | None = None
    uploaded_on: date | None = None
    #: In seconds.
    duration: float | None = None
    #: What is spoken, as the site says.
    language: str | None = None
    chapters: tuple[Chapter, ...] = ()
    subtitles: tuple[SiteSubtitles, ...] = ()
