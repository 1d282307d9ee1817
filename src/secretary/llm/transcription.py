"""Transcription by an endpoint, with timestamps where it supports them."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..core.errors import UpstreamRefused
from ..core.languages import language_code
from ..media.speech.engines import TimedText, Transcription
from .endpoints import CountedEndpoints

#: The response format with segments and times. Some models and servers support plain text only.
VERBOSE = "verbose_json"
#: Statuses by which a server may reject the format; then plain text is requested.
REJECTS_FORMAT = frozenset({400, 415, 422})
#: ISO 639-2 code of an undetermined language.
UNDETERMINED = "und"
#: Tolerated beyond the end of the sound: Whisper rounds times to windows.
TOLERANCE_SECONDS = 1.0


async def transcribe(
    llm: CountedEndpoints,
    sound: bytes,
    *,
    file_name: str,
    seconds: float,
    language: str | None = None,
    prompt: str | None = None,
) -> Transcription:
    """Transcribe a sound file that is `seconds` long. Its name tells the format, such as
    `chunk.wav`; `prompt` is the preceding text, or names that occur. The language is `und` if
    neither the caller nor the endpoint names it; the confidence is 0 if the endpoint reports none.
    """
    endpoints, file = llm.endpoints, (file_name, sound)
    model = llm.options.model("transcription")
    request = partial(llm.transcription, file, seconds=seconds)
    requested = (language_code(language) or language) if language else None
    plain: dict[str, Any] = {"response_format": "json", "language": requested, "prompt": prompt}
    plain = {name: value for name, value in plain.items() if value}
    verbose = {**plain, "response_format": VERBOSE, "timestamp_granularities": ["segment"]}
    is_verbose = not endpoints.lacks(model, VERBOSE)
    try:
        response = await request(verbose if is_verbose else plain)
    except UpstreamRefused as error:
        if not is_verbose or error.details.get("status") not in REJECTS_FORMAT:
            raise
        response = await request(plain)
        endpoints.mark_unsupported(model, VERBOSE)  # it was the format
    segments = response.segments or []
    text = response.text or " ".join(segment.text.strip() for segment in segments)
    times = [(segment.start, segment.end, segment.text) for segment in segments]
    words = repair_timestamps(times, text, seconds)
    # The mean probability, weighted by words.
    probabilities = [
        (len(segment.text.split()), math.exp(min(segment.avg_logprob, 0.0)))
        for segment in segments
        if segment.avg_logprob is not None and not math.isnan(segment.avg_logprob)
    ]
    total = sum(count for count, _ in probabilities) if words else 0
    confidence = sum(count * one for count, one in probabilities) / total if total else 0.0
    # The requested language was used, whatever the response says.
    used = requested or language_code(response.language or "") or UNDETERMINED
    return Transcription(language=used, segments=words, confidence=confidence)


def repair_timestamps(
    segments: Sequence[tuple[float, float, str]], text: str, seconds: float
) -> tuple[TimedText, ...]:
    """Small errors are corrected. Without plausible times the whole text becomes one segment, so
    that no word is lost or misplaced."""
    lines = [TimedText(start, end, " ".join(line.split())) for start, end, line in segments]
    spoken = [line for line in lines if line.text]
    starts = [segment.start for segment in spoken]
    if (
        spoken
        and starts == sorted(starts)
        and all(segment.start <= segment.end for segment in spoken)
        and starts[0] >= -TOLERANCE_SECONDS
        and starts[-1] < seconds + TOLERANCE_SECONDS
    ):
        words = _resolve_overlaps(spoken, seconds)
        # A segment without length lasts until the next begins.
        following = [*(word.start for word in words[1:]), seconds]
        words = [
            word if word.start < word.end else word._replace(end=begin)
            for word, begin in zip(words, following, strict=True)
        ]
        if all(word.start < word.end for word in words):
            return tuple(words)
    whole = " ".join(text.split())
    return (TimedText(0.0, seconds, whole),) if whole else ()


def _resolve_overlaps(segments: Sequence[TimedText], seconds: float) -> list[TimedText]:
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
