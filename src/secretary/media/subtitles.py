"""Subtitles as SubRip (.srt) and WebVTT (.vtt): parsed, extracted from recordings, and written."""

import html
import re
import textwrap
from collections.abc import Iterable, Iterator

from ..core.errors import FileCorrupt, FileTooLarge, UnsupportedFile
from .ffmpeg import bounded, input_arguments, run_ffmpeg
from .probe import SubtitleTrack
from .speech.engines import TimedText

MAX_BYTES = 20 * 1024 * 1024
#: Limit for a subtitle track inside a recording: several days of speech.
MAX_TRACK_BYTES = 16 * 1024 * 1024
#: What fits on a screen by broadcasting conventions: two lines of 42 characters.
LINE_LENGTH, LINES = 42, 2
#: A cue shown for less than this many seconds cannot be read.
FLASH = 0.1

_TIMESTAMP = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_CUE_TIMES = re.compile(rf"^\s*{_TIMESTAMP}\s*-->\s*{_TIMESTAMP}(?:\s.*)?$")
_TAG = re.compile(r"<[^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}")


def load_subtitles(path: str) -> list[TimedText]:
    from ..documents.office.text import decode_text

    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise FileTooLarge("The subtitles are too large", limit_bytes=MAX_BYTES)
    return parse_subtitles(decode_text(content))


def extract_subtitles(
    path: str, track: SubtitleTrack, *, timeout_s: float, program: str | None = None
) -> str:
    """Return a track of a recording as WebVTT; it may have no cues."""
    output = bytearray()
    result = run_ffmpeg(
        [
            *input_arguments(path),
            "-map", f"0:{track.stream}",
            "-map_metadata", "-1", "-map_chapters", "-1",
            "-c:s", "webvtt", "-f", "webvtt", "pipe:1",
        ],
        timeout_s=timeout_s,
        program=program,
        on_output=bounded(output, MAX_TRACK_BYTES, "The subtitles in the file"),
    )  # fmt: skip
    if "Decoder not found" in result.stderr:
        raise UnsupportedFile("ffmpeg has no decoder for the subtitles in the file")
    text = output.decode(errors="replace")
    if result.exit_code or not text.startswith("WEBVTT"):
        raise FileCorrupt("The subtitles in the file cannot be read: they are damaged")
    return text


def parse_subtitles(text: str) -> list[TimedText]:
    """Return the text of all cues by time, without numbers, settings, styles and tags."""
    if len(text) > MAX_BYTES:
        raise FileTooLarge("The subtitles are too large", limit_bytes=MAX_BYTES)
    cues = sorted(cue for cue in _cues(text.splitlines()) if cue.text)
    if not cues:
        raise FileCorrupt("The file contains no subtitles")
    return list(_without_repetitions(cues))


def _cues(lines: Iterable[str]) -> Iterator[TimedText]:
    times: tuple[float, float] | None = None
    cue_lines: list[str] = []
    for line in (*lines, ""):
        match = _CUE_TIMES.match(line[:200]) if "-->" in line else None
        if match is None and line.strip():
            cue_lines.append(line)  # dropped if no times came before: a style or a note
            continue
        if times is not None:
            plain = html.unescape(_TAG.sub("", "\n".join(cue_lines)))
            text = "\n".join(" ".join(each.split()) for each in plain.splitlines() if each.strip())
            yield TimedText(times[0], max(times), text)
        times = (_seconds(match.groups()[:4]), _seconds(match.groups()[4:])) if match else None
        cue_lines = []


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction}")


def _without_repetitions(cues: Iterable[TimedText]) -> Iterator[TimedText]:
    """Roll-up captions show each line twice: at the bottom, then above the next line. Some also
    flash the same lines in between. A speaker who repeats a sentence takes longer than that."""
    shown: list[str] = []
    for start, end, text in cues:
        lines = text.split("\n")
        # The leading lines that were the last ones of the previous cue.
        sizes = range(min(len(lines), len(shown)), 0, -1)
        repeated = next((size for size in sizes if shown[-size:] == lines[:size]), 0)
        shown = lines
        if repeated < len(lines):
            yield TimedText(start, end, " ".join(lines[repeated:]))
        elif end - start > FLASH:
            yield TimedText(start, end, " ".join(lines))


def detect_subtitle_language(segments: Iterable[TimedText]) -> str | None:
    """Return the three-letter code, or None if the language cannot be detected."""
    from ..core.languages import COMMON_WORDS, detect_language

    return detect_language(" ".join(segment.text for segment in segments), among=COMMON_WORDS)


def as_srt(segments: Iterable[TimedText]) -> Iterator[str]:
    for number, (start, end, text) in enumerate(_screens(segments), start=1):
        times = f"{format_timestamp(start, ',')} --> {format_timestamp(end, ',')}"
        escaped = text.replace("-->", "->")  # the format has no escape for its own arrow
        yield f"{number}\n{times}\n{escaped}\n\n"


def as_vtt(segments: Iterable[TimedText]) -> Iterator[str]:
    yield "WEBVTT\n\n"
    for start, end, text in _screens(segments):
        times = f"{format_timestamp(start)} --> {format_timestamp(end)}"
        yield f"{times}\n{html.escape(text, quote=False)}\n\n"


def _screens(segments: Iterable[TimedText]) -> Iterator[TimedText]:
    """Split what does not fit on a screen; each part is shown in proportion to its length."""
    for start, end, text in segments:
        lines = textwrap.wrap(" ".join(text.split()), LINE_LENGTH, break_on_hyphens=False)
        total = sum(map(len, lines))
        shown = 0
        for first in range(0, len(lines), LINES):
            screen = lines[first : first + LINES]
            screen_start = start + (end - start) * shown / total
            shown += sum(map(len, screen))
            screen_end = start + (end - start) * shown / total
            # Players skip cues without a duration.
            yield TimedText(screen_start, max(screen_end, screen_start + 0.001), "\n".join(screen))


def format_timestamp(seconds: float, point: str = ".") -> str:
    """`01:02:03.456`."""
    whole, milliseconds = divmod(round(max(seconds, 0) * 1000), 1000)
    hours, rest = divmod(whole, 3600)
    return f"{hours:02d}:{rest // 60:02d}:{rest % 60:02d}{point}{milliseconds:03d}"
