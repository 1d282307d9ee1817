"""The slides of a video: their data types, saving them in the resolution of the video, reading
their text, and when each page of a slide deck was shown. Without heavy imports at the top;
`slide_detection` finds the slides."""

import contextlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import FileCorrupt, FileTooLarge, ProcessingTimeout
from .ffmpeg import input_arguments, run_ffmpeg
from .probe import VideoTrack

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from PIL import Image

#: Seconds scanned per call. Each window decodes `slide_detection.LOOK_AHEAD_S` more than that.
WINDOW_S = 300.0
#: A window is held in memory, 83 kB per second.
MAX_WINDOW_S = 900.0
#: More slides than anybody looks through.
MAX_SLIDES = 300
#: 8K. A decoder may hold 17 frames of this size, which is 900 MB.
MAX_FRAME_PIXELS = 8192 * 4608
MAX_IMAGE_PIXELS = 50_000_000
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
    #: The thumbnail, packed by `slide_detection`.
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


def windows(duration: float, length: float = WINDOW_S) -> list[tuple[float, float]]:
    """Split a video into windows of about equal length."""
    count = max(1, round(duration / length))
    edges = [round(duration * index / count, 2) for index in range(count)] + [duration]
    return list(pairwise(edges))


# Save and read slides ---------------------------------------------------------------------------


def save_slide(
    path: str,
    track: VideoTrack,
    slide: Slide,
    target: str,
    *,
    timeout_s: float = 60.0,
    program: str | None = None,
) -> None:
    """Write a slide as a JPEG file."""
    from ..documents.ocr.images import save_jpeg
    from .slide_detection import is_frame_of

    decode = partial(_decode, path, track, slide.at, timeout_s=timeout_s, program=program)
    image = decode(can_seek=True)
    if not image or not is_frame_of(image, slide):
        # With wrong timestamps in the index of the file, a seek leads elsewhere.
        with contextlib.suppress(ProcessingTimeout):
            image = decode(can_seek=False) or image
    if not image:
        raise FileCorrupt(f"The frame at {slide.at:.1f} s of the video cannot be decoded")
    save_jpeg(image, target)


def _decode(
    path: str,
    track: VideoTrack,
    at_s: float,
    *,
    can_seek: bool,
    timeout_s: float,
    program: str | None,
) -> "Image.Image | None":
    """Return the frame at a time, upright and with square pixels. Without a seek everything before
    it is decoded: slow, but right even if the timestamps of the file are wrong."""
    from PIL import Image

    # Stretch pixels that are not square; an aspect ratio of 0 is undefined.
    sar = "if(sar\\,clip(sar\\,0.1\\,10)\\,1)"
    width, height = f"(iw*max({sar}\\,1))", f"(ih/min({sar}\\,1))"
    fit = f"min(1\\,{MAX_SIDE}/max({width}\\,{height}))"
    scale = ":".join(f"max(1\\,round({side}*{fit}))" for side in (width, height))
    content = decode_frames(
        path,
        track,
        seek_s=at_s if can_seek else 0.0,
        skip_s=0.0 if can_seek else at_s,
        rate=50,
        count=1,
        # ffmpeg applies the rotation of the file by itself.
        filters=f"scale={scale}:flags=bicubic,setsar=1,format=rgb24",
        output=("-c:v", "ppm", "-f", "image2pipe"),
        timeout_s=timeout_s,
        program=program,
    )
    return Image.open(io.BytesIO(content), formats=["PPM"]) if content else None


