"""Job type `session`: a talk of a conference, from its web page to one document."""

from pydantic import Field

from ..errors import EngineUnavailable
from ..handler import JobContext, Results, handles
from .parameters import LanguageParameters, Words


class SessionParameters(LanguageParameters):
    event: str | None = Field(default=None, max_length=500)
    session: str | None = Field(default=None, max_length=1000)
    filename: str | None = Field(default=None, max_length=500, description="Of the document")
    track: str | None = Field(default=None, max_length=500)
    day: str | None = Field(default=None, max_length=100)
    starttime: str | None = Field(default=None, max_length=100)
    endtime: str | None = Field(default=None, max_length=100)
    speakers: Words = Field(default_factory=list)
    video_url: str | None = Field(default=None, max_length=8000)
    attachments_url: str | None = Field(default=None, max_length=8000)
    create_archive: bool = True


@handles("session", SessionParameters)
async def session(ctx: JobContext[SessionParameters]) -> Results:
    raise EngineUnavailable("This version has no engine for web pages")
