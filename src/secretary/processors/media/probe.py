"""What a recording holds, as ffmpeg tells it; there is no ffprobe in a default install."""

import os

from ...errors import FileCorrupt
from .ffmpeg import Collected, media_kind, opening, run
from .metadata import read_metadata
from .recording import Recording
from .stream_lines import read_streams

#: Enough for the lyrics and notes of a thousand chapters.
_MAX_METADATA_BYTES = 8 * 1024 * 1024
#: Hardly any speech coder makes less of silence. Who declares a year in 10 kB does not count.
_LEAST_BITS_A_SECOND = 500
_GUESS = "Estimating duration from bitrate"


def probe(path: str, *, timeout_s: float = 60.0, program: str | None = None) -> Recording:
    """What the file declares. Files that no player opens are refused."""
    kind = media_kind(path)
    metadata = Collected(_MAX_METADATA_BYTES, "The file's tags and chapters")
    arguments = [*opening(path), "-f", "ffmetadata", "pipe:1"]
    ended = run(arguments, timeout_s=timeout_s, program=program, level="info", take=metadata.take)
    streams = read_streams(ended.said)
    if ended.code or not (streams.sounds or streams.pictures or streams.subtitles):
        raise FileCorrupt("The file is damaged: there is no sound and no picture to be found in it")
    tags, chapters = read_metadata(metadata.text())
    return Recording(
        format=kind,
        duration=_plausible(streams.duration, os.path.getsize(path)),
        is_estimated=_GUESS in ended.said,
        start=streams.start,
        sounds=streams.sounds,
        pictures=streams.pictures,
        subtitles=streams.subtitles,
        chapters=chapters,
        tags=tags,
    )


def _plausible(duration: float | None, size_bytes: int) -> float | None:
    if not duration or size_bytes * 8 / duration < _LEAST_BITS_A_SECOND:
        return None
    return duration
