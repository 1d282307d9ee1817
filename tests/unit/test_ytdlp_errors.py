"""How the messages of yt-dlp and of websites reach the client."""

from datetime import date

import pytest

from secretary.core.errors import (
    DownloadFailed,
    DownloadRefused,
    EngineUnavailable,
    JobFailed,
    UnsupportedFile,
)
from secretary.media.ytdlp.metadata import is_stale, known_error, unknown_error

HIDDEN = "/data/scratch/site"


def classified(line: str) -> JobFailed | None:
    return known_error(f"WARNING: x\nERROR: {line}\n", "site.example", hidden=HIDDEN)


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("Unsupported URL: https://site.example/a", UnsupportedFile, "No playable"),
        ("[x] 1: No video formats found!; please report this", UnsupportedFile, "No playable"),
        ("[x] 1: Private video. Sign in if you've been granted access", DownloadRefused, "private"),
        ("[x] 1: Sign in to confirm your age. This video may be", DownloadRefused, "a login"),
        ("[x] 1: Join this channel to get access to members-only", DownloadRefused, "a login"),
        ("[x] 1: This video is only available for registered users", DownloadRefused, "a login"),
        ("[x] 1: The uploader has not made this video available in your country",
         DownloadRefused, "country"),
        ("[x] 1: This video is not available from your location due to geo restriction",
         DownloadRefused, "country"),
        ("[x] 1: Video unavailable. This video has been removed by the uploader",
         DownloadRefused, "no such recording at site.example"),
        ("[x] 1: Unable to download webpage: HTTP Error 404: Not Found (caused by <HTTPError>)",
         DownloadRefused, "no such recording at site.example"),
        ("[x] 1: This video is DRM protected", DownloadRefused, "with DRM"),
        ("[x] 1: Premieres in 3 hours", DownloadRefused, "live stream"),
        ("[x] 1: This live event will begin in 2 days.", DownloadRefused, "live stream"),
        ("[x] 1: Sign in to confirm you're not a bot. Use --cookies", DownloadFailed, "bot"),
        ("[x] 1: HTTP Error 429: Too Many Requests", DownloadFailed, "bot"),
        ("[x] 1: HTTP Error 503: Service Unavailable", DownloadFailed, "unavailable at the moment"),
        ("[x] 1: Unable to download webpage: Read timed out.", DownloadFailed, "connection"),
        ("[x] 1: Requested format is not available. Use -F", DownloadRefused, "no supported"),
    ],
)  # fmt: skip
def test_each_reason_has_words_of_our_own(line: str, kind: type[JobFailed], words: str) -> None:
    error = classified(line)
    assert type(error) is kind
    assert words in error.message
    assert error.details["host"] == "site.example"


def test_nobody_is_shown_our_paths_or_advice_for_a_command_line() -> None:
    error = classified(
        f"[x] 1: cannot write {HIDDEN}/a: not found; please report this issue on https://x"
    )
    assert error is not None
    assert error.details["said"] == "[x] 1: cannot write …/a: not found"


def test_a_program_that_does_not_know_our_options_is_too_old() -> None:
    error = known_error("yt-dlp: error: no such option: --xff\n", "site.example", hidden=HIDDEN)
    assert type(error) is EngineUnavailable
    assert error.message.startswith("yt-dlp is too old")


def test_an_unknown_error_is_reported_with_the_age_of_yt_dlp() -> None:
    line = "ERROR: [x] 1: Unable to extract player; please report this issue on https://y\n"
    assert known_error(line, "site.example", hidden=HIDDEN) is None
    error = unknown_error(line, "site.example", hidden=HIDDEN, version="2020.01.01")
    assert type(error) is DownloadRefused
    assert error.message == (
        "The recording at site.example could not be downloaded: yt-dlp is out of date,"
        " pip install -U yt-dlp may help"
    )
    assert error.details["said"] == "[x] 1: Unable to extract player"


def test_a_program_is_out_of_date_after_two_months() -> None:
    assert not is_stale("2026.10.26", date(2026, 11, 15))
    assert is_stale("2026.10.26", date(2027, 1, 15))
    assert not is_stale("", date(2027, 1, 15))
