"""The contents of an audio or video file: tracks, chapters and tags."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioTrack:
    #: The stream number as ffmpeg counts it.
    stream: int
    codec: str
    channels: int
    #: ffmpeg's name: `mono`, `5.1(side)`; `17 channels` if the layout is unknown.
    layout: str
    rate: int
    #: ISO 639-1; None if the file does not name it.
    language: str | None = None
    is_default: bool = False
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoTrack:
    stream: int
    codec: str
    width: int
    height: int
    #: Average frames per second; None if the file does not name it.
    rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtitleTrack:
    stream: int
    codec: str
    language: str | None = None
    is_default: bool = False
    #: Covers only signs and foreign-language passages.
    is_forced: bool = False
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    start: float
    end: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What the file declares; only decoding shows what it really contains."""

    #: The type that `core.file_types` detects.
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
