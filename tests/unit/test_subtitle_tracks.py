"""Subtitles inside a recording, as WebVTT."""

import re
from pathlib import Path

import pytest

from secretary.core.errors import FileCorrupt
from secretary.media.probe import SubtitleTrack, probe
from secretary.media.subtitles import extract_subtitles

from ..audio_files import made, moving, speech

SRT = """1
00:00:00,500 --> 00:00:02,250
Grüße an <i>alle</i>

2
00:00:03,000 --> 00:00:05,000
Two
lines --> & more
"""
SECONDS = 30.0


def film(tmp_path: Path, name: str, codec: str, *more: str) -> Path:
    (tmp_path / "a.srt").write_text(SRT)
    return made(
        tmp_path / name, *moving(6), "-i", speech(), "-i", tmp_path / "a.srt", "-map", "0",
        "-map", "1", "-map", "2", "-c:s", codec, "-metadata:s:s:0", "language=ger", *more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mkv", "srt"),
        ("a.mkv", "ass"),
        ("a.mp4", "mov_text"),
        ("a.mov", "mov_text"),
        ("a.webm", "webvtt"),
    ],
)
def test_subtitles_of_all_kinds_are_read(tmp_path: Path, name: str, codec: str) -> None:
    path = film(tmp_path, name, codec)
    (track,) = probe(str(path)).subtitle_tracks
    assert track.language == "de"
    text = extract_subtitles(str(path), track, timeout_s=SECONDS)
    assert text.startswith("WEBVTT\n")
    assert re.search(r"\n00:00\.5\d\d --> 00:02\.2\d\d\nGrüße an <i>alle</i>\n", text)
    assert re.search(r"\n00:03\.0\d\d --> 00:05\.0\d\d\nTwo\nlines", text)


def test_forced_tracks_are_marked(tmp_path: Path) -> None:
    path = film(tmp_path, "a.mkv", "srt", "-disposition:s:0", "forced")
    (track,) = probe(str(path)).subtitle_tracks
    assert track.is_forced


def test_a_track_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = film(tmp_path, "a.mkv", "srt")
    with pytest.raises(FileCorrupt):
        extract_subtitles(str(path), SubtitleTrack(stream=9, codec="srt"), timeout_s=SECONDS)


def test_their_times_are_those_of_the_recording(tmp_path: Path) -> None:
    """The audio starts late: second 0 is where the video begins."""
    (tmp_path / "a.srt").write_text(SRT)
    path = made(
        tmp_path / "a.mkv", *moving(6), "-itsoffset", "2", "-i", speech(),
        "-itsoffset", "2", "-i", tmp_path / "a.srt", "-map", "0", "-map", "1", "-map", "2",
    )  # fmt: skip
    (track,) = probe(str(path)).subtitle_tracks
    text = extract_subtitles(str(path), track, timeout_s=SECONDS)
    assert re.search(r"\n00:02\.5\d\d --> 00:04\.2\d\d\n", text)
