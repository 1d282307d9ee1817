"""Recordings of known words, with real and synthetic voices."""

import random
import struct
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import output

from secretary.media.ffmpeg import find_ffmpeg
from secretary.media.speech.engines import SAMPLE_RATE
from secretary.media.speech.vad import split_into_chunks
from tests.speech import (
    BECKETT,
    MINUTES,
    TWO_CITIES,
    noise,
    read_aloud,
    real_voice,
    silence,
    written,
)

#: Seconds between two speakers.
PAUSES = 0.6, 2.5
#: Background noise: 60 dB below full scale.
ROOM = 0.001
LIMIT_S = 600


@dataclass(frozen=True)
class Talk:
    sound: np.ndarray
    words: str

    @property
    def seconds(self) -> float:
        return len(self.sound) / SAMPLE_RATE


def talk(seconds: float) -> Talk:
    """At least this long: nobody is interrupted. The same each time."""
    dice, speakers = random.Random(1), _speakers()
    parts, words = [silence(0.5)], list[str]()
    while sum(map(len, parts)) < seconds * SAMPLE_RATE:
        text, sound = speakers[len(words) % len(speakers)]
        words.append(text)
        parts += [sound, silence(dice.uniform(*PAUSES))]
    return Talk(np.concatenate(parts), " ".join(words))


def meeting(speech_s: float, quiet_s: float) -> np.ndarray:
    """Exactly this much speech, followed by background noise."""
    speech = talk(speech_s).sound[: round(speech_s * SAMPLE_RATE)]
    return np.concatenate([speech, noise(quiet_s, ROOM)]) if quiet_s else speech


def _speakers() -> Sequence[tuple[str, np.ndarray]]:
    return (
        (BECKETT, real_voice("beckett")),
        (MINUTES, read_aloud(MINUTES, "slt")),
        (TWO_CITIES, real_voice("two_cities")),
        (MINUTES, read_aloud(MINUTES, "rms")),
    )


def write_wav(sound: np.ndarray, path: Path) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes((np.clip(sound, -1, 1) * 32767).round().astype("<i2").tobytes())
    return path


def marked(path: Path, mark: str) -> Path:
    """The same samples with another digest, so that they are not in the cache: with a comment."""
    comment = mark.encode() + b"\0" * (2 - len(mark.encode()) % 2)
    note = b"INFOICMT" + struct.pack("<I", len(comment)) + comment
    content = path.read_bytes() + b"LIST" + struct.pack("<I", len(note)) + note
    target = path.with_name(f"{path.stem}-{mark.replace(' ', '-')}.wav")
    target.write_bytes(content[:4] + struct.pack("<I", len(content) - 8) + content[8:])
    return target


def count_chunks(spoken: Talk, directory: Path) -> int:
    """How many chunks the service would make; each is transcribed by one process."""
    raw = directory / "talk.raw"
    written(spoken.sound, raw)
    count = len(split_into_chunks(str(raw)))
    raw.unlink()
    return count


def ffmpeg(*arguments: object) -> None:
    """With the program that the service uses."""
    command = (find_ffmpeg(), "-nostdin", "-hide_banner", "-loglevel", "error", "-y", *arguments)
    output("ffmpeg", command, limit_s=LIMIT_S)
