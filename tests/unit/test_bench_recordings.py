"""The recordings that the media benchmark uses."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secretary.media.pcm import decode_audio, select_audio_track
from secretary.media.probe import probe
from secretary.media.speech.engines import SAMPLE_RATE
from tests.speech import needs, tones


@pytest.fixture
def sounds(bench: Any) -> Any:
    return bench("corpus.recordings")


def test_a_marked_file_is_another_file_with_the_same_sound(sounds: Any, tmp_path: Path) -> None:
    file = sounds.write_wav(tones(2, [220, 330], 0.5), tmp_path / "tones.wav")

    first, second = (sounds.marked(file, mark) for mark in ("round 1", "round 22"))

    assert len({path.read_bytes() for path in (file, first, second)}) == 3
    assert _decoded(first) == _decoded(second) == _decoded(file) == _samples(file)


@needs("flite")
def test_a_talk_is_the_same_each_time_and_nobody_in_it_is_interrupted(sounds: Any) -> None:
    one, other = sounds.talk(10), sounds.talk(10)

    assert np.array_equal(one.sound, other.sound) and one.words == other.words
    assert one.seconds >= 10
    assert one.words.startswith("Ever tried.") and one.words.endswith(".")


@needs("flite")
def test_a_meeting_is_as_long_as_it_is_said_to_be(sounds: Any) -> None:
    assert len(sounds.meeting(5, 3)) == 8 * SAMPLE_RATE


def _samples(path: Path) -> bytes:
    with wave.open(str(path), "rb") as file:
        return file.readframes(file.getnframes())


def _decoded(path: Path) -> bytes:
    recording, target = probe(str(path)), path.with_suffix(".raw")
    track = select_audio_track(recording.audio_tracks)
    assert track is not None
    done = decode_audio(
        str(path), str(target), recording=recording, track=track, max_seconds=60, timeout_s=60
    )
    assert not done.is_damaged
    return target.read_bytes()
