"""This project's engine and nothing around it: 30 seconds after the other, wherever that cuts."""

import os
import wave

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from secretary.engines.speech import RATE, open_speech_engine

WINDOW_S = 30

_engine = open_speech_engine()
VERSION = _engine.version


def read(path: str) -> str:
    with wave.open(path) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
    windows = (sound[at : at + WINDOW_S * RATE] for at in range(0, len(sound), WINDOW_S * RATE))
    heard = (_engine.listen([window], language="en")[0] for window in windows)
    return " ".join("".join(word.text for word in one.said).strip() for one in heard)
