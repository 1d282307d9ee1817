"""The slides of a video with their times: one window of it after the other, then all together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .recording import PictureTrack

#: How much of a video one call looks at. A window costs the decoding of `stillness.AHEAD_S` more.
WINDOW_S = 300.0
#: A window is held in memory, 83 kB a second.
MAX_WINDOW_S = 900.0
#: More frames of one video than anybody looks through.
MAX_SLIDES = 300
#: Of the larger side of a picture; what is larger is made smaller.
MAX_SIDE = 1920


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A picture that stood still for a while; or, where nothing does, one of a moving scene.
    All of it can be written as JSON."""

    #: In seconds of the video.
    time: float
    end: float
    #: A moment when nothing of it is changing.
    at: float
    #: The picture, small and grey; `likeness` knows how to read it.
    grey: str
    #: The parts of the picture that never rest, such as a speaker in a corner.
    lively: str
    is_scene: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one window of the video holds."""

    start: float
    #: Where the window ends, or before that the video's pictures.
    end: float
    candidates: tuple[Candidate, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the video was over before the window began."""
        return self.end <= self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    number: int
    #: When it was first to be seen: the first part of it, where it was built up in steps.
    time: float
    end: float
    #: When it is complete, and stands still.
    at: float
    #: As with the candidate it was.
    grey: str = field(repr=False)
    lively: str = field(repr=False)
    is_scene: bool = False

    @property
    def file_name(self) -> str:
        return f"frame_{self.number:03d}.jpg"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSlide:
    number: int
    name: str
    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlideText:
    text: str
    markdown: str
    #: 0 to 100; 0 where there is no text.
    confidence: float
    #: As the OCR engine calls them, for instance `deu+eng`.
    languages: str


def windows(duration: float, length: float = WINDOW_S) -> list[tuple[float, float]]:
    """Start and end of the windows that cover a video: no short one is left over at the end."""
    count = max(1, round(duration / length))
    edges = [round(duration * index / count, 2) for index in range(count)] + [duration]
    return list(pairwise(edges))


def look(
    path: str,
    track: PictureTrack,
    start_s: float,
    end_s: float,
    *,
    timeout_s: float = 600.0,
    program: str | None = None,
) -> Seen:
    """Find what may be slides between two times of a video, the end excluded."""
    from .slide_detection import search  # numpy is not for those who only know of slides

    return search(path, track, start_s, end_s, timeout_s=timeout_s, program=program)


def choose(seen: Sequence[Seen], *, limit: int = MAX_SLIDES) -> list[Slide]:
    """Each slide once, in the order of the video; of a build-up the fullest state."""
    from .slide_detection import chosen

    return chosen(seen, limit=limit)


def draw(
    path: str,
    track: PictureTrack,
    slides: Sequence[Slide],
    into: str,
    *,
    max_side: int = MAX_SIDE,
    timeout_s: float = 60.0,
    program: str | None = None,
) -> list[DrawnSlide]:
    """Write each slide as `frame_###.jpg` into a directory. The time limit is for each of them."""
    from .slide_images import draw_slide

    return [
        draw_slide(
            path, track, slide, into, max_side=max_side, timeout_s=timeout_s, program=program
        )
        for slide in slides
    ]


def read(
    picture_path: str,
    slide: Slide,
    *,
    languages: str | None = None,
    ocr_engine: str = "tesseract",
    ocr_data_directory: str | None = None,
) -> SlideText:
    """The text of a slide that was drawn; it may have none."""
    from .slide_images import read_slide

    return read_slide(picture_path, slide, languages, ocr_engine, ocr_data_directory)