def decode_frames(
    path: str,
    track: VideoTrack,
    *,
    seek_s: float,
    rate: int,
    count: int,
    filters: str,
    output: Sequence[str],
    skip_s: float = 0.0,
    options: Sequence[str] = (),
    timeout_s: float,
    program: str | None,
) -> bytearray:
    """Return up to `count` filtered frames, `rate` per second of the video, starting `skip_s` after
    the position of the seek. A frame that is shown for longer is repeated. Returns as much as can
    be decoded: a part of a damaged video can often be shown."""
    if track.width * track.height > MAX_FRAME_PIXELS:
        raise FileTooLarge(
            f"The frames of the video have {track.width} x {track.height} pixels",
            limit_pixels=MAX_FRAME_PIXELS,
        )
    # An accurate seek would drop a frame that began before the position, and it may last minutes.
    seek = ("-noaccurate_seek", "-ss", f"{seek_s:.3f}")
    # Trimmed before scaling: a gap of a year would repeat a frame millions of times.
    selected = f"fps={rate}:start_time={skip_s:.3f},trim=end_frame={count}"
    content = bytearray()
    run_ffmpeg(
        [
            # One thread: other windows run on the other cores, so more would only cost memory.
            *input_arguments(path, options=("-max_pixels", str(MAX_FRAME_PIXELS), *options, *seek)),
            "-map", f"0:{track.stream}", "-filter_threads", "1", "-max_error_rate", "1",
            "-vf", f"{selected},{filters}",
            *output,
            "pipe:1",
        ],
        timeout_s=timeout_s,
        program=program,
        level="quiet",
        on_output=content.extend,
    )  # fmt: skip
    return content


def read_slide(
    image_path: str,
    slide: Slide,
    *,
    languages: str | None = None,
    ocr_engine: str = "tesseract",
    ocr_data_directory: str | None = None,
) -> str:
    """Return the text of a saved slide; it may have none."""
    from ..documents.ocr.engines import open_engine
    from ..documents.ocr.images import open_frame
    from ..documents.ocr.recognition import recognise_upright
    from .slide_detection import cover_motion

    engine = open_engine(ocr_engine, ocr_data_directory)
    grey = open_frame(image_path, 1, max_pixels=MAX_IMAGE_PIXELS).convert("L")
    if not slide.is_scene:
        cover_motion(grey, slide.lively)
    return recognise_upright(grey, engine=engine, languages=languages).text


# Alignment with a slide deck ------------------------------------------------------------------

#: A frame shows a page if this share of its words can be read there, or if the pictures correlate.
#: OCR misses some words; a recording has a frame, a speaker or a logo around the slide.
MIN_WORDS_SHARE = 0.6
MIN_CORRELATION = 0.85
#: Fewer words say little.
MIN_WORDS = 2
_WORD = re.compile(r"[^\W_]{3,}")
#: Width and height to which pictures are scaled before they are compared.
COMPARED_SIZE = (64, 36)


@dataclass(frozen=True, slots=True)
class SlideImage:
    """A page or a frame: its text and its picture, either of which may be missing."""

    text: str
    path: str | None


def align_slides(pages: Sequence[SlideImage], frames: Sequence[SlideImage]) -> list[int | None]:
    """For each frame the index of the page that it shows, if any. Run this in a sandbox."""
    page_words = [_words(page.text) for page in pages]
    pictures = [_picture(page.path) for page in pages]
    matches: list[int | None] = []
    last = -1
    for frame in frames:
        words, picture = _words(frame.text), _picture(frame.path)
        scores = []
        for number, (own_words, own_picture) in enumerate(zip(page_words, pictures, strict=True)):
            share = len(own_words & words) / len(own_words) if own_words else 0.0
            is_text = len(own_words) >= MIN_WORDS and share >= MIN_WORDS_SHARE
            correlation = _correlation(own_picture, picture)
            if is_text or correlation >= MIN_CORRELATION:
                # Of equally similar pages, the next one after the previous frame's is likely.
                distance = abs(number - last - 1)
                common = len(own_words & words) if is_text else 0
                scores.append((round(share + correlation, 1), common, -distance, number))
        match = max(scores)[-1] if scores else None
        last = last if match is None else match
        matches.append(match)
    return matches


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))


def _picture(path: str | None) -> "NDArray[numpy.float64] | None":
    """The picture as a vector of grey values with mean 0 and length 1; None for a blank one."""
    import numpy
    from PIL import Image

    if path is None or not Path(path).exists():
        return None
    with Image.open(path) as image:
        grey = numpy.asarray(image.convert("L").resize(COMPARED_SIZE), numpy.float64).ravel()
    grey -= grey.mean()
    length = float(numpy.linalg.norm(grey))
    return grey / length if length > 1e-6 else None


def _correlation(
    one: "NDArray[numpy.float64] | None", other: "NDArray[numpy.float64] | None"
) -> float:
    return float(one @ other) if one is not None and other is not None else 0.0
