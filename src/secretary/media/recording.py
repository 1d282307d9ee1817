"""What a file with sound or moving pictures holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundTrack:
    #: The number of the stream in its file, as ffmpeg counts them.
    stream: int
    codec: str
    channels: int
    #: As ffmpeg calls it: `mono`, `5.1(side)`; `17 channels` when nobody knows what they are.
    layout: str
    rate: int
    #: ISO 639-1; None when the file does not say.
    language: str | None = None
    is_default: bool = False
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureTrack:
    stream: int
    codec: str
    width: int
    height: int
    #: Frames a second, on the average; None when the file does not say.
    rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtitleTrack:
    stream: int
    codec: str
    language: str | None = None
    is_default: bool = False
    #: Only of what a viewer would not understand: signs, words in another language.
    is_forced: bool = False
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    start: float
    end: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """As the file declares it: what is really in it shows only when it is decoded."""

    #: As `file_kinds` calls it.
    format: str
    #: In seconds; None when the file does not say, or says what cannot be in so few bytes.
    duration: float | None
    #: Whether that is only a guess, by the size of the file and the bit rate of its beginning.
    is_estimated: bool = False
    #: The time, in seconds, at which its first track begins. To people that is second 0.
    start: float = 0.0
    sounds: tuple[SoundTrack, ...] = ()
    #: Only those that move: a cover is none.
    pictures: tuple[PictureTrack, ...] = ()
    #: Only those that are text.
    subtitles: tuple[SubtitleTrack, ...] = ()
    chapters: tuple[Chapter, ...] = ()
    #: `title`, `artist`, `date` …, by their names in lower case.
    tags: Mapping[str, str] = field(default_factory=dict)
