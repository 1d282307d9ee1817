"""Job type `audio`: what is said in a recording."""

from datetime import timedelta
from typing import Any

from ..core.file_types import AUDIO_TYPES, VIDEO_TYPES
from ..jobs.handler import JobContext, handles
from .media_pipeline import RecordingParameters, concluded, find_recording, words_of
from .transcription import look_into
from .translation import check_translation

#: Of one job. A recording may take hours, and an engine as long as the recording.
TIMEOUT = timedelta(hours=24)


class AudioParameters(RecordingParameters):
    pass


@handles("audio", AudioParameters, timeout=TIMEOUT)
async def audio(ctx: JobContext[AudioParameters]) -> dict[str, Any]:
    check_translation(ctx)
    document, origin = await find_recording(ctx, AUDIO_TYPES | VIDEO_TYPES, "audio")
    recording = await look_into(ctx, document)
    words = await words_of(ctx, document, recording, origin)
    return await concluded(ctx, document, recording, origin, words)
