"""Transcription by an endpoint, with timestamps where it supports them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import UpstreamRefused
from ..core.languages import language_code
from ..media.speech.engines import TimedText, Transcription
from .endpoints import Endpoints, TranscriptionResponse, Usage

#: The response format with segments and times. Some models and servers support plain text only.
VERBOSE = "verbose_json"
#: Statuses by which a server may reject the format; then plain text is requested.
REJECTS_FORMAT = frozenset({400, 415, 422})
#: ISO 639-2 code of an undetermined language.
UNDETERMINED = "und"


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioClip:
    """A sound file; the suffix of its name tells the server the format."""

    file_name: str
    sound: bytes = field(repr=False)
    seconds: float


async def transcribe(
    endpoints: Endpoints, usage: Usage, clip: AudioClip, *, language: str | None, prompt: str | None
) -> Transcription:
    """The language is `und` if neither the caller nor the endpoint names it; the confidence is 0
    if the endpoint reports none."""
    model = endpoints.model("transcription")
    code = (language_code(language) or language) if language else None
    form = {"language": code, "prompt": prompt}
    form = {name: value for name, value in form.items() if value}
    if endpoints.lacks(model, VERBOSE):
        response = await _request(endpoints, usage, clip, form)
    else:
        try:
            response = await _request(endpoints, usage, clip, {**form, **_with_times()})
        except UpstreamRefused as error:
            if error.details.get("status") not in REJECTS_FORMAT:
                raise
            response = await _request(endpoints, usage, clip, form)
            endpoints.mark_unsupported(model, VERBOSE)  # it was the format
    return _transcription(response, clip.seconds, code)


def _with_times() -> dict[str, Any]:
    return {"response_format": VERBOSE, "timestamp_granularities": ["segment"]}


async def _request(
    endpoints: Endpoints, usage: Usage, clip: AudioClip, form: dict[str, Any]
) -> TranscriptionResponse:
    file = (clip.file_name, clip.sound)
    fields = {"response_format": "json", **form}
    return await endpoints.transcription(file, fields, usage, seconds=clip.seconds)


def _transcription(
    response: TranscriptionResponse, seconds: float, requested: str | None
) -> Transcription:
    segments = response.segments or []
    text = response.text or " ".join(segment.text.strip() for segment in segments)
    words = repair_timestamps(
        [(segment.start, segment.end, segment.text) for segment in segments], text, seconds
    )
    return Transcription(
        # The requested language was used, whatever the response says.
        language=requested or language_code(response.language or "") or UNDETERMINED,
        segments=words,
        confidence=_confidence(response) if words else 0.0,
    )


def _confidence(response: TranscriptionResponse) -> float:
    """The mean probability, weighted by words."""
    words = probability = 0.0
    for segment in response.segments or []:
        if segment.avg_logprob is None or math.isnan(segment.avg_logprob):
            continue
        count = len(segment.text.split())
        words += count
        probability += count * math.exp(min(segment.avg_logprob, 0.0))
    return probability / words if words else 0.0


#: Tolerated beyond the end of the sound: Whisper rounds times to windows.
TOLERANCE_SECONDS = 1.0

Segment = tuple[float, float, str]


def repair_timestamps(
    segments: Sequence[Segment], text: str, seconds: float
) -> tuple[TimedText, ...]:
    """Small errors are corrected. Without plausible times the whole text becomes one segment, so
    that no word is lost or misplaced."""
    spoken = [
        (start, end, line) for start, end, said in segments if (line := " ".join(said.split()))
    ]
    whole = " ".join(text.split())
    if spoken and _are_plausible(spoken, seconds):
        words = _fill_gaps(_resolve_overlaps(spoken, seconds), seconds)
        if all(word.start < word.end for word in words):
            return tuple(words)
    return (TimedText(0.0, seconds, whole),) if whole else ()


def _are_plausible(segments: Sequence[Segment], seconds: float) -> bool:
    starts = [start for start, _, _ in segments]
    return (
        starts == sorted(starts)
        and all(start <= end for start, end, _ in segments)
        and starts[0] >= -TOLERANCE_SECONDS
        and starts[-1] < seconds + TOLERANCE_SECONDS
    )


def _resolve_overlaps(segments: Sequence[Segment], seconds: float) -> list[TimedText]:
    """A segment ends where the next begins; one that begins with the previous is joined to it."""
    words: list[TimedText] = []
    for start, end, text in segments:
        begin, until = (min(max(time, 0.0), seconds) for time in (start, end))
        last = words[-1] if words else None
        if last is not None and (begin <= last.start or begin >= seconds):
            words[-1] = TimedText(last.start, max(last.end, until), f"{last.text} {text}")
            continue
        if last is not None and last.end > begin:
            words[-1] = last._replace(end=begin)
        words.append(TimedText(begin, until, text))
    return words


def _fill_gaps(words: list[TimedText], seconds: float) -> list[TimedText]:
    """A segment without length lasts until the next begins."""
    following = [word.start for word in words[1:]] + [seconds]
    return [
        word if word.start < word.end else word._replace(end=begin)
        for word, begin in zip(words, following, strict=True)
    ]
