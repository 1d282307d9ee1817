"""Which page of the slides a frame of the video shows."""

from pathlib import Path

import numpy
import pytest
from PIL import Image

from secretary.media.slides import SlideImage, align_slides
from tests.video_files import Picture, five_slides, slide

TEXTS = [
    "The harvest of 1987 Apples were scarce",
    "Costs of heating A modern boiler",
    "The library 240 additional books",
    "Objections Nobody objected to the repair",
    "Questions and answers Thank you",
]


def saved(directory: Path, name: str, picture: Picture, text: str = "") -> SlideImage:
    path = directory / f"{name}.jpg"
    Image.fromarray(picture).save(path, quality=70)
    return SlideImage(text, str(path))


@pytest.fixture
def pages(tmp_path: Path) -> list[SlideImage]:
    return [saved(tmp_path, f"page{n}", picture) for n, picture in enumerate(five_slides(1280))]


def test_pictures_are_compared_at_any_size_and_order(
    tmp_path: Path, pages: list[SlideImage]
) -> None:
    order = [3, 0, 0, 4]
    pictures = five_slides(640)
    frames = [saved(tmp_path, f"frame{n}", pictures[page]) for n, page in enumerate(order)]
    assert align_slides(pages, frames) == order


def test_a_slide_beside_the_speaker_is_found_by_its_words(
    tmp_path: Path, pages: list[SlideImage]
) -> None:
    with_texts = [SlideImage(text, page.path) for text, page in zip(TEXTS, pages, strict=True)]
    stage = numpy.random.default_rng(1).integers(0, 255, (360, 640), numpy.uint8)
    heard = "LOGO 2026 Objection Nobody objected to repair"  # OCR missed some
    frames = [
        saved(tmp_path, "stage", stage, heard),
        SlideImage("240 additional books library", None),
    ]
    assert align_slides(with_texts, frames) == [3, 2]


def test_what_shows_no_page_has_none(tmp_path: Path, pages: list[SlideImage]) -> None:
    frames = [
        saved(tmp_path, "black", numpy.zeros((360, 640), numpy.uint8)),
        saved(
            tmp_path, "other", slide("Welcome", "A demonstration", "of something else"), "Welcome"
        ),
        SlideImage("", None),
        SlideImage("", str(tmp_path / "gone.jpg")),
    ]
    assert align_slides(pages, frames) == [None, None, None, None]
    assert align_slides([], frames) == [None] * 4
    assert align_slides(pages, []) == []


def test_of_equal_pages_the_next_one_is_taken(tmp_path: Path) -> None:
    pages = [SlideImage("A slide that is there twice", None)] * 2 + [SlideImage(TEXTS[0], None)]
    frame = SlideImage("A slide that is there twice", None)
    assert align_slides(pages, [frame, frame, SlideImage(TEXTS[0], None)]) == [0, 1, 2]
