"""The contents of an audio or video file: tracks, chapters and tags."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..core.errors import FileCorrupt
from ..core.languages import language_code
from .ffmpeg import bounded, detect_container, input_arguments, run_ffmpeg


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioTrack:
    #: The stream number as ffmpeg counts it.
    stream: int
    codec: str
    channels: int
    #: ffmpeg's name: `mono`, `5.1(side)`; `17 channels` if the layout is unknown.
    layout: str
    #: In Hz; None if the file does not declare it.
    sample_rate: int | None = None
    #: ISO 639-1; None if the file does not name it.
    language: str | None = None
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoTrack:
    stream: int
    codec: str
    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtitleTrack:
    stream: int
    codec: str
    language: str | None = None
    #: Covers only signs and foreign-language passages.
    is_forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    start: float
    end: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What the file declares; only decoding shows what it really contains."""

    #: The type that `core.files` detects.
    format: str
    #: Seconds; None if the file declares none, or more than its size allows.
    duration: float | None
    #: Whether the duration was estimated from the file size and the bit rate at its start.
    is_estimated: bool = False
    #: The timestamp, in seconds, at which the first track starts; shown to users as second 0.
    start: float = 0.0
    audio_tracks: tuple[AudioTrack, ...] = ()
    #: Without cover images.
    video_tracks: tuple[VideoTrack, ...] = ()
    #: Text subtitles only, no bitmaps.
    subtitle_tracks: tuple[SubtitleTrack, ...] = ()
    chapters: tuple[Chapter, ...] = ()
    #: `title`, `artist`, `date` and others, by lower-case name.
    tags: Mapping[str, str] = field(default_factory=dict)


#: Enough for the lyrics and notes of a thousand chapters.
_MAX_METADATA_BYTES = 8 * 1024 * 1024
#: Hardly any speech codec needs less for silence; a declared duration that implies less is wrong.
_MIN_BIT_RATE = 500
_ESTIMATED = "Estimating duration from bitrate"

_MAX_TAGS = 100
_MAX_CHAPTERS = 5000
_MAX_KEY = 100
_MAX_VALUE = 20_000
_MAX_TITLE = 500
_MAX_SECONDS = 1e9
#: Tags about the container, not about the content.
_CONTAINER_TAGS = {"major_brand", "minor_version", "compatible_brands", "encoder"}
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: A line that ends with a single backslash continues on the next one.
_LINE = re.compile(r"(?:[^\\\n]|\\.|\\\Z)+", re.DOTALL)
_SECTION = re.compile(r"\[[A-Z]+\]")
#: Split at the first equals sign that is not escaped; not a comment.
_KEY_AND_VALUE = re.compile(r"((?![;#])(?:[^\\=]|\\.)+)=(.*)", re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,18}")

_STREAM = re.compile(
    r" +Stream #0:(?P<number>\d{1,5})(?:\[0x[0-9a-f]+\])?(?:\((?P<language>[^()]{1,40})\))?:"
    r" (?P<type>Audio|Video|Subtitle): (?P<codec>\w+)(?P<rest>.*)"
)
_DURATION = re.compile(r"  Duration: (\d{1,9}):(\d\d):(\d\d(?:\.\d+)?)")
_START = re.compile(r", start: (-?\d{1,12}\.\d{1,6})")
_LAYOUT = re.compile(r", (\d{1,9}) Hz, ([^,]{1,60})")
_SIZE = re.compile(r", (?P<width>\d{1,6})x(?P<height>\d{1,6})\b")
_TEXT_SUBTITLES = {"subrip", "srt", "ass", "ssa", "webvtt", "mov_text", "text"}
_STILL_IMAGE = ("(attached pic)", "(timed thumbnails)", "(still image)")
_CHANNELS = {
    "mono": 1, "stereo": 2, "downmix": 2, "quad": 4, "quad(side)": 4, "hexagonal": 6,
    "octagonal": 8, "cube": 8, "hexadecagonal": 16,
}  # fmt: skip


def probe(path: str, *, timeout_s: float = 60.0, program: str | None = None) -> Recording:
    """Return what the file declares; raise if it has no track that ffmpeg can open."""
    container = detect_container(path)
    metadata = bytearray()
    result = run_ffmpeg(
        [*input_arguments(path), "-f", "ffmetadata", "pipe:1"],
        timeout_s=timeout_s,
        program=program,
        level="info",
        on_output=bounded(metadata, _MAX_METADATA_BYTES, "The file's tags and chapters"),
    )
    recording = parse_streams(result.stderr, container)
    tracks = (recording.audio_tracks, recording.video_tracks, recording.subtitle_tracks)
    if result.exit_code or not any(tracks):
        raise FileCorrupt("The file is damaged: it has no readable audio or video track")
    tags, chapters = parse_metadata(metadata.decode(errors="replace"))
    duration = recording.duration
    if not duration or os.path.getsize(path) * 8 / duration < _MIN_BIT_RATE:
        duration = None
    is_estimated = _ESTIMATED in result.stderr
    return replace(
        recording, duration=duration, is_estimated=is_estimated, chapters=chapters, tags=tags
    )


# Streams, from the log on stderr ----------------------------------------------------------------


