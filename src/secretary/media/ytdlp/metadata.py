"""The request for a recording, what yt-dlp tells about it, and its errors."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from ...config import MEBIBYTE
from ...core.errors import (
    DownloadFailed,
    DownloadRefused,
    EngineUnavailable,
    FileTooLarge,
    JobFailed,
    UnsupportedFile,
)
from ...network import DownloadLimits
from ..probe import Chapter

MAX_BYTES = 32 * MEBIBYTE
MAX_SUBTITLES = 8
MAX_CHAPTERS = 1000
MAX_TEXT = 100_000
#: Tolerance for sizes that are estimated from the bit rate.
ESTIMATE_TOLERANCE = 1.5
#: Languages become part of file names; `all` would select every one of them.
LANGUAGE = re.compile(r"(?!all$)[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}")
#: Sites change often; an older yt-dlp has certainly missed something.
STALE_AFTER = timedelta(days=60)
_LIVE = {"is_live", "is_upcoming", "post_live"}
_MAX_ERROR = 300

MediaKind = Literal["video", "audio"]
#: yt-dlp's description of a recording.
Info = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRequest:
    """Picklable, for a sandbox process."""

    url: str
    directory: Path
    kind: MediaKind = "video"
    allow_hosts: tuple[str, ...] = ()
    allow_private: bool = False
    limits: DownloadLimits = field(default_factory=DownloadLimits)
    max_duration: timedelta | None = None
    #: Preferred languages of subtitles.
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteMedia:
    """A recording and its metadata; None for what the site does not tell."""

    path: Path
    #: The canonical URL of its page.
    page_url: str
    site: str
    title: str | None = None
    description: str | None = None
    uploader: str | None = None
    uploaded_on: date | None = None
    #: The spoken language.
    language: str | None = None
    chapters: tuple[Chapter, ...] = ()
    #: WebVTT files by language.
    subtitles: Mapping[str, Path] = field(default_factory=dict)


def read_info(file: Path, host: str) -> Info:
    """Return the description of the recording; raise unless there is exactly one."""
    if file.stat().st_size > MAX_BYTES:
        raise FileTooLarge(f"The metadata of the recording at {host} is too large", host=host)
    info = json.loads(file.read_bytes()) or {"_type": "playlist"}
    if info.get("_type", "video") == "video":
        return dict(info)
    entries = [entry for entry in info.get("entries") or () if entry]
    if len(entries) == 1:
        return dict(entries[0])
    text = f"The page at {host} has several recordings: use the URL of one of them"
    if not entries:
        text = f"There is no recording on the page at {host}"
    raise DownloadRefused(text, host=host)


def check_limits(info: Info, request: SiteRequest, host: str) -> None:
    """Raise if the recording is known to exceed a limit before it is downloaded."""
    if info.get("is_live") or info.get("live_status") in _LIVE:
        raise DownloadRefused(_LIVE_STREAM.format(host=host), host=host)
    duration, longest = _number(info.get("duration")), request.max_duration
    if duration and longest and duration > longest.total_seconds():
        limit = longest.total_seconds()
        text = f"The recording at {host} is {duration:.0f} s long; the limit is {limit:.0f} s"
        raise FileTooLarge(text, host=host, duration_s=duration, limit_s=limit)
    exact, estimated = sizes(info)
    max_bytes = request.limits.max_bytes
    if exact > max_bytes or estimated > ESTIMATE_TOLERANCE * max_bytes:
        raise too_large(request, host)


def too_large(request: SiteRequest, host: str) -> FileTooLarge:
    max_bytes = request.limits.max_bytes
    text = f"The recording at {host} is larger than {max_bytes / MEBIBYTE:g} MB"
    return FileTooLarge(text, host=host, max_bytes=max_bytes)


def sizes(info: Info) -> tuple[int, int]:
    """Return the bytes of the selected formats: the exact ones, and with estimates."""
    formats = info.get("requested_formats") or [info]
    exact = sum(_number(each.get("filesize")) or 0 for each in formats)
    estimated = sum(
        _number(each.get("filesize")) or _number(each.get("filesize_approx")) or 0
        for each in formats
    )
    return int(exact), int(estimated)


def select_subtitles(info: Info, request: SiteRequest) -> list[str]:
    """Return the languages of the subtitles to download, without captions that the site has
    generated."""

    def primary(tag: str) -> str:
        return tag.split("-")[0].lower()

    spoken = _text(info.get("language"))
    preferred = [*request.languages, *([spoken] if spoken else [])]
    ranks = {primary(tag): rank for rank, tag in reversed(list(enumerate(preferred)))}
    tags = [tag for tag in info.get("subtitles") or {} if LANGUAGE.fullmatch(tag)]
    tags.sort(key=lambda tag: ranks.get(primary(tag), len(preferred)))
    return tags[:MAX_SUBTITLES]


def to_site_media(
    info: Info, path: Path, subtitles: Mapping[str, Path], request: SiteRequest
) -> SiteMedia:
    page = _text(info.get("webpage_url")) or ""
    title = _text(info.get("title"))
    if title is not None and info.get("extractor_key") == "HTML5MediaEmbed":
        title = title.removesuffix(" (1)")  # yt-dlp numbers the videos on a page
    return SiteMedia(
        path=path,
        page_url=page if page.startswith(("http://", "https://")) else request.url,
        site=_text(info.get("extractor_key")) or "Generic",
        title=title,
        description=_text(info.get("description")),
        uploader=_text(info.get("uploader")) or _text(info.get("channel")),
        uploaded_on=_date(info.get("upload_date")),
        language=_text(info.get("language")),
        chapters=tuple(_chapters(info.get("chapters"))),
        subtitles=subtitles,
    )


def _chapters(entries: Any) -> list[Chapter]:
    chapters = []
    for entry in (entries if isinstance(entries, list) else [])[:MAX_CHAPTERS]:
        start, end = _number(entry.get("start_time")), _number(entry.get("end_time"))
        title = _text(entry.get("title"))
        if start is not None and end is not None and title and 0 <= start < end:
            chapters.append(Chapter(start=start, end=end, title=title))
    return chapters


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 1e15 else None


def _text(value: Any) -> str | None:
    return value.strip()[:MAX_TEXT] or None if isinstance(value, str) else None


def _date(value: Any) -> date | None:
    try:
        return datetime.strptime(value, "%Y%m%d").date()
    except (TypeError, ValueError):
        return None


# Errors -----------------------------------------------------------------------------------------

_TOO_OLD = "yt-dlp is too old for this version of Secretary: pip install -U yt-dlp"
_LIVE_STREAM = "The recording at {host} is a live stream, or has not started yet"

#: Patterns in the messages of yt-dlp and of sites; the first match counts.
_KNOWN_ERRORS: tuple[tuple[str, type[JobFailed], str], ...] = (
    (r"unsupported url|no video formats found|no media found|does not contain (a|any) video",
     UnsupportedFile, "No playable media was found at {host}"),
    (r"\bdrm\b", DownloadRefused, "{host} protects this recording with DRM"),
    (r"not available (in|from) your|geo.?restrict|geo.?block|in your (country|region|location)"
     r"|from your location",
     DownloadRefused, "{host} does not provide this recording in the country of this server"),
    (r"not a bot|captcha|http error 429|too many requests|rate.?limit|cloudflare",
     DownloadFailed, "{host} takes this server for a bot, or limits its requests"),
    (r"private|log.?in|sign.?in|cookies|authenticat|registered users|account|credentials"
     r"|members|subscri|premium|purchase|paid|password|confirm your age|http error 401",
     DownloadRefused, "The recording at {host} is private or requires a login"),
    (r"premieres? in|will begin|live event|is live|live stream|is upcoming|not started",
     DownloadRefused, _LIVE_STREAM),
    (r"requested format is not available",
     DownloadRefused, "{host} provides this recording in no supported format"),
    (r"http error 5", DownloadFailed, "{host} is unavailable at the moment"),
    (r"removed|deleted|terminated|no longer|does not exist|not exist|unavailable|not found"
     r"|http error (404|410)|taken down|copyright",
     DownloadRefused, "There is no such recording at {host}, or it has been removed"),
    (r"http error 403", DownloadRefused, "{host} refuses access to this recording"),
    (r"timed? ?out|connection|incompleteread|remote end closed|tunnel|resolve|fragment|ssl",
     DownloadFailed, "The connection to {host} failed"),
)  # fmt: skip


def known_error(stderr: str, host: str, *, hidden: str) -> JobFailed | None:
    """Return the error that yt-dlp reports, if it is a known one; `hidden` is removed from it."""
    if re.search(r"error: (no such|ambiguous) option", stderr):
        return EngineUnavailable(_TOO_OLD)
    message = _last_error(stderr, hidden)
    for pattern, error_type, text in _KNOWN_ERRORS:
        if re.search(pattern, message, re.IGNORECASE):
            return error_type(text.format(host=host), host=host, said=message)
    return None


def unknown_error(stderr: str, host: str, *, hidden: str, version: str) -> JobFailed:
    """Not retryable: most often the site has changed, and only a newer yt-dlp helps."""
    text = f"The recording at {host} could not be downloaded"
    if is_stale(version, date.today()):
        text += ": yt-dlp is out of date, pip install -U yt-dlp may help"
    return DownloadRefused(text, host=host, said=_last_error(stderr, hidden), yt_dlp=version[:40])


def _last_error(stderr: str, hidden: str) -> str:
    """Return the last error without advice for users of the command line."""
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR:")]
    text = errors[-1] if errors else stderr.strip().rpartition("\n")[2]
    text = text.removeprefix("ERROR:").replace(hidden, "…")
    text = re.split(r"[;.,(]\s*(?:please report|see\s+http|use --|caused by)", text, flags=re.I)[0]
    return text.strip()[:_MAX_ERROR]


def is_stale(version: str, today: date) -> bool:
    match = re.match(r"(\d{4})\.(\d{2})\.(\d{2})", version)
    return match is not None and today - date(*map(int, match.groups())) > STALE_AFTER
