"""This project's engine by itself: the windows of a job, one after the other.

They are cut at pauses, as in a job: cut blindly at each half minute, these weights leave out whole
sentences, and take less time for it.
"""

import os
import tempfile
import wave
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from secretary.media.speech.chunking import Chunk
from secretary.media.speech.engines import SAMPLE_RATE, open_speech_engine
from secretary.media.speech.transcribe import transcribe_chunk
from secretary.media.speech.vad import split_into_chunks

ENGINE = "whisper"

VERSION = open_speech_engine(ENGINE).version


def read(path: str) -> str:
    with wave.open(path) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (
            SAMPLE_RATE,
            1,
            2,
        )
        sound = file.readframes(file.getnframes())
    with tempfile.TemporaryDirectory() as directory:
        raw = Path(directory) / "sound.raw"
        raw.write_bytes(sound)
        windows = [window for piece in split_into_chunks(str(raw)) for window in piece.windows]
        heard = [transcribe_chunk(raw, Chunk(0, (each,)), ENGINE, None, "en") for each in windows]
    return " ".join(said.text for one in heard for said in one.segments)
