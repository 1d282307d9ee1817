"""Voice activity detection."""

from pathlib import Path

import numpy as np
import pytest

from secretary.media.speech.engines import SAMPLE_RATE
from secretary.media.speech.vad import detect_speech

from ..speech import needs, noise, over_the_telephone, read_aloud, silence, written

time = np.arange(20 * SAMPLE_RATE) / SAMPLE_RATE
STEADY = {
    "silence": silence(20),
    "hiss": np.random.default_rng(0).standard_normal(20 * SAMPLE_RATE) * 0.1,
    "faint hiss": np.random.default_rng(0).standard_normal(20 * SAMPLE_RATE) * 0.001,
    "a room": noise(20, 0.1),
    "a tone": 0.3 * np.sin(2 * np.pi * 440 * time),
    "hum": 0.2 * np.sin(2 * np.pi * 50 * time),
}


def detected_speech(sound: np.ndarray, directory: Path) -> list[tuple[float, float]]:
    _, speech = detect_speech(written(sound, directory / "sound.raw"))
    return list(speech)


@pytest.mark.parametrize("name", STEADY)
def test_nobody_speaks_in(name: str, tmp_path: Path) -> None:
    # A tone's start and end may be detected, but too briefly to count as speech.
    assert sum(end - start for start, end in detected_speech(STEADY[name], tmp_path)) < 0.2


def beeps(*frequencies: float, on: float = 0.3, off: float = 0.7, level: float = 0.3) -> np.ndarray:
    tone = sum(np.sin(2 * np.pi * frequency * time) for frequency in frequencies)
    return np.asarray(level * tone * (time % (on + off) < on))


TONES = {
    "a tone": STEADY["a tone"],
    "a tone after silence": np.concatenate([silence(5), STEADY["a tone"], silence(5)]),
    "beeps": beeps(1000),
    "high beeps": beeps(3150, on=0.15, off=0.25),
    "dialling": beeps(770, 1336, on=0.1, off=0.1, level=0.2),
    "beeps in a room": beeps(880) + noise(20, 0.005),
}


@pytest.mark.parametrize("name", TONES)
def test_a_tone_is_no_speech(name: str, tmp_path: Path) -> None:
    """Engines transcribe it as "Beep"."""
    assert detected_speech(TONES[name], tmp_path) == []


@needs("flite")
def test_speech_beside_beeps_is_found(tmp_path: Path) -> None:
    sound, expected = conversation()
    with_beeps = sound.copy()
    for start, end in expected:
        for at in (start - 1.0, end + 0.3):
            beep = slice(round(at * SAMPLE_RATE), round((at + 0.5) * SAMPLE_RATE))
            with_beeps[beep] += 0.5 * np.sin(2 * np.pi * 1000 * time[: beep.stop - beep.start])
    plain, found = detected_speech(sound, tmp_path), detected_speech(with_beeps, tmp_path)
    seconds = sum(end - start for start, end in plain)
    assert sum(end - start for start, end in found) == pytest.approx(seconds, rel=0.1)
    for start, end in expected:
        assert any(abs(one - start) < 0.3 for one, _ in found), found
        assert any(abs(one - end) < 0.3 for _, one in found), found


@pytest.mark.parametrize("size", [0, 1, 2, 100, 639, 641])
def test_hardly_any_sound_is_none(size: int, tmp_path: Path) -> None:
    path = tmp_path / "sound.raw"
    path.write_bytes(b"\0" * size)
    assert detect_speech(path) == (size // 2 / SAMPLE_RATE, [])


SAID = ["The train leaves at nine.", "Please bring your own lunch.", "Nobody knows the answer yet."]


def conversation() -> tuple[np.ndarray, list[tuple[float, float]]]:
    parts, spans, at = [silence(5)], [], 5.0
    for text, voice, pause in zip(SAID, ("slt", "rms", "awb"), (2.0, 40.0, 7.0), strict=True):
        words = read_aloud(text, voice)
        spans.append((at, at + len(words) / SAMPLE_RATE))
        parts += [words, silence(pause)]
        at += len(words) / SAMPLE_RATE + pause
    return np.concatenate(parts), spans


@needs("flite")
@pytest.mark.parametrize("way", ["clean", "noisy", "quiet", "telephone"])
def test_speech_is_found_where_it_is(way: str, tmp_path: Path) -> None:
    sound, expected = conversation()
    if way == "noisy":
        sound = sound + noise(len(sound) / SAMPLE_RATE, 0.02)
    elif way == "quiet":
        sound = sound * 0.02
    elif way == "telephone":
        sound = over_the_telephone(sound)
    spans = detected_speech(sound, tmp_path)
    for start, end in expected:
        inside = [span for span in spans if span[0] < end and span[1] > start]
        assert inside[0][0] == pytest.approx(start, abs=0.15)
        assert inside[-1][1] == pytest.approx(end, abs=0.15)
    assert all(any(s < end and e > start for start, end in expected) for s, e in spans)


@needs("flite")
def test_speech_that_never_pauses_is_parted(tmp_path: Path) -> None:
    words = read_aloud("Around the rugged rock the ragged rascal ran")
    gapless = np.concatenate([words + noise(len(words) / SAMPLE_RATE, 0.0)] * 15)
    spans = detected_speech(gapless, tmp_path)
    assert max(end - start for start, end in spans) <= 14
    assert sum(end - start for start, end in spans) > 0.9 * len(gapless) / SAMPLE_RATE
