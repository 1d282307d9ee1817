"""The lines in which ffmpeg tells of the tracks of a file, for people to read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...engines.language_names import language_code
from .metadata import one_line
from .recording import PictureTrack, SoundTrack, SubtitleTrack

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
