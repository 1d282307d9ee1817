"""Sound as Whisper models see it: how loud each band of pitch is, a hundred times a second."""

import functools

import numpy as np

from .speech import RATE

#: A model looks at 30 seconds at a time, less is filled up with silence.
SECONDS = 30
_FRAMES = SECONDS * 100
_HOP, _WIDTH = 160, 400
#: What is weaker than the loudest by so many powers of ten counts as silence.
_RANGE = 8.0
_FAINTEST = 1e-10


def log_mel(sound: np.ndarray, bands: int) -> np.ndarray:
    """`bands` x 3000 values of up to 30 seconds; what is longer is cut off."""
    sound = sound[: SECONDS * RATE].astype(np.float32)
    seen = -(-len(sound) // _HOP)
    padded = np.pad(sound, (_WIDTH // 2, seen * _HOP - len(sound) + _WIDTH // 2))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WIDTH)[::_HOP][:seen]
    window = np.hanning(_WIDTH + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(frames * window, axis=1).astype(np.complex64)) ** 2
    loudness = np.full((bands, _FRAMES), np.log10(_FAINTEST), np.float32)
    loudness[:, :seen] = np.log10(np.maximum(_filters(bands) @ power.T, _FAINTEST))
    floor = loudness.max(initial=np.log10(_FAINTEST)) - _RANGE
    return np.ascontiguousarray((np.maximum(loudness, floor) + 4) / 4, np.float32)


@functools.cache
def _filters(bands: int) -> np.ndarray:
    """Triangles over the spectrum, evenly spaced on Slaney's scale of pitch, of equal area."""
    corners = _hertz(np.linspace(0, _pitch(np.array(RATE / 2)), bands + 2))
    low, middle, high = (corners[i : bands + i, None] for i in range(3))
    spectrum = np.fft.rfftfreq(_WIDTH, 1 / RATE)[None, :]
    rising, falling = (spectrum - low) / (middle - low), (high - spectrum) / (high - middle)
    triangles = np.maximum(0, np.minimum(rising, falling)) * 2 / (high - low)
    return np.asarray(triangles, np.float32)


def _pitch(hertz: np.ndarray) -> np.ndarray:
    return np.where(
        hertz < 1000,
        hertz * 3 / 200,
        15 + np.log(np.maximum(hertz, 1000) / 1000) * 27 / np.log(6.4),
    )


def _hertz(pitch: np.ndarray) -> np.ndarray:
    return np.where(pitch < 15, pitch * 200 / 3, 1000 * np.exp((pitch - 15) * np.log(6.4) / 27))
