"""The slides of a video: data types without heavy imports. `slide_detection` scans a video one
window at a time, and saves and reads the selected slides."""

from dataclasses import dataclass, field
from itertools import pairwise

#: Seconds scanned per call. Each window decodes `frame_similarity.LOOK_AHEAD_S` more than that.
WINDOW_S = 300.0
#: A window is held in memory, 83 kB per second.
MAX_WINDOW_S = 900.0
#: More slides than anybody looks through.
MAX_SLIDES = 300
#: Pixels of the longer side of a saved slide; larger ones are scaled down.
MAX_SIDE = 1920


@dataclass(frozen=True, slots=True, kw_only=True)
class SlideCandidate:
    """A frame that stood still for a while or, if nothing does, one of a moving scene. Stored as
    JSON in the cache, so the field names must not change."""

    #: Seconds of the video.
    time: float
    end: float
    #: A moment at which nothing on it changes.
    at: float
    #: The thumbnail, packed by `frame_similarity`.
    grey: str = field(repr=False)
    #: The mask of the blocks that are always in motion, such as a speaker in a corner.
    lively: str = field(repr=False)
    is_scene: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedWindow:
    """The candidates in one window of the video; stored as JSON like them."""

    start: float
    #: The end of the window, or of the video.
    end: float
    candidates: tuple[SlideCandidate, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the video ended before the window."""
        return self.end <= self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide(SlideCandidate):
    """A selected candidate. `time` is when the first step of a build-up appears, `at` when it is
    complete and stands still."""

    number: int

    @property
    def file_name(self) -> str:
        return f"frame_{self.number:03d}.jpg"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlideImage:
    number: int
    name: str
    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlideText:
    """Stored as JSON in the cache, so the field names must not change."""

    text: str
    markdown: str
    #: 0 to 100; 0 if there is no text.
    confidence: float
    #: In the notation of the OCR engine, such as `deu+eng`.
    languages: str


def windows(duration: float, length: float = WINDOW_S) -> list[tuple[float, float]]:
    """Split a video into windows of about equal length."""
    count = max(1, round(duration / length))
    edges = [round(duration * index / count, 2) for index in range(count)] + [duration]
    return list(pairwise(edges))
