"""What is said in a recording, and how the results come of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ..engines.language_names import is_same_language, language_code
from ..errors import InvalidParameters
from ..handler import JobContext
from ..processors.transcript_files import MARKDOWN_FILE, Spoken, Transcript
from ..remote import Remote
from ..sources import named_source
from .documents import Document
from .existing_subtitles import spoken_by_subtitles, subtitles_at, subtitles_of
from .freshness import is_from_cache
from .kept_recording import keep_recording
from .looking import Frames
from .origins import Origin
from .parameters import LanguageParameters
from .recording_results import recording_results
from .recordings import chosen_track
from .speech import transcribe
from .templating import with_template
from .translating import translated

if TYPE_CHECKING:
    from ..processors.media.recording import Recording

PUT_TOGETHER: Remote[None] = Remote("processors.transcript_files", "put_together")


class RecordingParameters(LanguageParameters):
    source_language: str | None = Field(
        default=None,
        max_length=35,
        description="What is spoken, like `en`; detected if it is not said",
    )
    target_language: str | None = Field(
        default=None, max_length=35, description="The transcript is translated into this language"
    )
    subtitles_url: str | None = Field(
        default=None, max_length=8000, description="Where subtitles are, as SubRip or WebVTT"
    )
    use_subtitles: bool = Field(
        default=True, description="Subtitles that exist are taken instead of listening"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What is said, and how that is known."""

    spoken: Spoken
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
        beside = named_source(ctx.parameters)[0] == "path"
        found = [
            *await subtitles_at(ctx, ctx.parameters.subtitles_url),
            *origin.subtitles,
            *subtitles_of(document, recording, may_look_beside=beside),
        ]
        spoken_in = language or origin.language
        if spoken_in is None and recording.sounds:
            spoken_in = chosen_track(recording, None).language
        known = await spoken_by_subtitles(ctx, document, found, spoken_in)
        if known is not None:
            spoken, entry, where = known
            about = {
                "engine": "subtitles",
                "subtitles": where,
                "source_language": spoken.language,
            }
            return Words(spoken=spoken, directory=entry.name, facts=about, made=False)
    spoken_in = language or origin.language
    done = await transcribe(ctx, document, recording, language=spoken_in, last_percent=last_percent)
    facts: dict[str, Any] = {
        "engine": done.engine,
        "duration": round(done.seconds, 3),
        "sound_track": done.track,
        "source_language": done.spoken.language,
    }
    return Words(spoken=done.spoken, directory=done.entry.name, facts=facts, made=done.made)


async def concluded(
    ctx: JobContext[Any],
    document: Document,
    recording: "Recording",
    origin: Origin,
    words: Words | None,
    frames: Frames | None = None,
) -> dict[str, Any]:
    """All that was found out, put together."""
    other = await _in_other_words(ctx, document, words) if words else None
    await ctx.progress("postprocessing", 95, "Putting the transcript together")
    title = origin.title or recording.tags.get("title") or PurePath(document.source.name).stem
    chapters = origin.chapters or recording.chapters
    transcript = Transcript(
        shown=str(ctx.directory),
        spoken=words.spoken if words else None,
        translated=other,
        title=title,
        chapters=chapters,
        pictures=[frame.as_picture() for frame in frames.frames] if frames else (),
    )
    await ctx.run(PUT_TOGETHER, transcript)
    made = (words is not None and words.made) or (frames is not None and frames.made)
    results = recording_results(
        ctx.job,
        document.source,
        directory=words.directory if words else frames.directory if frames else None,
        facts={
            "title": title,
            "format": recording.format,
            "duration": recording.duration,
            **(words.facts if words else {}),
            "chapters": [asdict(chapter) for chapter in chapters],
            **origin.facts,
        },
        frames=[frame.as_result() for frame in frames.frames] if frames else (),
        has_transcript=words is not None,
        is_translated=other is not None,
        is_from_cache=is_from_cache(ctx, made=made),
        context=ctx.parameters.context,
    )
    results["recording"] = await keep_recording(ctx, document, recording)
    results["llm_info"] = ctx.llm.info()
    return await with_template(ctx, results, MARKDOWN_FILE)


async def _in_other_words(ctx: JobContext[Any], document: Document, words: Words) -> Spoken | None:
    target = ctx.parameters.target_language
    if target is None or is_same_language(words.spoken.language, target):
        return None
    return await translated(ctx, words.spoken, target)
