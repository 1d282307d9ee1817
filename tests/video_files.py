"""Test videos: slides with printed text, a speaker beside them, moving scenes."""

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path

import imageio_ffmpeg
import numpy
from numpy.typing import NDArray
from PIL import Image

from secretary.media.probe import VideoTrack
from secretary.media.slides import Slide, save_slide

from .rendered_pages import Print, sheet

Picture = NDArray[numpy.uint8]

#: The frame rate of generated videos.
RATE = 8
H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-crf", "23", "-pix_fmt", "yuv420p")


def slide(title: str, *lines: str, width: int = 640, is_dark: bool = False) -> Picture:
    """Black on white, in the proportions of a screen."""
    prints = [Print(30, 50, title, 24)]
    prints += [Print(40, 90 + 32 * i, line, 18) for i, line in enumerate(lines)]
    picture = sheet(prints, width=480, height=270, dpi=72 * width / 480)
    grey = numpy.asarray(picture.resize((width, width * 9 // 16)), numpy.uint8)
    return 255 - grey if is_dark else grey


def five_slides(width: int = 640) -> list[Picture]:
    return [
        slide("The harvest of 1987", "Apples were scarce", "Pears were not", width=width),
        slide("Costs of heating", "A modern boiler", "A new roof", "Seven years", width=width),
        slide("The library", "240 additional books", "An invoice", width=width, is_dark=True),
        slide("Objections", "Nobody objected to the repair", width=width),
        slide("Questions and answers", "Thank you for listening", width=width),
    ]


def shown(pictures: Sequence[Picture], seconds: Sequence[float]) -> Iterator[Picture]:
    for picture, length in zip(pictures, seconds, strict=True):
        for _ in range(round(length * RATE)):
            yield picture


def faded(pictures: Sequence[Picture], seconds: float, *, fade: float) -> Iterator[Picture]:
    """Each for some seconds, with a cross-fade in between."""
    steps = round(fade * RATE)
    for before, after in pairwise(pictures):
        yield from shown([before], [seconds])
        for step in range(1, steps):
            share = step / steps
            yield (before * (1 - share) + after * share).astype(numpy.uint8)
    yield from shown(pictures[-1:], [seconds])


def with_speaker(frames: Iterable[Picture], *, seed: int = 5) -> Iterator[Picture]:
    """A quarter of the width and height, at the bottom right: a head that never keeps still."""
    for frame, filmed in zip(frames, scene(10_000, seed=seed), strict=False):
        height, width = frame.shape
        small = Image.fromarray(filmed).resize((width // 4, height // 4))
        together = frame.copy()
        together[-(height // 4) :, -(width // 4) :] = numpy.asarray(small)
        yield together


def in_a_hall(frames: Iterable[Picture]) -> Iterator[Picture]:
    """On a screen filmed from a tripod; below it, the speaker sways."""
    chance = numpy.random.default_rng(3)
    for index, frame in enumerate(frames):
        height, width = frame.shape
        picture = next(scene(1, width=width)).copy()
        screen = numpy.asarray(Image.fromarray(frame).resize((width // 2, height // 2)))
        picture[10 : 10 + height // 2, width // 4 : width // 4 + width // 2] = screen
        left = round((8 + numpy.sin(index / 3)) * width * 0.05)
        picture[-height // 3 :, left : left + width // 10] = 30
        noise = chance.integers(-3, 4, picture.shape)
        yield (picture + noise).clip(0, 255).astype(numpy.uint8)


def scene(seconds: float, *, width: int = 320, seed: int = 1) -> Iterator[Picture]:
    """Drifting waves of light and dark, as seen by a moving camera."""
    chance = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:45, 0:80] / 80
    waves, speeds = chance.uniform(-30, 30, (6, 2)), chance.uniform(1, 6, 6)
    for index in range(round(seconds * RATE)):
        phases = [
            numpy.sin(a * x + b * y + speed * index / RATE)
            for (a, b), speed in zip(waves, speeds, strict=True)
        ]
        small = (128 + 20 * numpy.sum(phases, axis=0)).clip(0, 255).astype(numpy.uint8)
        yield numpy.asarray(Image.fromarray(small).resize((width, width * 9 // 16)))


def film(
    path: Path,
    frames: Iterable[Picture],
    *,
    rate: float = RATE,
    options: Sequence[str] = H264,
) -> Path:
    frames = iter(frames)
    first = next(frames)
    height, width = first.shape
    command = [
        *(imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y"),
        *("-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{width}x{height}", "-r", str(rate)),
        *("-i", "pipe:0", *options, str(path)),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for frame in chain([first], frames):
            process.stdin.write(frame.tobytes())
        process.stdin.close()
    assert process.returncode == 0
    return path


def ffmpeg(*arguments: str) -> None:
    subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *arguments], check=True)


def save_slides(
    path: Path, track: VideoTrack, slides: Sequence[Slide], directory: Path
) -> list[tuple[int, int]]:
    """Save the slides by their file names, and return the size of each image."""
    sizes = []
    for one in slides:
        save_slide(str(path), track, one, f"{directory}/{one.file_name}")
        with Image.open(directory / one.file_name) as image:
            sizes.append(image.size)
    return sizes
