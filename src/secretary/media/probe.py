"""What a recording holds, as ffmpeg tells it; there is no ffprobe in a default install."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..core.errors import FileCorrupt
from ..core.languages import language_code
from .ffmpeg import Collected, media_kind, opening, run
from .recording import Chapter, PictureTrack, Recording, SoundTrack, SubtitleTrack

_MAX_TAGS = 100
_MAX_CHAPTERS = 5000
_MAX_KEY = 100
_MAX_VALUE = 20_000
_MAX_TITLE = 500
#: They say how the file was packed, not what it is about.
_OF_THE_CONTAINER = {"major_brand", "minor_version", "compatible_brands", "encoder"}
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SECTION = re.compile(r"\[[A-Z]+\]")
_NUMBER = re.compile(r"-?\d{1,18}")
_LONGEST_S = 1e9


def read_metadata(text: str) -> tuple[dict[str, str], tuple[Chapter, ...]]:
    """The file's own tags, and its chapters in their order."""
    tags: dict[str, str] = {}
    chapters: list[Chapter] = []
    for section, pairs in _sections(text):
        if section == "":
            tags = _tags(pairs)
        elif section == "[CHAPTER]" and len(chapters) < _MAX_CHAPTERS:
            chapter = _chapter(dict(pairs))
            if chapter is not None:
                chapters.append(chapter)
    return tags, tuple(sorted(chapters, key=lambda each: (each.start, each.end)))


def one_line(text: str, limit: int = _MAX_TITLE) -> str:
    """Without what would change how the text around it looks."""
    return " ".join(_CONTROL.sub(" ", text).split())[:limit].strip()


