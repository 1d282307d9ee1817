"""Voice activity detection: finds where a recording may contain speech, relative to the noise floor
around it.

The signal is split into 13 frequency bands, and the 10th percentile of the surrounding 35 seconds
is each band's noise floor. Steady tones, such as beeps, are no speech: engines transcribe them.
"""

from collections import deque
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from .chunking import Chunk, Span, build_chunks, join_over_gaps
from .engines import SAMPLE_RATE

#: Seconds per frame.
FRAME = 0.02
_HOP, _WIDTH = round(SAMPLE_RATE * FRAME), 512
#: Edges of the frequency bands in hertz: in noise, a voice stands out in some of them only.
_BAND_EDGES = (100, 200, 300, 420, 560, 740, 960, 1240, 1600, 2050, 2600, 3300, 4200, 5500)
_LOUDEST_BANDS = 5
#: Decibels; anything quieter is silence.
_SILENCE = -85.0
#: Frames per block of five seconds. Memory does not grow with the length of the recording.
_BLOCK = round(5 / FRAME)
#: The noise floor of a block is this quantile of the block and of three on each side.
_BLOCKS_AROUND, _NOISE_QUANTILE = 3, 0.1
#: Decibels above the noise floor; steady noise stays below 4. For clear speech the threshold is a
#: share of its own level (a quantile). Too much is better than too little: the engine decides.
_MARGIN, _LEVEL_SHARE, _LEVEL_QUANTILE = 4.2, 0.2, 0.98
#: Seconds: shorter activity is a click, a shorter gap is part of a word.
_SHORTEST, _GAP = 0.1, 0.12
#: Seconds: longer speech without a pause is split where it is quietest.
_LONGEST = 14.0

#: A frame is tonal if one or two frequencies have this share of its power. Active frames are a
#: tone, and no speech, if so many of the loud ones are tonal, and nearly all of these at the same
#: frequency: voices change it all the time. In FFT bins, each of 31 Hz.
_TONAL_SHARE, _TONAL_FRAMES, _SAME_PITCH, _PITCH_RANGE = 0.97, 0.6, 0.9, 0.1
#: Decibels below the loudest frame: quieter ones are its surroundings.
_LOUD = 30.0
#: Bins on each side of the peak of a tone; the lowest bin in use is at 94 Hz.
_PEAK_BINS, _LOWEST_BIN = 2, 3


def split_into_chunks(pcm_path: str) -> list[Chunk]:
    """Return the chunks of a recording that contain speech."""
    return build_chunks(*detect_speech(Path(pcm_path)))


def detect_speech(pcm_path: Path) -> tuple[float, list[Span]]:
    """Find speech in PCM as `media.pcm` writes it. Return the seconds of audio, and the speech in
    order: no span is longer than 14 seconds, and two may touch."""
    duration = pcm_path.stat().st_size // 2 / SAMPLE_RATE
    tones: list[np.ndarray] = []
    levels = np.concatenate([np.zeros(0, np.float32), *_levels(_blocks(pcm_path, tones))])
    frames = np.concatenate([np.zeros((0, 2), np.float32), *tones])
    spans = [
        Span(round(part_start * FRAME, 2), round(min(part_end * FRAME, duration), 2))
        for start, end in _active_runs(levels)
        if not _is_tone(frames[start:end])
        for part_start, part_end in _split(levels, start, end)
    ]
    return duration, spans


