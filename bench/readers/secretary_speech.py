"""Secretary's speech engine without the service: its windows one by one, or as in a job."""

import os
import tempfile
import wave
from collections.abc import Callable
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from secretary.media.pcm import decode_audio, select_audio_track
from secretary.media.probe import probe
from secretary.media.speech.chunking import Chunk, transcribe_chunk
from secretary.media.speech.engines import SAMPLE_RATE, open_speech_engine
from secretary.media.speech.vad import split_into_chunks

ENGINE = "whisper"
LIMIT_S = 24 * 60 * 60

Reader = tuple[str, Callable[[str], str]]


def windows() -> Reader:
    """One window after the other, cut at pauses as in a job: cut blindly every 30 seconds, these
    weights skip whole sentences, and take less time for it."""
    return open_speech_engine(ENGINE).version, _read_windows


def job_steps() -> Reader:
    """Everything a job does with a file, one step after the other in this process."""
    return open_speech_engine(ENGINE).version, _read_as_in_a_job


def _read_windows(path: str) -> str:
    with wave.open(path) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (
            SAMPLE_RATE,
            1,
            2,
        )
        samples = file.readframes(file.getnframes())
    with tempfile.TemporaryDirectory() as directory:
        raw = Path(directory) / "samples.raw"
        raw.write_bytes(samples)
        windows = [window for piece in split_into_chunks(str(raw)) for window in piece.windows]
        return _transcribed(raw, [Chunk(0, (window,)) for window in windows])


def _read_as_in_a_job(path: str) -> str:
    recording = probe(path)
    track = select_audio_track(recording.audio_tracks)
    assert track is not None
    with tempfile.TemporaryDirectory() as directory:
        raw = str(Path(directory) / "samples.raw")
        decode_audio(
            path, raw, recording=recording, track=track, max_seconds=LIMIT_S, timeout_s=LIMIT_S
        )  # fmt: skip
        return _transcribed(Path(raw), split_into_chunks(raw))


def _transcribed(raw: Path, chunks: "list[Chunk]") -> str:
    transcripts = [transcribe_chunk(raw, chunk, ENGINE, None, "en") for chunk in chunks]
    return " ".join(word.text for transcript in transcripts for word in transcript.segments)
