"""What is said in a recording, and how the results come of it."""

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ..core.callables import LazyCallable
from ..core.errors import InvalidParameters
from ..core.file_types import safe_name
from ..core.job import RESULTS_FILE_KEY, Job, Progress
from ..core.languages import is_same_language, language_code
from ..documents.assembly import RESULTS_FILE
from ..jobs.handler import JobContext
from ..media.recording import Chapter
from ..media.transcript import (
    MARKDOWN_FILE,
    ORIGINAL,
    SRT_FILE,
    TEXT_FILE,
    VTT_FILE,
    Spoken,
    Transcript,
)
from ..storage.sources import SourceFile, named_source
from .cache_policy import archive_url, file_url, is_from_cache
from .document_pipeline import Document, begin, checked
from .existing_subtitles import Subtitles, spoken_by_subtitles, subtitles_at, subtitles_of
from .parameters import LanguageParameters
from .slide_extraction import Frames
from .text_generation import with_template
from .transcription import chosen_track, transcribe
from .translation import translated

if TYPE_CHECKING:
    from ..media.recording import Recording
    from ..media.ytdlp.media import SiteMedia, Want

#: What browsers play: the ending and the media type of each kind of file, as `file_kinds` tells.
SOUND: Mapping[str, tuple[str, str]] = {
    "mp3": (".mp3", "audio/mpeg"),
    "mp4": (".m4a", "audio/mp4"),
    "aac": (".aac", "audio/aac"),
    "ogg": (".ogg", "audio/ogg"),
    "webm": (".weba", "audio/webm"),
    "wav": (".wav", "audio/wav"),
    "flac": (".flac", "audio/flac"),
}
MOVING: Mapping[str, tuple[str, str]] = {
    "mp4": (".mp4", "video/mp4"),
    "webm": (".webm", "video/webm"),
}
#: A container that browsers know may hold what none of them decodes.
SOUND_CODECS = frozenset({"aac", "mp3", "opus", "vorbis", "flac"})
PICTURE_CODECS = frozenset({"h264", "vp8", "vp9", "av1", "hevc"})
#: WebM is a kind of Matroska, and says so in its first bytes; browsers know no other kind.
HEAD = 64

WhyNot = Literal["off", "too_large", "not_playable", "no_room"]


async def keep_recording(
    ctx: JobContext[Any], document: Document, recording: "Recording"
) -> dict[str, Any]:
    """For the results: where it is, or why it was not kept."""
    path = document.source.path
    form, why_not = await asyncio.to_thread(_form, path, document.kind, recording)
    size, limit = path.stat().st_size, ctx.media.keep_recording_bytes
    if form is not None and size > limit:
        form, why_not = None, "too_large" if limit else "off"
    name = f"recording{form[0]}" if form else ""
    if form is not None and not await asyncio.to_thread(_linked, path, ctx.directory / name):
        await ctx.log("There is no room to keep the recording with the results", "warning")
        form, why_not = None, "no_room"
    if form is None:
        return {"url": None, "media_type": None, "file_size": size, "not_kept": why_not}
    url = file_url(ctx.job, name)
    return {"url": url, "media_type": form[1], "file_size": size, "not_kept": None}


def _form(
    path: Path, kind: str | None, recording: "Recording"
) -> tuple[tuple[str, str] | None, WhyNot | None]:
    form = (MOVING if recording.pictures else SOUND).get(kind or "")
    if form is None or not _is_decoded(kind, recording):
        return None, "not_playable"
    if kind == "webm":
        with path.open("rb") as file:
            if b"webm" not in file.read(HEAD):
                return None, "not_playable"
    return form, None


def _is_decoded(kind: str | None, recording: "Recording") -> bool:
    """Players take the first track of each."""
    pictures, sounds = recording.pictures[:1], recording.sounds[:1]
    return all(track.codec in PICTURE_CODECS for track in pictures) and all(
        track.codec in SOUND_CODECS or (kind == "wav" and track.codec.startswith("pcm_"))
        for track in sounds
    )


def _linked(source: Path, target: Path) -> bool:
    """Another name for the same file: the upload or download loses its own when the job ends."""
    target.unlink(missing_ok=True)
    with suppress(OSError):  # another disk, or one without links
        os.link(source, target)
        return True
    try:
        shutil.copyfile(source, target)
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True


