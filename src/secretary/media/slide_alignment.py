"""Finds out when each page of a slide deck was shown, by comparing the pages with video frames."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

#: A frame shows a page if this share of its words can be read there, or if the pictures correlate.
#: OCR misses some words; a recording has a frame, a speaker or a logo around the slide.
MIN_WORDS_SHARE = 0.6
MIN_CORRELATION = 0.85
#: Fewer words say little.
MIN_WORDS = 2
WORD = re.compile(r"[^\W_]{3,}")
#: Width and height to which pictures are scaled before they are compared.
SIZE = (64, 36)


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
    return frozenset(word.casefold() for word in WORD.findall(text))


def _picture(path: str | None) -> "NDArray[numpy.float64] | None":
    """The picture as a vector of grey values with mean 0 and length 1; None for a blank one."""
    import numpy
    from PIL import Image

    if path is None or not Path(path).exists():
        return None
    with Image.open(path) as image:
        grey = numpy.asarray(image.convert("L").resize(SIZE), numpy.float64).ravel()
    grey -= grey.mean()
    length = float(numpy.linalg.norm(grey))
    return grey / length if length > 1e-6 else None


def _correlation(
    one: "NDArray[numpy.float64] | None", other: "NDArray[numpy.float64] | None"
) -> float:
    return float(one @ other) if one is not None and other is not None else 0.0
