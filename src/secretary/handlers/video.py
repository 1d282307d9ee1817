"""Job type `video`: what is said and shown in a video."""

from ..errors import EngineUnavailable
from ..handler import JobContext, Results, handles
from .parameters import LanguageParameters


class VideoParameters(LanguageParameters):
    pass


@handles("video", VideoParameters)
async def video(ctx: JobContext[VideoParameters]) -> Results:
    raise EngineUnavailable("This version has no engine for speech")
