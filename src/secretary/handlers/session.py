"""Job type `session`: a talk of a conference, from its web page to one document."""

import asyncio
from functools import partial
from typing import Any
from urllib.parse import quote

from pydantic import Field

from ..engines.language_names import language_code
from ..errors import InvalidParameters, JobFailed
from ..handler import JobContext, handles
from ..job import MORE_IN
from ..json_bytes import json_bytes
from ..processors.assembly import MAX_RESULTS_BYTES, RESULTS_FILE
from ..processors.web.links import best_attachment, best_subtitles, best_video
from ..processors.web.paths import ROOT, session_paths
from ..processors.web.talk_page import TalkPage
from ..templates import Rendered, Template, parse, render
from .audio import TIMEOUT
from .parameters import LanguageParameters, Words
from .parts import Missing, had, part_of
from .session_document import (
    Talk,
    appendix,
    publish,
    source_text,
    template_context,
    write_files,
)
from .session_parts import (
    Slide,
    Transcribed,
    read_page,
    slides_in_video,
    slides_of,
    transcript_of_subtitles,
    transcript_of_video,
    video_part,
)

TEMPLATE = "Session"


class SessionParameters(LanguageParameters):
    event: str | None = Field(default=None, max_length=500)
    session: str | None = Field(default=None, max_length=1000, description="The title of the talk")
    filename: str | None = Field(default=None, max_length=500, description="Of the document")
    track: str | None = Field(default=None, max_length=500)
    day: str | None = Field(default=None, max_length=100)
    starttime: str | None = Field(default=None, max_length=100)
    endtime: str | None = Field(default=None, max_length=100)
    speakers: Words = Field(default_factory=list)
    video_url: str | None = Field(default=None, max_length=8000)
    subtitles_url: str | None = Field(
        default=None, max_length=8000, description="Subtitles of the video: nobody need listen"
    )
    attachments_url: str | None = Field(default=None, max_length=8000, description="The slides")
    create_archive: bool = True
