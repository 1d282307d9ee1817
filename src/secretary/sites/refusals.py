"""What it means for a job when yt-dlp gives up."""

import re
from datetime import date, timedelta

from ..errors import (
    DownloadFailed,
    DownloadRefused,
    EngineUnavailable,
    JobFailed,
    UnsupportedFile,
)

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


def reason(complained: str, host: str, *, hidden: str) -> JobFailed | None:
    """The error for a job, if what yt-dlp wrote is understood; nobody is to see `hidden`."""
    if re.search(r"error: (no such|ambiguous) option", complained):
        return EngineUnavailable(_TOO_OLD)
    said = _said(complained, hidden)
    for pattern, kind, text in _REASONS:
        if re.search(pattern, said, re.IGNORECASE):
            return kind(text.format(host=host), host=host, said=said)
    return None


def unknown(complained: str, host: str, *, hidden: str, version: str) -> JobFailed:
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
