"""This project's engine by itself: the windows of a job, one after the other.

They are cut at pauses, as in a job: cut blindly at each half minute, these weights leave out whole
sentences, and take less time for it.
"""

import os
import tempfile
import wave
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from secretary.engines.speech import RATE, open_speech_engine
from secretary.processors.speech.activity import pieces_of
from secretary.processors.speech.listening import transcribe
from secretary.processors.speech.pieces import Piece

ENGINE = "whisper"

VERSION = open_speech_engine(ENGINE).version


def read(path: str) -> str:
    with wave.open(path) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        sound = file.readframes(file.getnframes())
    with tempfile.TemporaryDirectory() as directory:
        raw = Path(directory) / "sound.raw"
        raw.write_bytes(sound)
        windows = [window for piece in pieces_of(str(raw)) for window in piece.windows]
        heard = [transcribe(raw, Piece(0, (each,)), ENGINE, None, "en") for each in windows]
    return " ".join(said.text for one in heard for said in one.said)
