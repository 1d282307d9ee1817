"""Speech by an endpoint: what is asked of it, also of one that knows no time stamps."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import UpstreamRefused
from ..language_names import language_code
from ..speech import Heard
from .endpoints import Endpoints
from .time_stamps import put_right
from .usage import Usage

if TYPE_CHECKING:
    from .answer import Transcription

#: The answer with segments and their times. Some models and servers know only the bare text.
VERBOSE = "verbose_json"
#: With these a server may mean that it does not know the format; it is asked for the bare text.
UNKNOWN_FORMAT = frozenset({400, 415, 422})
#: ISO 639-2 for a language that nobody told.
UNTOLD = "und"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    #: Its ending tells the server the format.
    file_name: str
    sound: bytes = field(repr=False)
    seconds: float


async def transcribe(
    endpoints: Endpoints, usage: Usage, piece: Piece, *, language: str | None, prompt: str | None
) -> Heard:
    """The language is `und` where neither the caller nor the endpoint tells it; the confidence is
    0 where the endpoint tells none."""
    model = endpoints.model("transcription")
    code = (language_code(language) or language) if language else None
    form = {"language": code, "prompt": prompt}
    form = {name: value for name, value in form.items() if value}
    if endpoints.lacks(model, VERBOSE):
        answer = await _asked(endpoints, usage, piece, form)
    else:
        try:
            answer = await _asked(endpoints, usage, piece, {**form, **_with_times()})
        except UpstreamRefused as error:
            if error.details.get("status") not in UNKNOWN_FORMAT:
                raise
            answer = await _asked(endpoints, usage, piece, form)
            endpoints.learn_lack(model, VERBOSE)  # it was the format indeed
    return _heard(answer, piece.seconds, code)


def _with_times() -> dict[str, Any]:
    return {"response_format": VERBOSE, "timestamp_granularities": ["segment"]}


async def _asked(
    endpoints: Endpoints, usage: Usage, piece: Piece, form: dict[str, Any]
) -> "Transcription":
    sound = (piece.file_name, piece.sound)
    asked = {"response_format": "json", **form}
    return await endpoints.transcription(sound, asked, usage, seconds=piece.seconds)


def _heard(answer: "Transcription", seconds: float, asked: str | None) -> Heard:
    segments = answer.segments or []
    text = answer.text or " ".join(segment.text.strip() for segment in segments)
    said = put_right([(each.start, each.end, each.text) for each in segments], text, seconds)
    return Heard(
        # What was asked for is what it listened for, whatever it says.
        language=asked or language_code(answer.language or "") or UNTOLD,
        said=said,
        confidence=_confidence(answer) if said else 0.0,
    )


def _confidence(answer: "Transcription") -> float:
    """The mean over all words."""
    words = likely = 0.0
    for segment in answer.segments or []:
        if segment.avg_logprob is None or math.isnan(segment.avg_logprob):
            continue
        count = len(segment.text.split())
        words += count
        likely += count * math.exp(min(segment.avg_logprob, 0.0))
    return likely / words if words else 0.0
