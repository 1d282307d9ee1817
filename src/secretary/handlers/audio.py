"""Job type `audio`: what is said in a recording."""

from ..errors import EngineUnavailable
from ..handler import JobContext, Results, handles
from .parameters import LanguageParameters


class AudioParameters(LanguageParameters):
    pass


@handles("audio", AudioParameters)
async def audio(ctx: JobContext[AudioParameters]) -> Results:
    raise EngineUnavailable("This version has no engine for speech")