def parse_streams(log: str, container: str = "") -> Recording:
    """Return what the log says about the tracks and the times of the file."""
    tracks: dict[int, AudioTrack | VideoTrack | SubtitleTrack] = {}
    for stream in filter(None, map(_STREAM.fullmatch, _stream_lines(log))):
        number = int(stream["number"])
        if number in tracks:
            continue
        match stream["type"]:
            case "Audio":
                match = _LAYOUT.search(stream["rest"])
                layout = match[2].strip() if match else ""
                tracks[number] = AudioTrack(
                    stream=number,
                    codec=stream["codec"],
                    channels=_channels(layout),
                    layout=layout,
                    sample_rate=int(match[1]) if match else None,
                    language=language_code(stream["language"] or ""),
                    is_default="(default)" in stream["rest"],
                )
            case "Video" if not stream["rest"].rstrip().endswith(_STILL_IMAGE):
                size = _SIZE.search(stream["rest"])
                tracks[number] = VideoTrack(
                    stream=number,
                    codec=stream["codec"],
                    width=int(size["width"]) if size else 0,
                    height=int(size["height"]) if size else 0,
                )
            case "Subtitle" if stream["codec"] in _TEXT_SUBTITLES:
                tracks[number] = SubtitleTrack(
                    stream=number,
                    codec=stream["codec"],
                    language=language_code(stream["language"] or ""),
                    is_forced="(forced)" in stream["rest"],
                )
    times = next((line for line in log.split("\n") if line.startswith("  Duration: ")), "")
    duration, start = _DURATION.match(times), _START.search(times)
    hours, minutes, seconds = duration.groups() if duration else (0, 0, 0)
    return Recording(
        format=container,
        duration=int(hours) * 3600 + int(minutes) * 60 + float(seconds) if duration else None,
        start=float(start[1]) if start else 0.0,
        audio_tracks=tuple(each for each in tracks.values() if isinstance(each, AudioTrack)),
        video_tracks=tuple(each for each in tracks.values() if isinstance(each, VideoTrack)),
        subtitle_tracks=tuple(each for each in tracks.values() if isinstance(each, SubtitleTrack)),
    )


def _stream_lines(log: str) -> Iterator[str]:
    """Yield the line of each stream of the input file. Tags are indented deeper than `Metadata:`
    above them; their text comes from the file and may imitate other lines."""
    metadata_indent = None
    for line in log.split("\n"):
        if line.startswith(("Stream mapping:", "Output #0")):
            return
        indent = len(line) - len(line.lstrip(" "))
        if metadata_indent is None or indent <= metadata_indent:
            metadata_indent = indent if line.strip() == "Metadata:" else None
            if line.lstrip().startswith("Stream #"):
                yield line


def _channels(layout: str) -> int:
    """`5.1(side)` -> 6, `17 channels` -> 17; 0 if unknown."""
    if layout in _CHANNELS:
        return _CHANNELS[layout]
    if counted := re.match(r"(\d{1,5}) channels", layout):
        return int(counted[1])
    if ambisonic := re.match(r"ambisonic (\d{1,2})", layout):
        return (int(ambisonic[1]) + 1) ** 2
    if dotted := re.match(r"\d{1,2}(?:\.\d{1,2})+", layout):
        return sum(int(number) for number in dotted[0].split("."))
    return 0


# Tags and chapters, in ffmpeg's metadata format -------------------------------------------------


def parse_metadata(text: str) -> tuple[dict[str, str], tuple[Chapter, ...]]:
    """Return the tags of the file, and its chapters by time."""
    sections: list[tuple[str, list[tuple[str, str]]]] = [("", [])]
    for line in _LINE.findall(text):
        if _SECTION.fullmatch(line):
            sections.append((line, []))
        elif match := _KEY_AND_VALUE.match(line):
            key, value = (re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in match.groups())
            sections[-1][1].append((key, value))
    chapters = [_chapter(dict(pairs)) for name, pairs in sections if name == "[CHAPTER]"]
    valid = [chapter for chapter in chapters if chapter is not None][:_MAX_CHAPTERS]
    by_time = sorted(valid, key=lambda chapter: (chapter.start, chapter.end))
    return _tags(sections[0][1]), tuple(by_time)


def _tags(pairs: list[tuple[str, str]]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for key, value in pairs:
        name = _one_line(key, _MAX_KEY).lower()
        text = _CONTROL.sub("", value.replace("\r\n", "\n").replace("\r", "\n")).strip()
        if name and text and name not in _CONTAINER_TAGS and len(tags) < _MAX_TAGS:
            tags.setdefault(name, text[:_MAX_VALUE])
    return tags


def _chapter(pairs: dict[str, str]) -> Chapter | None:
    numerator, _, denominator = pairs.get("TIMEBASE", "1/1000000000").partition("/")
    numbers = (numerator, denominator, pairs.get("START", ""), pairs.get("END", ""))
    if not all(_NUMBER.fullmatch(number) for number in numbers) or int(denominator) <= 0:
        return None
    start, end = (int(number) * int(numerator) / int(denominator) for number in numbers[2:])
    if not 0 <= start <= end <= _MAX_SECONDS:
        return None
    return Chapter(start=start, end=end, title=_one_line(pairs.get("title", "")))


def _one_line(text: str, limit: int = _MAX_TITLE) -> str:
    """Remove line breaks, control characters and text direction marks."""
    return " ".join(_CONTROL.sub(" ", text).split())[:limit].strip()
