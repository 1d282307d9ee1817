"""All that a job does to hear a file, one step after the other in this process, without the job."""

import os
import tempfile
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from secretary.media.pcm import decode_audio, select_audio_track
from secretary.media.probe import probe
from secretary.media.speech.engines import open_speech_engine
from secretary.media.speech.transcribe import transcribe_chunk
from secretary.media.speech.vad import split_into_chunks

ENGINE = "whisper"
LIMIT_S = 24 * 60 * 60

VERSION = open_speech_engine(ENGINE).version


def read(path: str) -> str:
    recording = probe(path)
    track = select_audio_track(recording.audio_tracks)
    assert track is not None
    with tempfile.TemporaryDirectory() as directory:
        sound = str(Path(directory) / "sound.raw")
        decode_audio(
            path,
            sound,
            recording=recording,
            track=track,
            max_seconds=LIMIT_S,
            timeout_s=LIMIT_S,
        )
        heard = [
            transcribe_chunk(Path(sound), each, ENGINE, None, "en")
            for each in split_into_chunks(sound)
        ]
    return " ".join(said.text for one in heard for said in one.segments)
