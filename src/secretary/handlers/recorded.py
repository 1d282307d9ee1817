"""What is said in a recording, from the file to the results."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ..engines.language_names import language_code
from ..errors import InvalidParameters
from ..handler import JobContext
from ..remote import Remote
from .documents import Document
from .existing_subtitles import Subtitles, spoken_by_subtitles, subtitles_of
from .parameters import LanguageParameters
from .recording_results import recording_results
from .recordings import chosen_track, look_into
from .speech import transcribe
from .translating import check_translation, is_to_be_translated, translated

if TYPE_CHECKING:
    from ..processors.media.recording import Chapter, Recording
    from ..processors.transcript import Picture
    from ..processors.transcript_files import Spoken

PUT_TOGETHER: Remote[None] = Remote("processors.transcript_files", "put_together")


class RecordingParameters(LanguageParameters):
    source_language: str | None = Field(
        default=None, max_length=35, description="What is spoken, like `en`; detected if it is not said"
    )
    target_language: str | None = Field(
        default=None, max_length=35, description="The transcript is translated into this language"
    )
    use_subtitles: bool = Field(
        default=True, description="Subtitles that exist are taken instead of listening"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the place that the recording came from says about it."""

    title: str | None = None
    chapters: Sequence["Chapter"] = ()
    subtitles: Sequence[Subtitles] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What is said, and how that is known."""

    spoken: "Spoken"
    directory: str
    facts: Mapping[str, Any]
    made: bool


def spoken_language(parameters: RecordingParameters) -> str | None:
    """As two letters; `auto` means that it is to be detected."""
    told = parameters.source_language
    if told is None or told.strip().lower() in ("", "auto"):
        return None
    code = language_code(told)
    if code is None:
        raise InvalidParameters(f"source_language: {told!r} is no language that is known")
    return code


async def words_of(
    ctx: JobContext[Any],
    document: Document,
    recording: "Recording",
    origin: Origin,
    *,
    last_percent: int = 90,
) -> Words:
    """By subtitles if there are any, else by listening."""
    language = spoken_language(ctx.parameters)
    if ctx.parameters.use_subtitles:
        beside = ctx.parameters.url is None
        found = [
            *origin.subtitles,
            *subtitles_of(document, recording, may_look_beside=beside),
        ]
        spoken_in = language or (
            chosen_track(recording, None).language if recording.sounds else None
        )
        known = await spoken_by_subtitles(ctx, document, found, spoken_in)
        if known is not None:
            spoken, entry, where = known
            facts = {"engine": "subtitles", "subtitles": where, "duration": recording.duration}
            return Words(spoken=spoken, directory=entry.name, facts=facts, made=False)
    done = await transcribe(ctx, document, recording, language=language, last_percent=last_percent)
    facts = {"engine": done.engine, "duration": round(done.seconds, 3), "sound_track": done.track}
    return Words(spoken=done.spoken, directory=done.entry.name, facts=facts, made=done.made)


async def recorded(ctx: JobContext[Any], document: Document) -> dict[str, Any]:
    """The results of a recording that is only listened to."""
    check_translation(ctx)
    recording = await look_into(ctx, document)
    words = await words_of(ctx, document, recording, Origin())
    return await concluded(ctx, document, recording, Origin(), words)


async def concluded(
    ctx: JobContext[Any],
    document: Document,
    recording: "Recording",
    origin: Origin,
    words: Words,
    pictures: Sequence["Picture"] = (),
    frames: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    from ..processors.transcript_files import Transcript

    target, other = ctx.parameters.target_language, None
    if is_to_be_translated(words.spoken.language, target):
        other = await translated(ctx, document, words.spoken, target)
    await ctx.progress("postprocessing", 95, "Putting the transcript together")
    title = origin.title or recording.tags.get("title") or PurePath(document.source.name).stem
    chapters = origin.chapters or recording.chapters
    transcript = Transcript(
        shown=str(ctx.directory),
        spoken=words.spoken,
        translated=other,
        title=title,
        chapters=chapters,
        pictures=pictures,
    )
    await ctx.run(PUT_TOGETHER, transcript)
    job = ctx.job
    facts = {
        "title": title,
        "format": recording.format,
        **words.facts,
        "source_language": words.spoken.language,
        "chapters": [
            {"start": chapter.start, "end": chapter.end, "title": chapter.title}
            for chapter in chapters
        ],
        **origin.facts,
    }
    results = recording_results(
        job,
        document.source,
        directory=words.directory,
        facts=facts,
        frames=frames,
        is_translated=other is not None,
        is_from_cache=not words.made and not job.failures and not job.crashes,
        context=ctx.parameters.context,
    )
    return {**results, "llm_info": ctx.llm.info()}
