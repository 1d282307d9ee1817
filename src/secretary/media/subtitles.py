"""Subtitles in the formats SubRip (.srt) and WebVTT (.vtt): read from anywhere, written for all."""

import html
import re
import textwrap
from collections.abc import Iterable, Iterator

from ..core.errors import FileCorrupt, FileTooLarge, UnsupportedFile
from .ffmpeg import Collected, opening, run
from .recording import SubtitleTrack
from .speech.engines import Word

MAX_BYTES = 20 * 1024 * 1024
#: What fits on a screen: two lines of 42 characters, as broadcasters have it.
LINE_LENGTH, LINES = 42, 2
#: Seconds that nobody can read in.
FLASH = 0.1

_CLOCK = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_TIMES = re.compile(rf"^\s*{_CLOCK}\s*-->\s*{_CLOCK}(?:\s.*)?$")
_TAG = re.compile(r"<[^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}")


def read_subtitles(text: str) -> list[Word]:
    """What is said, in the order of time. Numbers, settings, styles and tags are left out."""
    if len(text) > MAX_BYTES:
        raise FileTooLarge("The subtitles are too large", limit_bytes=MAX_BYTES)
    said = sorted(cue for cue in _cues(text.splitlines()) if cue.text)
    if not said:
        raise FileCorrupt("The file holds no subtitles")
    return list(_without_repetitions(said))


def _cues(lines: Iterable[str]) -> Iterator[Word]:
    times: tuple[float, float] | None = None
    words: list[str] = []
    for line in lines:
        found = _TIMES.match(line[:200]) if "-->" in line else None
        if found is None and line.strip():
            words.append(line)  # of no cue, if no times stood before: a style, a note
            continue
        if times is not None:
            yield _cue(times, words)
        times = (_seconds(found.groups()[:4]), _seconds(found.groups()[4:])) if found else None
        words = []
    if times is not None:
        yield _cue(times, words)


def _cue(times: tuple[float, float], lines: Iterable[str]) -> Word:
    plain = html.unescape(_TAG.sub("", "\n".join(lines)))
    text = "\n".join(" ".join(line.split()) for line in plain.splitlines() if line.strip())
    return Word(times[0], max(times), text)


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction}")


def _without_repetitions(said: Iterable[Word]) -> Iterator[Word]:
    """Captions that roll up show each line twice: below, and then above the next one. In between
    some flash what is shown already. Who says the same twice takes longer."""
    shown: list[str] = []
    for start, end, text in said:
        lines = text.split("\n")
        known = _known_lines(shown, lines)
        shown = lines
        if known < len(lines):
            yield Word(start, end, " ".join(lines[known:]))
        elif end - start > FLASH:
            yield Word(start, end, " ".join(lines))


def _known_lines(shown: list[str], lines: list[str]) -> int:
    """How many of the first lines were the last ones before."""
    sizes = range(min(len(lines), len(shown)), 0, -1)
    return next((size for size in sizes if shown[-size:] == lines[:size]), 0)


def as_srt(said: Iterable[Word]) -> Iterator[str]:
    for number, (start, end, text) in enumerate(_screens(said), start=1):
        shown = text.replace("-->", "->")  # the format has no way to write its own arrow
        yield f"{number}\n{clock(start, ',')} --> {clock(end, ',')}\n{shown}\n\n"


def as_vtt(said: Iterable[Word]) -> Iterator[str]:
    yield "WEBVTT\n\n"
    for start, end, text in _screens(said):
        yield f"{clock(start)} --> {clock(end)}\n{html.escape(text, quote=False)}\n\n"


def _screens(said: Iterable[Word]) -> Iterator[Word]:
    """What is too long for a screen becomes several, each as long as its share of the letters."""
    for start, end, text in said:
        lines = textwrap.wrap(" ".join(text.split()), LINE_LENGTH)
        letters = sum(map(len, lines))
        read = 0
        for at in range(0, len(lines), LINES):
            screen = lines[at : at + LINES]
            begins = start + (end - start) * read / letters
            read += sum(map(len, screen))
            ends = start + (end - start) * read / letters
            # No player shows what takes no time.
            yield Word(begins, max(ends, begins + 0.001), "\n".join(screen))


def clock(seconds: float, point: str = ".") -> str:
    """`01:02:03.456`."""
    milliseconds = round(max(seconds, 0) * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02d}:{minutes:02d}:{whole:02d}{point}{milliseconds:03d}"


def load_subtitles(path: str) -> list[Word]:
    from ..documents.office.text import decode_text

    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise FileTooLarge("The subtitles are too large", limit_bytes=MAX_BYTES)
    return read_subtitles(decode_text(content))


def language_of(said: Iterable[Word]) -> str | None:
    """As three letters; None where it cannot be told."""
    from ..core.languages import COMMON_WORDS, detect_language

    return detect_language(" ".join(one.text for one in said), among=COMMON_WORDS)


#: The words of many days.
SUBTITLE_TRACKS_MAX_BYTES = 16 * 1024 * 1024


def subtitles_of(
    path: str, track: SubtitleTrack, *, timeout_s: float, program: str | None = None
) -> str:
    """The text of one track, with the times of the recording. Its cues may be none."""
    text = Collected(SUBTITLE_TRACKS_MAX_BYTES, "The subtitles in the file")
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
