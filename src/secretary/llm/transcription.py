"""Speech by an endpoint: what is asked of it, also of one that knows no time stamps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..core.errors import UpstreamRefused
from ..core.languages import language_code
from ..media.speech.engines import TimedText, Transcription
from .endpoints import Endpoints
from .options import Usage

if TYPE_CHECKING:
    from .endpoints import Transcription as TranscriptionTranscription

#: So far beyond the sound a time is a matter of rounding: whisper counts in windows.
SLACK_SECONDS = 1.0

Segment = tuple[float, float, str]


def put_right(segments: Sequence[Segment], text: str, seconds: float) -> tuple[TimedText, ...]:
    """Small faults are mended. Where the times make no sense, or there are none, the whole text
    is one piece over the whole sound: no word is lost, and none stands where it was not said."""
    spoken = [
        (start, end, words) for start, end, said in segments if (words := " ".join(said.split()))
    ]
    whole = " ".join(text.split())
    if spoken and _make_sense(spoken, seconds):
        said = _filled(_in_order(spoken, seconds), seconds)
        if all(each.start < each.end for each in said):
            return tuple(said)
    return (TimedText(0.0, seconds, whole),) if whole else ()


def _make_sense(segments: Sequence[Segment], seconds: float) -> bool:
    starts = [start for start, _, _ in segments]
    return (
        starts == sorted(starts)
        and all(start <= end for start, end, _ in segments)
        and starts[0] >= -SLACK_SECONDS
        and starts[-1] < seconds + SLACK_SECONDS
    )


def _in_order(segments: Sequence[Segment], seconds: float) -> list[TimedText]:
    """What begins before the last one has ended cuts it short; what begins with it joins it."""
    said: list[TimedText] = []
    for start, end, words in segments:
        begin, until = (min(max(time, 0.0), seconds) for time in (start, end))
        last = said[-1] if said else None
        if last is not None and (begin <= last.start or begin >= seconds):
            said[-1] = TimedText(last.start, max(last.end, until), f"{last.text} {words}")
            continue
        if last is not None and last.end > begin:
            said[-1] = last._replace(end=begin)
        said.append(TimedText(begin, until, words))
    return said


def _filled(said: list[TimedText], seconds: float) -> list[TimedText]:
    """What has no length lasts until the next begins."""
    following = [each.start for each in said[1:]] + [seconds]
    return [
        each if each.start < each.end else each._replace(end=begin)
        for each, begin in zip(said, following, strict=True)
    ]


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
) -> Transcription:
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
) -> "TranscriptionTranscription":
    sound = (piece.file_name, piece.sound)
    asked = {"response_format": "json", **form}
    return await endpoints.transcription(sound, asked, usage, seconds=piece.seconds)


def _heard(
    answer: "TranscriptionTranscription", seconds: float, asked: str | None
) -> Transcription:
    segments = answer.segments or []
    text = answer.text or " ".join(segment.text.strip() for segment in segments)
    said = put_right([(each.start, each.end, each.text) for each in segments], text, seconds)
    return Transcription(
        # What was asked for is what it listened for, whatever it says.
        language=asked or language_code(answer.language or "") or UNTOLD,
        segments=said,
        confidence=_confidence(answer) if said else 0.0,
    )


def _confidence(answer: "TranscriptionTranscription") -> float:
    """The mean over all words."""
    words = likely = 0.0
    for segment in answer.segments or []:
        if segment.avg_logprob is None or math.isnan(segment.avg_logprob):
            continue
        count = len(segment.text.split())
        words += count
        likely += count * math.exp(min(segment.avg_logprob, 0.0))
    return likely / words if words else 0.0
