"""Subtitles that a recording brings with it, as WebVTT."""

from ...errors import FileCorrupt, UnsupportedFile
from .ffmpeg import Collected, opening, run
from .recording import SubtitleTrack

#: The words of many days.
MAX_BYTES = 16 * 1024 * 1024


def subtitles_of(
    path: str, track: SubtitleTrack, *, timeout_s: float, program: str | None = None
) -> str:
    """The text of one track, with the times of the recording. Its cues may be none."""
    text = Collected(MAX_BYTES, "The subtitles in the file")
    ended = run(
        [
            *opening(path),
            "-map", f"0:{track.stream}",
            "-map_metadata", "-1", "-map_chapters", "-1",
            "-c:s", "webvtt", "-f", "webvtt", "pipe:1",
        ],
        timeout_s=timeout_s,
        program=program,
        take=text.take,
    )  # fmt: skip
    if "Decoder not found" in ended.said:
        raise UnsupportedFile("ffmpeg has no decoder for the subtitles in the file")
    found = text.text()
    if ended.code or not found.startswith("WEBVTT"):
        raise FileCorrupt("The subtitles in the file cannot be read: they are damaged")
    return found