def _sections(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    section, pairs = "", list[tuple[str, str]]()
    for line in _lines(text):
        if _SECTION.fullmatch(line):
            yield section, pairs
            section, pairs = line, []
        elif not line.startswith((";", "#")):
            key, value = _parted(line)
            if key:
                pairs.append((key, value))
    yield section, pairs


def _lines(text: str) -> Iterator[str]:
    """A line that ends with a backslash (and not with two) goes on in the next one."""
    begun: list[str] = []
    for line in text.split("\n"):
        begun.append(line)
        if (len(line) - len(line.rstrip("\\"))) % 2 == 0:
            yield "\n".join(begun)
            begun = []
    if begun:
        yield "\n".join(begun)


def _parted(line: str) -> tuple[str, str]:
    """At the first equals sign that is not escaped."""
    found = re.match(r"((?:[^\\=]|\\.)*)=(.*)", line, re.DOTALL)
    if found is None:
        return "", ""
    key, value = (re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in found.groups())
    return key, value


def _tags(pairs: list[tuple[str, str]]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for key, value in pairs:
        name = one_line(key, _MAX_KEY).lower()
        text = _CONTROL.sub("", value.replace("\r\n", "\n").replace("\r", "\n")).strip()
        if name and text and name not in _OF_THE_CONTAINER and len(tags) < _MAX_TAGS:
            tags.setdefault(name, text[:_MAX_VALUE])
    return tags


def _chapter(pairs: dict[str, str]) -> Chapter | None:
    base, _, parts = pairs.get("TIMEBASE", "1/1000000000").partition("/")
    numbers = (base, parts, pairs.get("START", ""), pairs.get("END", ""))
    if not all(_NUMBER.fullmatch(number) for number in numbers) or int(parts) <= 0:
        return None
    start, end = (int(number) * int(base) / int(parts) for number in numbers[2:])
    if not 0 <= start <= end <= _LONGEST_S:
        return None
    return Chapter(start=start, end=end, title=one_line(pairs.get("title", "")))


_STREAM = re.compile(
    r" +Stream #0:(?P<number>\d{1,5})(?:\[0x[0-9a-f]+\])?(?:\((?P<language>[^()]{1,40})\))?:"
    r" (?P<type>Audio|Video|Subtitle): (?P<codec>\w+)(?P<rest>.*)"
)
_DURATION = re.compile(r"  Duration: (\d{1,9}):(\d\d):(\d\d(?:\.\d+)?)")
_START = re.compile(r", start: (-?\d{1,12}\.\d{1,6})")
_TITLE = re.compile(r"\s{4,}title\s*: (.*)")
_SOUND = re.compile(r", (?P<rate>\d{1,9}) Hz(?:, (?P<layout>[^,]{1,60}))?")
_SIZE = re.compile(r", (?P<width>\d{1,6})x(?P<height>\d{1,6})\b")
_FRAMES = re.compile(r", (?P<rate>\d{1,6}(?:\.\d{1,3})?)(?P<thousand>k?) fps")
_TEXT_SUBTITLES = {"subrip", "srt", "ass", "ssa", "webvtt", "mov_text", "text"}
_STILL = ("(attached pic)", "(timed thumbnails)", "(still image)")
_CHANNELS = {
    "mono": 1, "stereo": 2, "downmix": 2, "quad": 4, "quad(side)": 4, "hexagonal": 6,
    "octagonal": 8, "cube": 8, "hexadecagonal": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    duration: float | None
    start: float
    sounds: tuple[SoundTrack, ...]
    pictures: tuple[PictureTrack, ...]
    subtitles: tuple[SubtitleTrack, ...]


def read_streams(said: str) -> Streams:
    sounds: dict[int, SoundTrack] = {}
    pictures: dict[int, PictureTrack] = {}
    subtitles: dict[int, SubtitleTrack] = {}
    for line, title in _described(said):
        found = _STREAM.fullmatch(line)
        number = int(found["number"]) if found else -1
        if found is None or number in sounds | pictures | subtitles:
            continue
        match found["type"]:
            case "Audio":
                sounds[number] = _sound(found, title)
            case "Video" if not found["rest"].rstrip().endswith(_STILL):
                pictures[number] = _picture(found)
            case "Subtitle" if found["codec"] in _TEXT_SUBTITLES:
                subtitles[number] = _subtitle(found, title)
    lasting = next((line for line in said.split("\n") if line.startswith("  Duration: ")), "")
    return Streams(
        duration=_duration(lasting),
        start=_start(lasting),
        sounds=tuple(sounds.values()),
        pictures=tuple(pictures.values()),
        subtitles=tuple(subtitles.values()),
    )


def _described(said: str) -> Iterator[tuple[str, str | None]]:
    """Each line of a stream, and the title among those that follow it."""
    line, title = None, None
    for each, is_tag in _of_the_input(said):
        if is_tag:
            if title is None and (found := _TITLE.fullmatch(each)):
                title = one_line(found[1]) or None
        elif each.lstrip().startswith("Stream #"):
            if line is not None:
                yield line, title
            line, title = each, None
    if line is not None:
        yield line, title


def _of_the_input(said: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether the file itself says it: that stands further to the right than the
    word before it."""
    tags_at = None
    for line in said.split("\n"):
        if line.startswith(("Stream mapping:", "Output #0")):
            return
        indent = len(line) - len(line.lstrip(" "))
        if tags_at is not None and indent > tags_at:
            yield line, True
            continue
        tags_at = indent if line.strip() == "Metadata:" else None
        yield line, False


def _sound(found: re.Match[str], title: str | None) -> SoundTrack:
    about = _SOUND.search(found["rest"])
    layout = (about["layout"] or "").strip() if about else ""
    return SoundTrack(
        stream=int(found["number"]),
        codec=found["codec"],
        channels=_channels(layout),
        layout=layout,
        rate=int(about["rate"]) if about else 0,
        language=_language(found),
        is_default="(default)" in found["rest"],
        title=title,
    )


def _channels(layout: str) -> int:
    """`5.1(side)` -> 6, `17 channels` -> 17; 0 when that is not known."""
    if layout in _CHANNELS:
        return _CHANNELS[layout]
    if counted := re.match(r"(\d{1,5}) channels", layout):
        return int(counted[1])
    if about := re.match(r"ambisonic (\d{1,2})", layout):
        return (int(about[1]) + 1) ** 2
    if dotted := re.match(r"\d{1,2}(?:\.\d{1,2})+", layout):
        return sum(int(number) for number in dotted[0].split("."))
    return 0


def _picture(found: re.Match[str]) -> PictureTrack:
    size = _SIZE.search(found["rest"])
    frames = _FRAMES.search(found["rest"])
    rate = float(frames["rate"]) * (1000 if frames["thousand"] else 1) if frames else None
    return PictureTrack(
        stream=int(found["number"]),
        codec=found["codec"],
        width=int(size["width"]) if size else 0,
        height=int(size["height"]) if size else 0,
        rate=rate,
    )


def _subtitle(found: re.Match[str], title: str | None) -> SubtitleTrack:
    return SubtitleTrack(
        stream=int(found["number"]),
        codec=found["codec"],
        language=_language(found),
        is_default="(default)" in found["rest"],
        is_forced="(forced)" in found["rest"],
        title=title,
    )


def _language(found: re.Match[str]) -> str | None:
    return language_code(found["language"] or "")


def _duration(line: str) -> float | None:
    found = _DURATION.match(line)
    if found is None:
        return None
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])


def _start(line: str) -> float:
    found = _START.search(line)
    return float(found[1]) if found else 0.0


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
