"""What is asked of a site, and what comes from it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from ...config import MEBIBYTE, DownloadLimits
from ...core.errors import (
    DownloadFailed,
    DownloadRefused,
    EngineUnavailable,
    FileTooLarge,
    JobFailed,
    UnsupportedFile,
)
from ..recording import Chapter

MediaKind = Literal["video", "audio"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRequest:
    """Plain values only, so that it can travel to a sandbox process."""

    url: str
    directory: Path
    kind: MediaKind = "video"
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


MAX_BYTES = 32 * MEBIBYTE
MAX_SUBTITLES = 8
MAX_CHAPTERS = 1000
MAX_TEXT = 100_000
#: How far an estimate from the bit rate may be off.
ESTIMATE = 1.5
#: They become a part of file names; `all` would mean those too that must not.
LANGUAGE = re.compile(r"(?!all$)[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}")
#: Behind the title of a page, for the first film on it.
_COUNTED = re.compile(r" \(1\)$")
_LIVE = {"is_live", "is_upcoming", "post_live"}

Info = Mapping[str, Any]


def parse_info(file: Path, host: str) -> Info:
    """The one recording that is described in `file`."""
    if file.stat().st_size > MAX_BYTES:
        raise FileTooLarge(f"What {host} says of the recording is too much", host=host)
    info = json.loads(file.read_bytes()) or {"_type": "playlist"}
    if info.get("_type", "video") == "video":
        return dict(info)
    entries = [entry for entry in info.get("entries") or () if entry]
    if len(entries) == 1:
        return dict(entries[0])
    text = f"The page at {host} holds several recordings: give the address of one of them"
    if not entries:
        text = f"There is no recording on the page at {host}"
    raise DownloadRefused(text, host=host)


def check_allowed(info: Info, request: SiteRequest, host: str) -> None:
    """Raise for what is known to be too much before it is fetched."""
    if info.get("is_live") or info.get("live_status") in _LIVE:
        text = f"This is a live transmission at {host}, or one that is still to come"
        raise DownloadRefused(text, host=host)
    duration, longest = _number(info.get("duration")), request.max_duration
    if duration and longest and duration > longest.total_seconds():
        limit = longest.total_seconds()
        text = f"The recording at {host} takes {duration:.0f} s; {limit:.0f} s are allowed"
        raise FileTooLarge(text, host=host, duration_s=duration, limit_s=limit)
    exact, estimated = sizes(info)
    if exact > request.limits.max_bytes or estimated > ESTIMATE * request.limits.max_bytes:
        raise too_large(request, host)


def too_large(request: SiteRequest, host: str) -> FileTooLarge:
    most = request.limits.max_bytes
    text = f"The recording at {host} is larger than {most / MEBIBYTE:g} MB"
    return FileTooLarge(text, host=host, max_bytes=most)


def sizes(info: Info) -> tuple[int, int]:
    """The bytes of the chosen formats: those that are sure, and with those that are estimated."""
    chosen = info.get("requested_formats") or [info]
    exact = sum(_number(part.get("filesize")) or 0 for part in chosen)
    estimated = sum(
        _number(part.get("filesize")) or _number(part.get("filesize_approx")) or 0
        for part in chosen
    )
    return int(exact), int(estimated)


def select_subtitles(info: Info, request: SiteRequest) -> tuple[Sequence[str], bool]:
    """The languages of which subtitles are fetched, and whether a machine made them."""
    own = _text(info.get("language"))
    preferred = [*request.languages, *([own] if own else [])]
    written = _languages(info.get("subtitles"), preferred)
    if written or not request.automatic_subtitles:
        return written[:MAX_SUBTITLES], False
    # All the others are translations of it by the machine.
    automatic = _languages(info.get("automatic_captions"), preferred)
    original = [tag for tag in automatic if tag.endswith("-orig") or tag == own]
    return (original or automatic)[:1], True


def _languages(given: Any, preferred: Sequence[str]) -> list[str]:
    tags = [tag for tag in given or {} if LANGUAGE.fullmatch(tag)]

    def rank(tag: str) -> int:
        main = tag.split("-")[0].lower()
        places = [n for n, want in enumerate(preferred) if want.split("-")[0].lower() == main]
        return places[0] if places else len(preferred)

    return sorted(tags, key=rank)


def to_site_media(
    info: Info, path: Path, subtitles: Sequence[SiteSubtitles], request: SiteRequest
) -> SiteMedia:
    page = _text(info.get("webpage_url")) or ""
    return SiteMedia(
        path=path,
        page_url=page if page.startswith(("http://", "https://")) else request.url,
        site=_text(info.get("extractor_key")) or "Generic",
        title=_title(info),
        description=_text(info.get("description")),
        uploader=_text(info.get("uploader")) or _text(info.get("channel")),
        uploaded_on=_date(info.get("upload_date")),
        duration=_number(info.get("duration")),
        language=_text(info.get("language")),
        chapters=tuple(_chapters(info.get("chapters"))),
        subtitles=tuple(subtitles),
    )


def _title(info: Info) -> str | None:
    title = _text(info.get("title"))
    if title is not None and info.get("extractor_key") == "HTML5MediaEmbed":
        return _COUNTED.sub("", title)
    return title


def _chapters(given: Any) -> list[Chapter]:
    found = []
    for entry in (given if isinstance(given, list) else [])[:MAX_CHAPTERS]:
        start, end = _number(entry.get("start_time")), _number(entry.get("end_time"))
        title = _text(entry.get("title"))
        if start is not None and end is not None and title and 0 <= start < end:
            found.append(Chapter(start=start, end=end, title=title))
    return found


def _number(value: Any) -> float | None:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_one and 0 <= value < 1e15 else None


def _text(value: Any) -> str | None:
    return value.strip()[:MAX_TEXT] or None if isinstance(value, str) else None


def _date(value: Any) -> date | None:
    try:
        return datetime.strptime(value, "%Y%m%d").date()
    except (TypeError, ValueError):
        return None


#: Sites change all the time; a program older than this has surely missed something.
STALE = timedelta(days=60)
_SHOWN = 300

_TOO_OLD = "The program yt-dlp is too old for this version: pip install -U yt-dlp"

#: Tried from top to bottom on the last error. The words are yt-dlp's own or those of sites.
_REASONS: tuple[tuple[str, type[JobFailed], str], ...] = (
    (
        r"unsupported url|no video formats found|no media found|does not contain (a|any) video",
        UnsupportedFile,
        "Nothing that can be played was found at {host}",
    ),
    (r"\bdrm\b", DownloadRefused, "{host} protects this recording against copying"),
    (
        r"not available (in|from) your|geo.?restrict|geo.?block|in your (country|region|location)"
        r"|from your location",
        DownloadRefused,
        "{host} does not give out this recording in the country of this server",
    ),
    (
        r"not a bot|captcha|http error 429|too many requests|rate.?limit|cloudflare",
        DownloadFailed,
        "{host} takes this server for a robot, or has had enough requests from it",
    ),
    (
        r"private|log.?in|sign.?in|cookies|authenticat|registered users|account|credentials"
        r"|members|subscri|premium|purchase|paid|password|confirm your age|http error 401",
        DownloadRefused,
        "{host} gives this recording only to those who have logged in, or it is private",
    ),
    (
        r"premieres? in|will begin|live event|is live|live stream|is upcoming|not started",
        DownloadRefused,
        "This is a live transmission at {host}, or one that is still to come",
    ),
    (
        r"requested format is not available",
        DownloadRefused,
        "{host} offers this recording in no form that can be fetched",
    ),
    (r"http error 5", DownloadFailed, "{host} cannot answer at the moment"),
    (
        r"removed|deleted|terminated|no longer|does not exist|not exist|unavailable|not found"
        r"|http error (404|410)|taken down|copyright",
        DownloadRefused,
        "This recording is not at {host} any more, or never was",
    ),
    (r"http error 403", DownloadRefused, "{host} refuses to give out this recording"),
    (
        r"timed? ?out|connection|incompleteread|remote end closed|tunnel|resolve"
        r"|fragment|ssl",
        DownloadFailed,
        "The connection to {host} failed",
    ),
)


def known_error(complained: str, host: str, *, hidden: str) -> JobFailed | None:
    """The error for a job, if what yt-dlp wrote is understood; nobody is to see `hidden`."""
    if re.search(r"error: (no such|ambiguous) option", complained):
        return EngineUnavailable(_TOO_OLD)
    said = _said(complained, hidden)
    for pattern, kind, text in _REASONS:
        if re.search(pattern, said, re.IGNORECASE):
            return kind(text.format(host=host), host=host, said=said)
    return None


def unknown_error(complained: str, host: str, *, hidden: str, version: str) -> JobFailed:
    """Mostly a site that has changed. It stays so: another try needs a newer program first."""
    text = f"The recording at {host} could not be fetched"
    if is_stale(version, date.today()):
        text += ": the program yt-dlp is out of date, pip install -U yt-dlp may help"
    said = _said(complained, hidden)
    return DownloadRefused(text, host=host, said=said, yt_dlp=version[:40])


def _said(complained: str, hidden: str) -> str:
    """The last error, without advice for users of the command line."""
    errors = [line for line in complained.splitlines() if line.startswith("ERROR:")]
    text = errors[-1] if errors else complained.strip().rpartition("\n")[2]
    text = text.removeprefix("ERROR:").replace(hidden, "…")
    text = re.split(r"[;.,(]\s*(?:please report|see\s+http|use --|caused by)", text, flags=re.I)[0]
    return text.strip()[:_SHOWN]


def is_stale(version: str, today: date) -> bool:
    match = re.match(r"(\d{4})\.(\d{2})\.(\d{2})", version)
    return match is not None and today - date(*map(int, match.groups())) > STALE
