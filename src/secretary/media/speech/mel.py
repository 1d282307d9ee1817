"""Log mel spectrograms, the input of Whisper models. Apart from `whisper`, so that only processes
that transcribe import numpy."""

import functools

import numpy as np

from .engines import SAMPLE_RATE

#: Seconds that a model sees at a time; shorter clips are padded with silence.
SECONDS = 30
_FRAMES = SECONDS * 100
_HOP, _WIDTH = 160, 400
#: Powers of ten below the loudest value at which the spectrogram is cut off.
_DYNAMIC_RANGE = 8.0
_MIN_POWER = 1e-10


def log_mel(samples: np.ndarray, bands: int) -> np.ndarray:
    """Return the log mel spectrogram, `bands` x 3000, of up to 30 seconds."""
    samples = samples[: SECONDS * SAMPLE_RATE].astype(np.float32)
    count = -(-len(samples) // _HOP)
    padded = np.pad(samples, (_WIDTH // 2, count * _HOP - len(samples) + _WIDTH // 2))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WIDTH)[::_HOP][:count]
    window = np.hanning(_WIDTH + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(frames * window, axis=1).astype(np.complex64)) ** 2
    log_power = np.full((bands, _FRAMES), np.log10(_MIN_POWER), np.float32)
    log_power[:, :count] = np.log10(np.maximum(_mel_filters(bands) @ power.T, _MIN_POWER))
    floor = log_power.max(initial=np.log10(_MIN_POWER)) - _DYNAMIC_RANGE
    return np.ascontiguousarray((np.maximum(log_power, floor) + 4) / 4, np.float32)


@functools.cache
def _mel_filters(bands: int) -> np.ndarray:
    """Triangular filters of equal area, evenly spaced on Slaney's mel scale."""
    corners = _mel_to_hertz(np.linspace(0, _hertz_to_mel(np.array(SAMPLE_RATE / 2)), bands + 2))
    low, middle, high = (corners[i : bands + i, None] for i in range(3))
    frequencies = np.fft.rfftfreq(_WIDTH, 1 / SAMPLE_RATE)[None, :]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    triangles = np.maximum(0, np.minimum(rising, falling)) * 2 / (high - low)
    return np.asarray(triangles, np.float32)


def _hertz_to_mel(hertz: np.ndarray) -> np.ndarray:
    return np.where(
        hertz < 1000,
        hertz * 3 / 200,
        15 + np.log(np.maximum(hertz, 1000) / 1000) * 27 / np.log(6.4),
    )


def _mel_to_hertz(mel: np.ndarray) -> np.ndarray:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