MEGABYTE = 1_000_000
#: So much of the progress is the download's.
FIRST_PERCENT, LAST_PERCENT = 5, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the place that the recording came from says about it."""

    title: str | None = None
    #: What is spoken, two letters.
    language: str | None = None
    chapters: Sequence[Chapter] = ()
    subtitles: Sequence[Subtitles] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


async def find_recording(
    ctx: JobContext[Any], kinds: frozenset[str], want: "Want"
) -> tuple[Document, Origin]:
    await begin(ctx)
    how, value = named_source(ctx.parameters)
    if how != "url":
        return await checked(await ctx.source(), kinds), Origin()
    from ..media.ytdlp.fetch import media_source  # most recordings are files
    from ..media.ytdlp.media import SiteMedia, SiteRequest

    asked = ctx.parameters.source_language
    request = SiteRequest(
        url=str(value),
        into=ctx.scratch,
        want=want,
        allow_hosts=ctx.sources.allow_hosts,
        limits=ctx.sources.limits,
        max_duration=ctx.media.max_duration,
        languages=tuple(filter(None, [language_code(asked or "")])),
    )
    found = await media_source(request, ctx.run, _teller(ctx))
    if isinstance(found, SiteMedia):
        source = SourceFile(found.path, _name_of(found))
        return await checked(source, kinds), _origin(found)
    return await checked(found, kinds), Origin()


def _name_of(found: "SiteMedia") -> str:
    return safe_name(f"{found.title or found.site}{Path(found.path).suffix}")


def _origin(found: "SiteMedia") -> Origin:
    told = {
        "page_url": found.page_url,
        "site": found.site,
        "description": found.description,
        "uploader": found.uploader,
        "uploaded_on": found.uploaded_on.isoformat() if found.uploaded_on else None,
    }
    return Origin(
        title=found.title,
        language=language_code(found.language or ""),
        chapters=found.chapters,
        subtitles=[
            Subtitles(
                origin=f"from {found.site}",
                language=language_code(one.language),
                path=one.path,
            )
            for one in found.subtitles
        ],
        facts={name: value for name, value in told.items() if value is not None},
    )


def _teller(ctx: JobContext[Any]) -> Callable[[int, int | None], None]:
    def tell(done: int, total: int | None) -> None:
        share = min(done / total, 1.0) if total else 0.0
        of = f" of {total / MEGABYTE:,.1f}" if total else ""
        ctx.reporter.progress(
            Progress(
                step="downloading_or_opening",
                percent=FIRST_PERCENT + int((LAST_PERCENT - FIRST_PERCENT) * share),
                message=f"{done / MEGABYTE:,.1f}{of} MB are here",
            )
        )

    return tell


def recording_results(
    job: Job,
    source: SourceFile,
    *,
    directory: str | None,
    facts: Mapping[str, Any],
    frames: Sequence[Mapping[str, Any]],
    has_transcript: bool,
    is_translated: bool,
    is_from_cache: bool,
    context: Mapping[str, Any] | None,
) -> dict[str, Any]:
    def subtitles(prefix: str = "") -> dict[str, str]:
        return {"srt": file_url(job, prefix + SRT_FILE), "vtt": file_url(job, prefix + VTT_FILE)}

    shown = [{**frame, "url": file_url(job, frame["file"])} for frame in frames]
    return {
        "markdown_file": file_url(job, MARKDOWN_FILE),
        "markdown_content": None,
        "transcription": None,
        "transcript_file": file_url(job, TEXT_FILE) if has_transcript else None,
        "subtitles": subtitles() if has_transcript else None,
        "original_subtitles": subtitles(ORIGINAL) if is_translated else None,
        "frames": shown,
        "assets": [frame["url"] for frame in shown],
        "asset_dir": directory,
        "target_dir": directory,
        "archive_url": archive_url(job),
        "archive_filename": f"{PurePath(source.name).stem or 'recording'}_files.zip",
        "context": context,
        "is_from_cache": is_from_cache,
        "metadata": {
            "file_name": source.name,
            "file_size": source.path.stat().st_size,
            **facts,
        },
        RESULTS_FILE_KEY: RESULTS_FILE,
    }


PUT_TOGETHER: LazyCallable[None] = LazyCallable("media.transcript", "put_together")


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
