"""Damaged or malicious videos: slides are found where possible, else there is an error code."""

import json
import pickle
from dataclasses import asdict
from pathlib import Path

import numpy
import pytest

from secretary.core.errors import (
    FileCorrupt,
    FileTooLarge,
    InvalidParameters,
    ProcessingTimeout,
    UnsupportedFile,
)
from secretary.media.probe import VideoTrack
from secretary.media.slide_detection import scan_window, select_slides
from secretary.media.slides import Slide, SlideCandidate, read_slide

from .. import hostile_videos
from ..video_files import ffmpeg, film, five_slides, save_slides, shown, slide

TRACK = VideoTrack(stream=0, codec="h264", width=640, height=360)


def slides_of(path: Path) -> list[Slide]:
    return select_slides(
        [scan_window(str(path), TRACK, 0, 30), scan_window(str(path), TRACK, 30, 60)]
    )


def titles_of(path: Path, slides: list[Slide], into: Path) -> list[str]:
    save_slides(path, TRACK, slides, into)
    texts = [read_slide(f"{into}/{one.file_name}", one, languages="en") for one in slides]
    return [text.partition("\n")[0] for text in texts]


def test_a_single_pixel_is_one_frame_without_text(tmp_path: Path) -> None:
    path = hostile_videos.one_pixel(tmp_path / "a.mkv")
    slides = slides_of(path)
    assert titles_of(path, slides, tmp_path) == [""]


def test_a_single_frame_is_one_slide(tmp_path: Path) -> None:
    path = hostile_videos.one_frame(tmp_path / "a.mp4")
    slides = slides_of(path)
    assert titles_of(path, slides, tmp_path) == ["The harvest of 1987"]


def test_a_video_that_is_cut_off_shows_what_is_left(tmp_path: Path) -> None:
    path = hostile_videos.cut_off(tmp_path / "a.mkv")
    slides = slides_of(path)
    assert titles_of(path, slides, tmp_path) == ["The harvest of 1987", "Costs of heating"]


def test_a_video_that_claims_to_last_a_year_ends_where_it_ends(tmp_path: Path) -> None:
    path = hostile_videos.a_year_long(tmp_path / "a.mp4")
    assert [one.time for one in slides_of(path)] == [0, 3, 6]
    late = scan_window(str(path), TRACK, 30_000_000, 30_000_300)
    assert late.is_empty
    assert not late.candidates


def test_damaged_pictures_are_no_reason_to_fail(tmp_path: Path) -> None:
    path = hostile_videos.damaged(tmp_path / "a.mp4")
    slides = slides_of(path)
    assert 1 <= len(save_slides(path, TRACK, slides, tmp_path)) <= 20


def test_a_video_without_any_picture_inside_is_corrupt(tmp_path: Path) -> None:
    path = hostile_videos.no_pictures_inside(tmp_path / "a.mp4")
    with pytest.raises(FileCorrupt, match="cannot be decoded"):
        slides_of(path)


def test_pictures_that_change_their_size_are_found_where_they_are(tmp_path: Path) -> None:
    """The timestamps restart in the middle of the file: seeking would lead elsewhere."""
    path = hostile_videos.growing(tmp_path / "a.ts")
    slides = slides_of(path)
    titles = ["The harvest of 1987", "Costs of heating", "The library", "Objections"]
    assert titles_of(path, slides, tmp_path) == titles


def test_pictures_beyond_all_screens_are_too_large(tmp_path: Path) -> None:
    path = hostile_videos.one_frame(tmp_path / "a.mp4")
    large = VideoTrack(stream=0, codec="h264", width=16_384, height=16_384)
    with pytest.raises(FileTooLarge, match="16384 x 16384"):
        scan_window(str(path), large, 0, 30)


def test_pictures_larger_than_declared_are_not_decoded(tmp_path: Path) -> None:
    huge = numpy.zeros((6_200, 6_200), numpy.uint8)
    path = film(tmp_path / "a.avi", [huge], options=("-c:v", "rawvideo"))
    with pytest.raises(FileCorrupt):
        scan_window(str(path), TRACK, 0, 30)


def test_a_long_narrow_picture_is_drawn_within_the_limit(tmp_path: Path) -> None:
    narrow = numpy.full((4, 4_000), 200, numpy.uint8)
    path = film(tmp_path / "a.mkv", [narrow] * 16, options=("-c:v", "ffv1"))
    drawn = save_slides(path, TRACK, slides_of(path), tmp_path)
    assert drawn == [(1920, 2)]


def test_a_video_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", shown(five_slides(), [20] * 5))
    with pytest.raises(ProcessingTimeout):
        scan_window(str(path), TRACK, 0, 100, timeout_s=0.01)


@pytest.mark.parametrize("borders", [(5, 5), (-1, 5), (0, 100_000)])
def test_a_window_that_cannot_be_is_refused(tmp_path: Path, borders: tuple[float, float]) -> None:
    path = hostile_videos.one_frame(tmp_path / "a.mp4")
    with pytest.raises(InvalidParameters):
        scan_window(str(path), TRACK, *borders)


def test_what_is_no_video_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_text("#EXTM3U\nfile:///etc/passwd\n")
    with pytest.raises(UnsupportedFile):
        scan_window(str(path), TRACK, 0, 30)


def test_pictures_that_flicker_all_the_time_give_few_frames(tmp_path: Path) -> None:
    """Two alternating slides, each for less than a second."""
    one, two = five_slides(320)[:2]
    path = film(tmp_path / "a.mp4", shown([one, two] * 30, [0.5] * 60))
    assert 1 <= len(slides_of(path)) <= 2


@pytest.mark.parametrize("pixels", ["yuv444p10le", "yuv422p", "gray", "gbrp", "pal8"])
def test_pixels_of_any_format_are_drawn(tmp_path: Path, pixels: str) -> None:
    made = film(tmp_path / "a.mkv", shown([slide("Pixels")], [3]), options=("-c:v", "ffv1"))
    path = tmp_path / "b.mkv"
    codec = "png" if pixels == "pal8" else "ffv1"
    ffmpeg("-i", str(made), "-pix_fmt", pixels, "-c:v", codec, str(path))
    assert titles_of(path, slides_of(path), tmp_path) == ["Pixels"]


def test_what_was_seen_can_be_handed_on_and_kept_as_json(tmp_path: Path) -> None:
    seen = scan_window(str(hostile_videos.one_frame(tmp_path / "a.mp4")), TRACK, 0, 30)
    again = [SlideCandidate(**one) for one in json.loads(json.dumps(asdict(seen)))["candidates"]]
    assert tuple(again) == seen.candidates
    assert pickle.loads(pickle.dumps(seen)) == seen
