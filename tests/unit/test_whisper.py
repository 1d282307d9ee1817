"""Whisper by itself: what it supports, what it rejects, and what it makes of silence."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from secretary.core.errors import EngineUnavailable
from secretary.media.speech.engines import SAMPLE_RATE, open_speech_engine
from secretary.media.speech.whisper import MODEL_PACKAGE, Whisper

from ..speech import BECKETT, noise, real_voice, silence, tones, word_error_rate

time = np.arange(10 * SAMPLE_RATE) / SAMPLE_RATE
NOTHING = {
    "silence": silence(10),
    "hiss": np.random.default_rng(0).standard_normal(10 * SAMPLE_RATE).astype(np.float32) * 0.1,
    "a room": noise(10, 0.1),
    "a tone": 0.3 * np.sin(2 * np.pi * 440 * time),
    "hum": 0.1 * np.sin(2 * np.pi * 50 * time),
    "a slow tune": tones(10, (220, 277, 330, 440), 0.9),
    "a quick tune": tones(10, (440, 494, 523, 587, 659, 784), 0.25),
    "signals": 0.3 * np.sin(2 * np.pi * 1000 * time) * (time % 2 < 0.4),
}


def test_the_model_of_the_default_install_understands_english_only() -> None:
    assert open_speech_engine(None).languages() == ("en",)


def test_an_engine_is_opened_once() -> None:
    assert open_speech_engine(None) is open_speech_engine(None)


def test_to_ask_for_languages_and_version_loads_nothing() -> None:
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from secretary.media.speech.engines import open_speech_engine\n"
        "engine = open_speech_engine(None)\n"
        "print(engine.languages(), engine.version, *sys.modules)"
    )
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert not {"ctranslate2", "numpy", "faster_whisper", "av", "torch"} & set(
        result.stdout.split()
    )


def test_a_batch_of_windows_is_transcribed_like_each_by_itself() -> None:
    engine = open_speech_engine(None)
    beckett = real_voice("beckett")
    first, second, third = engine.transcribe([beckett, silence(3), beckett], language="en")
    assert first == third
    assert second.segments == ()
    text = "".join(segment.text for segment in first.segments)
    assert word_error_rate(BECKETT, text) == 0
    assert first.confidence > 0.85


def test_silence_noise_and_music_have_no_transcript() -> None:
    names, sounds = list(NOTHING), list(NOTHING.values())
    by_name = dict(
        zip(names, open_speech_engine(None).transcribe(sounds, language=None), strict=True)
    )
    assert {name: one.segments for name, one in by_name.items() if one.segments} == {}


@pytest.mark.parametrize("samples", [0, 1, 159, 161, 1600])
def test_very_short_audio_is_no_speech(samples: int) -> None:
    (transcription,) = open_speech_engine(None).transcribe(
        [np.zeros(samples, np.float32)], language="en"
    )
    assert transcription.segments == () and transcription.confidence == 0


def test_a_language_that_the_model_does_not_know_is_refused() -> None:
    with pytest.raises(EngineUnavailable) as caught:
        open_speech_engine(None).transcribe([silence(1)], language="de")
    assert caught.value.details == {"understood": ["en"]}


def test_a_directory_without_a_model_is_named_by_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"model\.bin") as caught:
        Whisper(str(tmp_path)).languages()
    assert str(tmp_path) not in caught.value.message


def test_a_damaged_model_is_unavailable(tmp_path: Path) -> None:
    good = Whisper()._directory
    for name in ("config.json", "vocabulary.txt"):
        shutil.copy(good / name, tmp_path)
    (tmp_path / "model.bin").write_bytes((good / "model.bin").read_bytes()[:100_000])
    with pytest.raises(EngineUnavailable, match="damaged"):
        Whisper(str(tmp_path)).transcribe([silence(1)], language="en")


def changed_copy(directory: Path, name: str) -> None:
    """Copy the built-in model with one more byte at the end of this file."""
    directory.mkdir(parents=True)
    for path in Whisper()._directory.iterdir():
        (directory / path.name).symlink_to(path)
    content = (directory / name).read_bytes()
    (directory / name).unlink()
    (directory / name).write_bytes(content + b"\n")


@pytest.mark.parametrize("name", ["model.bin", "config.json", "vocabulary.txt"])
def test_weights_that_differ_from_the_reviewed_ones_are_not_loaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / MODEL_PACKAGE
    changed_copy(package / "model", name)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EngineUnavailable, match=rf"{name} has another SHA-256") as caught:
        Whisper().transcribe([silence(1)], language="en")
    assert caught.value.details == {"changed": [name]}
    assert str(tmp_path) not in caught.value.message


def test_the_weights_in_a_configured_directory_may_be_others(tmp_path: Path) -> None:
    changed_copy(tmp_path / "model", "config.json")
    assert Whisper(str(tmp_path / "model"))._model.is_multilingual is False


def test_another_model_is_another_version(tmp_path: Path) -> None:
    good = Whisper()._directory
    for path in good.iterdir():
        (tmp_path / path.name).symlink_to(path)
    assert Whisper(str(tmp_path)).version == Whisper().version
    (tmp_path / "more.json").write_text("{}")
    assert Whisper(str(tmp_path)).version != Whisper().version


def test_a_model_of_many_languages_says_which(tmp_path: Path) -> None:
    vocabulary = [*(f"t{n}" for n in range(51_860)), "<|de|>", "<|en|>", "<|yue|>", "<|0.00|>", "x"]
    (tmp_path / "vocabulary.txt").write_text("\n".join(vocabulary) + "\n")
    for name in ("model.bin", "config.json"):
        (tmp_path / name).write_text("")
    assert Whisper(str(tmp_path)).languages() == ("de", "en", "yue")
