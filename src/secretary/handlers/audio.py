"""Job type `audio`: transcribes a recording."""

from ..core.files import AUDIO_TYPES, VIDEO_TYPES
from ..jobs.handler import JobContext, handles
from .media_pipeline import (
    TIMEOUT,
    RecordingParameters,
    assemble_results,
    get_transcript,
    resolve_media,
)
from .parameters import RecordingResults


class AudioParameters(RecordingParameters):
    pass


@handles("audio", AudioParameters, timeout=TIMEOUT)
async def audio(ctx: JobContext[AudioParameters]) -> RecordingResults:
    media = await resolve_media(ctx, AUDIO_TYPES | VIDEO_TYPES, "audio")
    transcript = await get_transcript(ctx, media)
    return await assemble_results(ctx, media, transcript)
