"""Job type `audio`: what is said in a recording."""

from datetime import timedelta
from typing import Any

from ..file_kinds import MOVING, SOUND
from ..handler import JobContext, handles
from .documents import find
from .recorded import RecordingParameters, recorded

#: Of one job. A recording may take hours, and an engine as long as the recording.
TIMEOUT = timedelta(hours=24)


class AudioParameters(RecordingParameters):
    pass


@handles("audio", AudioParameters, timeout=TIMEOUT)
async def audio(ctx: JobContext[AudioParameters]) -> dict[str, Any]:
    document = await find(ctx, SOUND | MOVING)
    return await recorded(ctx, document)
