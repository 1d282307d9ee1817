"""Slides detected in generated videos, with known images at known times."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from secretary.media.probe import VideoTrack
from secretary.media.slide_detection import scan_window, select_slides
from secretary.media.slides import ScannedWindow, Slide, read_slide, windows

from ..video_files import (
    H264,
    faded,
    ffmpeg,
    film,
    five_slides,
    in_a_hall,
    save_slides,
    scene,
    shown,
    slide,
    with_speaker,
)

LENGTHS = (4.0, 2.5, 7.0, 3.0, 5.5)
STARTS = (0.0, 4.0, 6.5, 13.5, 16.5)


def track(width: int = 640, height: int = 360) -> VideoTrack:
    return VideoTrack(stream=0, codec="h264", width=width, height=height)


def slides_of(path: Path, seconds: float, *, window: float = 300.0) -> list[Slide]:
    return select_slides(seen_in(path, seconds, window=window))


def seen_in(path: Path, seconds: float, *, window: float = 300.0) -> list[ScannedWindow]:
    return [scan_window(str(path), track(), *borders) for borders in windows(seconds, window)]


def assert_times(slides: Sequence[Slide], times: Iterable[float], *, within: float = 0.5) -> None:
    assert [one.time for one in slides] == [pytest.approx(time, abs=within) for time in times]


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film(tmp_path_factory.mktemp("talk") / "talk.mp4", shown(five_slides(), LENGTHS))


def test_five_slides_are_found_at_their_times(talk: Path) -> None:
    slides = slides_of(talk, 22)
    assert_times(slides, STARTS)
    assert [one.end for one in slides] == [pytest.approx(end, abs=0.5) for end in (*STARTS[1:], 22)]
    assert [one.number for one in slides] == [1, 2, 3, 4, 5]
    assert all(one.time < one.at < one.end for one in slides)


def test_slides_are_drawn_and_read(talk: Path, tmp_path: Path) -> None:
    slides = slides_of(talk, 22)
    drawn = save_slides(talk, track(), slides, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"frame_{i:03d}.jpg" for i in range(1, 6)]
    assert drawn == [(640, 360)] * 5
    texts = [read_slide(f"{tmp_path}/{one.file_name}", one, languages="en") for one in slides]
    assert [text.splitlines()[0] for text in texts] == [
        "The harvest of 1987", "Costs of heating", "The library", "Objections",
        "Questions and answers",
    ]  # fmt: skip
    assert "240 additional books" in texts[2]


def test_a_speaker_in_the_corner_makes_no_slides(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", with_speaker(shown(five_slides(), LENGTHS)))
    slides = slides_of(path, 22)
    assert_times(slides, STARTS)
    save_slides(path, track(), slides, tmp_path)
    text = read_slide(f"{tmp_path}/frame_004.jpg", slides[3], languages="en")
    assert text.split("\n\n") == ["Objections", "Nobody objected to the repair"]


def test_slides_on_a_screen_in_a_hall_are_found(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", in_a_hall(shown(five_slides(), [6] * 5)))
    assert_times(slides_of(path, 30), [0, 6, 12, 18, 24])


def test_a_slide_that_fades_in_is_taken_when_it_stands(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", faded(five_slides(), 4, fade=1))
    slides = slides_of(path, 24)
    assert_times(slides, [0, 5, 10, 15, 20])
    assert all(one.at - one.time > 0.5 for one in slides)


def test_of_a_slide_that_is_built_up_the_fullest_state_is_kept(tmp_path: Path) -> None:
    lines = ("Apples were scarce", "Pears were not", "Plums were sold")
    steps = [slide("Harvest", *lines[:count]) for count in range(4)]
    path = film(tmp_path / "a.mp4", shown([*steps, *five_slides()[1:2]], [3, 2, 4, 5, 3]))
    slides = slides_of(path, 17)
    assert_times(slides, [0, 14])
    assert 9 < slides[0].at < 14
    save_slides(path, track(), slides, tmp_path)
    assert "Plums were sold" in read_slide(f"{tmp_path}/frame_001.jpg", slides[0])


def test_a_slide_that_comes_back_is_kept_once(tmp_path: Path) -> None:
    one, two, three, *_ = five_slides()
    path = film(tmp_path / "a.mp4", shown([one, two, one, three, two, one], [3] * 6))
    assert_times(slides_of(path, 18), [0, 3, 9])


def test_slides_that_differ_in_one_word_are_two(tmp_path: Path) -> None:
    one = slide("Results", "The first group was better", "The second was not")
    two = slide("Results", "The third group was better", "The second was not")
    path = film(tmp_path / "a.mp4", shown([one, two, one, two], [3] * 4))
    assert_times(slides_of(path, 12), [0, 3])


def test_a_talk_without_slides_gives_few_frames(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", scene(100))
    slides = slides_of(path, 100)
    assert 1 <= len(slides) <= 2
    assert all(one.is_scene for one in slides)


def test_slides_after_and_between_scenes_are_found(tmp_path: Path) -> None:
    one, two, *_ = five_slides(320)
    frames = [*scene(20), *shown([one], [6]), *scene(20, seed=2), *shown([two], [6])]
    slides = [x for x in slides_of(film(tmp_path / "a.mp4", frames), 52) if not x.is_scene]
    assert_times(slides, [20, 46])


def test_a_video_of_varying_frame_rate_is_timed_as_it_is_shown(talk: Path, tmp_path: Path) -> None:
    """It has only five frames: each window but the first begins without one."""
    path = tmp_path / "vfr.mkv"
    ffmpeg("-i", str(talk), "-vf", "mpdecimate=max=0", "-fps_mode", "vfr", *H264, str(path))
    assert_times(slides_of(path, 22, window=5), STARTS)


def test_slides_that_stand_for_longer_than_windows_are_found(tmp_path: Path) -> None:
    """Three frames, 70 seconds apart: most windows begin and end without one."""
    path = film(tmp_path / "a.mkv", five_slides()[:3], rate=1 / 70)
    slides = slides_of(path, 210, window=30)
    assert [(one.time, one.end) for one in slides] == [(0, 70), (70, 140), (140, 210)]
    save_slides(path, track(), slides, tmp_path)
    assert "Costs of heating" in read_slide(f"{tmp_path}/frame_002.jpg", slides[1])


def test_windows_find_what_one_look_finds(tmp_path: Path) -> None:
    pictures = [slide(f"Chapter {i}", f"What {i * 7919} means", width=320) for i in range(60)]
    path = film(tmp_path / "a.mp4", shown(pictures, [7, 13] * 30))
    whole = select_slides([scan_window(str(path), track(), 0, 600)])
    assert len(whole) == 60
    assert slides_of(path, 600, window=61) == whole


def test_more_slides_than_allowed_leave_those_that_stand_longest(talk: Path) -> None:
    assert_times(select_slides(seen_in(talk, 22), limit=2), [6.5, 16.5])


@pytest.mark.parametrize("turn", [90, 180])
def test_a_turned_video_is_drawn_upright(talk: Path, tmp_path: Path, turn: int) -> None:
    path = tmp_path / "turned.mp4"
    lying = "transpose=clock" if turn == 90 else "hflip,vflip"
    ffmpeg("-i", str(talk), "-vf", lying, *H264, str(tmp_path / "lying.mp4"))
    source = ("-display_rotation", str(turn), "-i", str(tmp_path / "lying.mp4"))
    ffmpeg(*source, "-c", "copy", str(path))
    slides = slides_of(path, 22)
    assert_times(slides, STARTS)
    drawn = save_slides(path, track(360, 640), slides[:1], tmp_path)
    assert drawn == [(640, 360)]
    assert "harvest of 1987" in read_slide(f"{tmp_path}/frame_001.jpg", slides[0])


def test_pixels_that_are_not_square_are_drawn_square(talk: Path, tmp_path: Path) -> None:
    path = tmp_path / "wide.mp4"
    ffmpeg("-i", str(talk), "-vf", "scale=480:360,setsar=4/3", *H264, str(path))
    drawn = save_slides(path, track(480, 360), slides_of(path, 22)[:1], tmp_path)
    assert drawn == [(640, 360)]


def test_large_pictures_are_made_smaller(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", shown(five_slides(2560)[:1], [3]))
    drawn = save_slides(path, track(2560, 1440), slides_of(path, 3), tmp_path)
    assert drawn == [(1920, 1080)]


def test_windows_cover_a_video_evenly() -> None:
    assert windows(10) == [(0, 10)]
    assert windows(600) == [(0, 300), (300, 600)]
    assert windows(460) == [(0, 230), (230, 460)]
