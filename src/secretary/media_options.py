"""What an operator decides about sound and video."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

#: `auto`: the local one for the languages it understands, the endpoint for all others.
SpeechEngineName = Literal["auto", "local", "openai"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaOptions:
    #: The program; None: the one that is installed.
    ffmpeg: str | None = None
    max_duration: timedelta = timedelta(hours=12)
    speech_engine: SpeechEngineName = "auto"
    #: With a model for more languages, or a better one. None: the one that comes with us.
    speech_model_directory: str | None = None
    #: What is spoken where a job does not say. None: detected.
    speech_language: str | None = None
    #: One piece of a recording, of half a minute or so, may take so long.
    piece_timeout: timedelta = timedelta(minutes=5)
    #: Of one video.
    max_frames: int = 500
    #: A recording up to this size stays among the files of its job; 0: none does.
    keep_recording_bytes: int = 200 * 1024 * 1024
