"""Job type `audio`: what is said in a recording."""

from datetime import timedelta
from typing import Any

from ..file_kinds import MOVING, SOUND
from ..handler import JobContext, handles
from .origins import find_recording
from .recorded import RecordingParameters, concluded, words_of
from .recordings import look_into
from .translating import check_translation

#: Of one job. A recording may take hours, and an engine as long as the recording.
TIMEOUT = timedelta(hours=24)


class AudioParameters(RecordingParameters):
    pass


@handles("audio", AudioParameters, timeout=TIMEOUT)
async def audio(ctx: JobContext[AudioParameters]) -> dict[str, Any]:
    check_translation(ctx)
    document, origin = await find_recording(ctx, SOUND | MOVING, "audio")
    recording = await look_into(ctx, document)
    words = await words_of(ctx, document, recording, origin)
    return await concluded(ctx, document, recording, origin, words)
