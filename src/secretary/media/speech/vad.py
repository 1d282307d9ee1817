"""Where in a recording somebody may be speaking: what stands out of the background around it."""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from .chunking import Chunk, Span, SpeechActivity, build_chunks
from .engines import SAMPLE_RATE

#: One value for so many seconds of sound.
FRAME = 0.02
_HOP, _WIDTH = round(SAMPLE_RATE * FRAME), 512
#: Bands of pitch, in hertz: in noise a voice stands out of some of them only.
_BANDS = (100, 200, 300, 420, 560, 740, 960, 1240, 1600, 2050, 2600, 3300, 4200, 5500)
_LOUDEST_BANDS = 5
#: Decibels below which all is silence, also where it is uneven.
_SILENCE = -85.0
#: Read at a time, in frames of five seconds. Memory does not grow with the length of the sound.
_STRETCH = round(5 / FRAME)
#: The background of a stretch is what the stillest tenth of it and of three on each side is.
_AROUND, _BACKGROUND = 3, 0.1
#: Decibels above it; steady noise stays below 4. Where speech is clear, a share of its own
#: height. Better too much than too little: the engine has the last word.
_MARGIN, _SHARE, _LOUD = 4.2, 0.2, 0.98
#: Seconds: what is shorter is a click, and a shorter gap is a part of a word.
_SHORTEST, _GAP = 0.1, 0.12
#: What never pauses for so long is parted where it is stillest.
_LONGEST = 14.0


def detect_speech(sound_path: Path) -> SpeechActivity:
    """In raw sound: signed 16-bit little-endian, 16 kHz, one channel."""
    duration = sound_path.stat().st_size // 2 / SAMPLE_RATE
    heights = np.concatenate([np.zeros(0, np.float32), *_heights(_stretches(sound_path))])
    spans = [
        Span(round(part_start * FRAME, 2), round(min(part_end * FRAME, duration), 2))
        for start, end in _active(heights)
        for part_start, part_end in _parted(heights, start, end)
    ]
    return SpeechActivity(duration, tuple(spans))


def split_into_chunks(sound_path: str) -> list[Chunk]:
    """Where somebody speaks, in pieces that are listened to one by one."""
    return build_chunks(detect_speech(Path(sound_path)))


def _stretches(sound_path: Path) -> Iterator[np.ndarray]:
    """Decibels, frames x bands, a stretch at a time."""
    before: np.ndarray = np.zeros(_WIDTH - _HOP, np.float32)
    window, weights = np.hanning(_WIDTH).astype(np.float32), _band_weights()
    with sound_path.open("rb") as file:
        while len(block := file.read(_STRETCH * _HOP * 2)) > 1:
            sound = np.frombuffer(block[: len(block) // 2 * 2], "<i2").astype(np.float32) / 32768
            sound = np.concatenate([before, sound, np.zeros(-len(sound) % _HOP, np.float32)])
            before = sound[_HOP - _WIDTH :]
            frames = np.lib.stride_tricks.sliding_window_view(sound, _WIDTH)[::_HOP]
            spectrum = np.fft.rfft(frames * window, axis=1)
            power = (spectrum.real**2 + spectrum.imag**2) @ weights
            yield _smoothed(np.maximum(10 * np.log10(np.maximum(power, 1e-12)), _SILENCE))


def _band_weights() -> np.ndarray:
    pitch = np.fft.rfftfreq(_WIDTH, 1 / SAMPLE_RATE)
    inside = np.stack([(pitch >= low) & (pitch < high) for low, high in pairwise(_BANDS)])
    # So that noise over all of them has the same decibels in each as its samples have.
    weights: np.ndarray = inside / inside.sum(axis=1, keepdims=True) / (_WIDTH * 3 / 8)
    return np.asarray(weights.T, np.float32)


def _heights(stretches: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Decibels above the background, for each frame."""
    around: deque[np.ndarray] = deque()
    middle = 0
    for stretch in stretches:
        around.append(stretch)
        if len(around) <= _AROUND:
            continue
        yield _height(around, middle)
        if middle == _AROUND:
            around.popleft()
        else:
            middle += 1
    for place in range(middle, len(around)):
        yield _height(around, place)


def _height(around: "deque[np.ndarray]", place: int) -> np.ndarray:
    levels = np.concatenate(around)
    rank = int(_BACKGROUND * len(levels))
    background = np.partition(levels, rank, axis=0)[rank]
    above: np.ndarray = np.sort(around[place] - background, axis=1)[:, -_LOUDEST_BANDS:]
    return np.asarray(above.mean(axis=1))


def _smoothed(levels: np.ndarray) -> np.ndarray:
    """Over a tenth of a second: a frame by itself says little in noise."""
    edged = np.pad(levels, ((2, 2), (0, 0)), mode="edge")
    return np.asarray(sum(edged[late : late + len(levels)] for late in range(5)) / 5)


def _active(heights: np.ndarray) -> list[tuple[int, int]]:
    """Runs of frames, without clicks and over short gaps."""
    runs: list[tuple[int, int]] = []
    for start, end in _runs(heights > _thresholds(heights)):
        if runs and start - runs[-1][1] < _GAP / FRAME:
            runs[-1] = runs[-1][0], end
        else:
            runs.append((start, end))
    return [run for run in runs if run[1] - run[0] >= _SHORTEST / FRAME]


def _thresholds(heights: np.ndarray) -> np.ndarray:
    thresholds = np.empty_like(heights)
    reach = _AROUND * _STRETCH
    for start in range(0, len(heights), _STRETCH):
        end = start + _STRETCH
        loud = np.quantile(heights[max(0, start - reach) : end + reach], _LOUD)
        thresholds[start:end] = max(_MARGIN, _SHARE * loud)
    return thresholds


def _runs(loud: np.ndarray) -> list[tuple[int, int]]:
    changes = np.flatnonzero(np.diff(loud.astype(np.int8), prepend=0, append=0))
    return [(int(start), int(end)) for start, end in changes.reshape(-1, 2)]


def _parted(heights: np.ndarray, start: int, end: int) -> list[tuple[int, int]]:
    """In two, and those again, until none is too long."""
    longest = round(_LONGEST / FRAME)
    if end - start <= longest:
        return [(start, end)]
    # Not near its ends: there nothing would be won.
    margin = longest // 4
    stillest = start + margin + int(np.argmin(heights[start + margin : end - margin]))
    return [*_parted(heights, start, stillest), *_parted(heights, stillest, end)]