def _blocks(pcm_path: Path, tones: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield decibels by frame and band, one block at a time. Append what `_pitches` returns to
    `tones`."""
    previous: np.ndarray = np.zeros(_WIDTH - _HOP, np.float32)
    window, weights = np.hanning(_WIDTH).astype(np.float32), _band_weights()
    with pcm_path.open("rb") as file:
        while len(data := file.read(_BLOCK * _HOP * 2)) > 1:
            samples = np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.float32) / 32768
            padding = np.zeros(-len(samples) % _HOP, np.float32)
            samples = np.concatenate([previous, samples, padding])
            previous = samples[_HOP - _WIDTH :]
            frames = np.lib.stride_tricks.sliding_window_view(samples, _WIDTH)[::_HOP]
            spectrum = np.fft.rfft(frames * window, axis=1)
            power = spectrum.real**2 + spectrum.imag**2
            tones.append(_pitches(power))
            decibels = np.maximum(10 * np.log10(np.maximum(power @ weights, 1e-12)), _SILENCE)
            # Averaged over a tenth of a second: in noise a single frame says little.
            padded = np.pad(decibels, ((2, 2), (0, 0)), mode="edge")
            yield np.asarray(sum(padded[shift : shift + len(decibels)] for shift in range(5)) / 5)


def _pitches(power: np.ndarray) -> np.ndarray:
    """Decibels of each frame, and the bin of its strongest frequency if it is tonal, else NaN."""
    power = np.maximum(power[:, _LOWEST_BIN:], 1e-12)
    rows, bins = np.arange(len(power)), power.shape[1]
    padded = np.pad(power, ((0, 0), (_PEAK_BINS, _PEAK_BINS)))
    peaks = np.asarray(sum(padded[:, at : at + bins] for at in range(2 * _PEAK_BINS + 1)))
    total = power.sum(axis=1)
    peak = np.clip(power.argmax(axis=1), 1, bins - 2)
    share = peaks[rows, peak] / total
    overlapping = peak[:, None] + np.arange(-2 * _PEAK_BINS, 2 * _PEAK_BINS + 1)
    peaks[rows[:, None], np.clip(overlapping, 0, bins - 1)] = 0.0
    share += peaks.max(axis=1) / total
    # The maximum of a parabola through the peak and its neighbours.
    before, middle, after = (np.log(power[rows, peak + shift]) for shift in (-1, 0, 1))
    bend = np.minimum(before - 2 * middle + after, -1e-6)
    pitch = peak + np.clip((before - after) / (2 * bend), -1, 1)
    pitch[share < _TONAL_SHARE] = np.nan
    return np.stack([10 * np.log10(total), pitch], axis=1)


def _is_tone(frames: np.ndarray) -> bool:
    """Whether active frames are one tone, steady or in beeps; `frames` are as `_pitches` returns
    them."""
    decibels, pitch = frames.T
    loud = pitch[decibels > decibels.max() - _LOUD]
    tonal = loud[~np.isnan(loud)]
    if len(tonal) < _TONAL_FRAMES * len(loud):
        return False
    same = np.abs(tonal - np.median(tonal)) <= _PITCH_RANGE
    return bool(same.mean() >= _SAME_PITCH)


def _band_weights() -> np.ndarray:
    frequencies = np.fft.rfftfreq(_WIDTH, 1 / SAMPLE_RATE)
    bands = [(frequencies >= low) & (frequencies < high) for low, high in pairwise(_BAND_EDGES)]
    inside = np.stack(bands)
    # White noise has the same decibels in each band as its samples have.
    weights: np.ndarray = inside / inside.sum(axis=1, keepdims=True) / (_WIDTH * 3 / 8)
    return np.asarray(weights.T, np.float32)


def _levels(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the decibels of each frame above the noise floor, one block at a time."""
    width = 2 * _BLOCKS_AROUND + 1
    around: deque[np.ndarray | None] = deque([None] * width, width)
    for block in chain(blocks, [None] * _BLOCKS_AROUND):
        around.append(block)
        middle = around[_BLOCKS_AROUND]
        if middle is not None:
            decibels = np.concatenate([each for each in around if each is not None])
            rank = int(_NOISE_QUANTILE * len(decibels))
            noise_floor = np.partition(decibels, rank, axis=0)[rank]
            loudest: np.ndarray = np.sort(middle - noise_floor, axis=1)[:, -_LOUDEST_BANDS:]
            yield np.asarray(loudest.mean(axis=1))


def _active_runs(levels: np.ndarray) -> list[tuple[int, int]]:
    """Return runs of active frames without clicks, joined over short gaps."""
    thresholds = np.empty_like(levels)
    reach = _BLOCKS_AROUND * _BLOCK
    for start in range(0, len(levels), _BLOCK):
        end = start + _BLOCK
        speech = np.quantile(levels[max(0, start - reach) : end + reach], _LEVEL_QUANTILE)
        thresholds[start:end] = max(_MARGIN, _LEVEL_SHARE * speech)
    active = levels > thresholds
    changes = np.flatnonzero(np.diff(active.astype(np.int8), prepend=0, append=0))
    runs = [(int(start), int(end)) for start, end in changes.reshape(-1, 2)]
    joined = join_over_gaps(runs, _GAP / FRAME)
    return [(start, end) for start, end in joined if end - start >= _SHORTEST / FRAME]


def _split(levels: np.ndarray, start: int, end: int) -> list[tuple[int, int]]:
    """Split in two where it is quietest, until no part is too long."""
    longest = round(_LONGEST / FRAME)
    if end - start <= longest:
        return [(start, end)]
    margin = longest // 4  # a cut near an end would gain nothing
    quietest = start + margin + int(np.argmin(levels[start + margin : end - margin]))
    return [*_split(levels, start, quietest), *_split(levels, quietest, end)]
