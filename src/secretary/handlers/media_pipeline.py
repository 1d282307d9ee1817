"""The pipeline of recording jobs, in the order in which a recording is processed: resolve the
source, get the transcript, translate it, assemble the results, keep the recording."""

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ..core.callables import LazyCallable
from ..core.errors import FileTooLarge, InvalidParameters
from ..core.files import safe_name
from ..core.job import Progress
from ..core.languages import is_same_language, language_code
from ..documents.assembly import RESULTS_FILE
from ..jobs.handler import JobContext
from ..media.probe import Chapter, Recording
from ..media.slides import Slide, SlideText
from ..media.transcript import (
    MARKDOWN_FILE,
    ORIGINAL,
    SRT_FILE,
    TEXT_FILE,
    VTT_FILE,
    StoredTranscript,
    Transcript,
    TranscriptImage,
    format_clock,
)
from ..storage.sources import SourceFile, parse_source
from .document_pipeline import Document, check_source, start
from .parameters import (
    Frame,
    KeptRecording,
    LanguageParameters,
    RecordingResults,
    SubtitleFiles,
    is_from_cache,
)
from .text_generation import apply_requested_template
from .transcription import (
    FFMPEG_GRACE,
    Subtitles,
    download_subtitles,
    find_subtitles,
    select_sound_track,
    transcribe,
    transcript_from_subtitles,
)
from .translation import translate_transcript

if TYPE_CHECKING:
    from ..media.ytdlp.metadata import MediaKind, SiteMedia

PROBE: LazyCallable[Recording] = LazyCallable("media.probe", "probe")
WRITE_TRANSCRIPT: LazyCallable[None] = LazyCallable("media.transcript", "write_transcript")

#: A recording may take hours, and an engine as long as the recording.
TIMEOUT = timedelta(hours=24)
PROBE_TIMEOUT = timedelta(minutes=2)
MEGABYTE = 1_000_000
#: The share of the progress that a download has.
FIRST_PERCENT, LAST_PERCENT = 5, 10


class RecordingParameters(LanguageParameters):
    source_language: str | None = Field(
        default=None,
        max_length=35,
        description="Spoken language, such as `en`. Detected automatically if omitted.",
    )
    target_language: str | None = Field(
        default=None, max_length=35, description="Language to translate the transcript into"
    )
    subtitles_url: str | None = Field(
        default=None, max_length=8000, description="URL of subtitles, as SubRip or WebVTT"
    )
    use_subtitles: bool = Field(
        default=True, description="Use existing subtitles instead of transcribing"
    )


RecordingContext = JobContext[RecordingParameters]

# Resolve the source -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the site that the recording is from says about it."""

    title: str | None = None
    #: The spoken language, as a two-letter code.
    language: str | None = None
    chapters: Sequence[Chapter] = ()
    subtitles: Sequence[Subtitles] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Media:
    """The source of a job: its file, where it is from, and its tracks."""

    document: Document
    origin: Origin
    recording: Recording


async def resolve_media(
    ctx: RecordingContext, accepted: frozenset[str], kind: "MediaKind"
) -> Media:
    """Fetch the source, from a media site if need be, and probe it."""
    await start(ctx)
    source, origin = await _fetch(ctx, kind)
    document = await check_source(source, accepted)
    return Media(document, origin, await _probe(ctx, document))


async def _fetch(ctx: RecordingContext, kind: "MediaKind") -> tuple[SourceFile, Origin]:
    how, value = parse_source(ctx.parameters)
    if how != "url":
        return await ctx.source(), Origin()
    from ..media.ytdlp.fetch import fetch_media  # most recordings are files
    from ..media.ytdlp.metadata import SiteMedia, SiteRequest

    language = language_code(ctx.parameters.source_language or "")
    request = SiteRequest(
        url=str(value),
        directory=ctx.scratch,
        kind=kind,
        allow_hosts=ctx.sources.allow_hosts,
        limits=ctx.sources.limits,
        max_duration=ctx.media.max_duration,
        languages=(language,) if language else (),
    )
    media = await fetch_media(request, ctx.run, ctx.sources.network, _download_reporter(ctx))
    if not isinstance(media, SiteMedia):
        return media, Origin()
    name = safe_name(f"{media.title or media.site}{Path(media.path).suffix}")
    return SourceFile(media.path, name), _origin(media)


def _origin(media: "SiteMedia") -> Origin:
    metadata = {
        "page_url": media.page_url,
        "site": media.site,
        "description": media.description,
        "uploader": media.uploader,
        "uploaded_on": media.uploaded_on.isoformat() if media.uploaded_on else None,
    }
    return Origin(
        title=media.title,
        language=language_code(media.language or ""),
        chapters=media.chapters,
        subtitles=[
            Subtitles(
                origin=f"from {media.site}",
                language=language_code(subtitles.language),
                path=subtitles.path,
            )
            for subtitles in media.subtitles
        ],
        metadata={name: value for name, value in metadata.items() if value is not None},
    )


def _download_reporter(ctx: RecordingContext) -> Callable[[int, int | None], None]:
    def report(done: int, total: int | None) -> None:
        share = min(done / total, 1.0) if total else 0.0
        of_total = f" of {total / MEGABYTE:,.1f}" if total else ""
        ctx.reporter.progress(
            Progress(
                step="downloading_or_opening",
                percent=FIRST_PERCENT + int((LAST_PERCENT - FIRST_PERCENT) * share),
                message=f"{done / MEGABYTE:,.1f}{of_total} MB downloaded",
            )
        )

    return report


async def _probe(ctx: RecordingContext, document: Document) -> Recording:
    probe = partial(
        PROBE, document.path, program=ctx.media.ffmpeg, timeout_s=PROBE_TIMEOUT.total_seconds()
    )
    recording = await ctx.run(probe, wall_time=PROBE_TIMEOUT + FFMPEG_GRACE)
    limit = ctx.media.max_duration.total_seconds()
    if recording.duration is not None and recording.duration > limit:
        raise FileTooLarge(
            f"The recording is {format_clock(recording.duration)} long;"
            f" the limit is {format_clock(limit)}",
            seconds=recording.duration,
            limit_seconds=limit,
        )
    return recording


# Get the transcript -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenText:
    """The transcript of a recording, and where it is from."""

    spoken: StoredTranscript
    #: The cache entry, relative to the data directory.
    directory: str
    metadata: Mapping[str, Any]
    processed: bool


async def get_transcript(
    ctx: RecordingContext, media: Media, *, last_percent: int = 90
) -> SpokenText:
    """Use subtitles if there are any, else transcribe."""
    language = _spoken_language(ctx.parameters)
    if ctx.parameters.use_subtitles:
        transcript = await _use_subtitles(ctx, media, language)
        if transcript is not None:
            return transcript
    transcribed = await transcribe(
        ctx,
        media.document,
        media.recording,
        language=language or media.origin.language,
        last_percent=last_percent,
    )
    return SpokenText(
        spoken=transcribed.spoken,
        directory=transcribed.entry.name,
        metadata={
            "engine": transcribed.engine,
            "duration": round(transcribed.seconds, 3),
            "sound_track": transcribed.track,
            "source_language": transcribed.spoken.language,
        },
        processed=transcribed.processed,
    )


def _spoken_language(parameters: RecordingParameters) -> str | None:
    """The two-letter code; None if the language is to be detected."""
    name = parameters.source_language
    if name is None or name.strip().lower() in ("", "auto"):
        return None
    code = language_code(name)
    if code is None:
        raise InvalidParameters(f"source_language: {name!r} is not a known language")
    return code


async def _use_subtitles(
    ctx: RecordingContext, media: Media, language: str | None
) -> SpokenText | None:
    document, recording, origin = media.document, media.recording, media.origin
    is_local = parse_source(ctx.parameters)[0] == "path"
    available = [
        *await download_subtitles(ctx, ctx.parameters.subtitles_url),
        *origin.subtitles,
        *find_subtitles(document, recording, search_directory=is_local),
    ]
    spoken_in = language or origin.language
    if spoken_in is None and recording.audio_tracks:
        spoken_in = select_sound_track(recording, None).language
    transcript = await transcript_from_subtitles(ctx, document, available, spoken_in)
    if transcript is None:
        return None
    spoken, entry, used = transcript
    metadata = {"engine": "subtitles", "subtitles": used, "source_language": spoken.language}
    return SpokenText(spoken=spoken, directory=entry.name, metadata=metadata, processed=False)


async def _translate(ctx: RecordingContext, transcript: SpokenText) -> StoredTranscript | None:
    target = ctx.parameters.target_language
    if target is None or is_same_language(transcript.spoken.language, target):
        return None
    return await translate_transcript(ctx, transcript.spoken, target)


# Assemble the results ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedSlides:
    slides: Sequence[Slide]
    #: The text of each slide; empty if it was not requested.
    texts: Sequence[SlideText]
    #: The cache entry, relative to the data directory.
    directory: str
    processed: bool

    def with_texts(self) -> list[tuple[Slide, str | None]]:
        if not self.texts:
            return [(slide, None) for slide in self.slides]
        return [(slide, text.text) for slide, text in zip(self.slides, self.texts, strict=True)]


async def assemble_results(
    ctx: RecordingContext,
    media: Media,
    transcript: SpokenText | None,
    slides: ExtractedSlides | None = None,
) -> RecordingResults:
    """Translate the transcript if requested, write the files, and apply the job's template."""
    document, recording, origin = media.document, media.recording, media.origin
    translation = await _translate(ctx, transcript) if transcript else None
    await ctx.progress("postprocessing", 95, "Assembling the transcript")
    title = origin.title or recording.tags.get("title") or PurePath(document.source.name).stem
    chapters = origin.chapters or recording.chapters
    shown = slides.with_texts() if slides else []
    output = Transcript(
        directory=str(ctx.directory),
        spoken=transcript.spoken if transcript else None,
        translation=translation,
        title=title,
        chapters=chapters,
        images=[
            TranscriptImage(time=slide.time, file=slide.file_name, text=text or "")
            for slide, text in shown
        ],
    )
    await ctx.run(WRITE_TRANSCRIPT, output)
    source = document.source
    frames = [
        Frame(
            time=slide.time,
            end=slide.end,
            file=slide.file_name,
            text=text,
        )
        for slide, text in shown
    ]
    parts = [part for part in (transcript, slides) if part is not None]
    directory = parts[0].directory if parts else None
    results = RecordingResults(
        markdown_file=MARKDOWN_FILE,
        transcript_file=TEXT_FILE if transcript else None,
        subtitles=_subtitle_files() if transcript else None,
        original_subtitles=_subtitle_files(ORIGINAL) if translation else None,
        frames=frames,
        assets=[frame.file for frame in frames],
        asset_dir=directory,
        target_dir=directory,
        archive_filename=f"{PurePath(source.name).stem or 'recording'}_files.zip",
        context=ctx.parameters.context,
        is_from_cache=is_from_cache(ctx, processed=any(part.processed for part in parts)),
        metadata={
            "file_name": source.name,
            "file_size": source.path.stat().st_size,
            "title": title,
            "format": recording.format,
            "duration": recording.duration,
            **(transcript.metadata if transcript else {}),
            "chapters": [asdict(chapter) for chapter in chapters],
            **origin.metadata,
        },
        recording=await _keep_recording(ctx, document, recording),
        llm_info=ctx.llm.info(),
        more_in=RESULTS_FILE,
    )
    return await apply_requested_template(ctx, results, MARKDOWN_FILE)


def _subtitle_files(prefix: str = "") -> SubtitleFiles:
    return SubtitleFiles(srt=prefix + SRT_FILE, vtt=prefix + VTT_FILE)


# Keep the recording -----------------------------------------------------------------------------

#: What browsers play: suffix and media type by file type, as `file_types` detects it.
PLAYABLE_AUDIO: Mapping[str, tuple[str, str]] = {
    "mp3": (".mp3", "audio/mpeg"),
    "mp4": (".m4a", "audio/mp4"),
    "aac": (".aac", "audio/aac"),
    "ogg": (".ogg", "audio/ogg"),
    "webm": (".weba", "audio/webm"),
    "wav": (".wav", "audio/wav"),
    "flac": (".flac", "audio/flac"),
}
PLAYABLE_VIDEO: Mapping[str, tuple[str, str]] = {
    "mp4": (".mp4", "video/mp4"),
    "webm": (".webm", "video/webm"),
}
#: A container that browsers play may hold codecs that they do not.
AUDIO_CODECS = frozenset({"aac", "mp3", "opus", "vorbis", "flac"})
VIDEO_CODECS = frozenset({"h264", "vp8", "vp9", "av1", "hevc"})
#: Browsers play WebM but no other Matroska file; which one it is stands in the first bytes.
WEBM_HEADER_BYTES = 64

NotKept = Literal["off", "too_large", "not_playable", "no_room"]


async def _keep_recording(
    ctx: RecordingContext, document: Document, recording: Recording
) -> KeptRecording:
    """Keep the recording with the results if browsers can play it and it is not too large."""
    path = document.source.path
    size, limit = path.stat().st_size, ctx.media.keep_recording_bytes

    def not_kept(reason: NotKept) -> KeptRecording:
        return KeptRecording(file=None, media_type=None, file_size=size, not_kept=reason)

    playable = await asyncio.to_thread(_playable_as, path, document.file_type, recording)
    if playable is None:
        return not_kept("not_playable")
    if size > limit:
        return not_kept("too_large" if limit else "off")
    suffix, media_type = playable
    name = f"recording{suffix}"
    if not await asyncio.to_thread(_link_or_copy, path, ctx.directory / name):
        await ctx.log("There is no space left to keep the recording with the results", "warning")
        return not_kept("no_room")
    return KeptRecording(file=name, media_type=media_type, file_size=size, not_kept=None)


def _playable_as(path: Path, file_type: str | None, recording: Recording) -> tuple[str, str] | None:
    playable = (PLAYABLE_VIDEO if recording.video_tracks else PLAYABLE_AUDIO).get(file_type or "")
    if playable is None or not _has_playable_codecs(file_type, recording):
        return None
    if file_type == "webm":
        with path.open("rb") as file:
            if b"webm" not in file.read(WEBM_HEADER_BYTES):
                return None
    return playable


def _has_playable_codecs(file_type: str | None, recording: Recording) -> bool:
    """Players take the first track of each kind."""
    video, audio = recording.video_tracks[:1], recording.audio_tracks[:1]
    return all(track.codec in VIDEO_CODECS for track in video) and all(
        track.codec in AUDIO_CODECS or (file_type == "wav" and track.codec.startswith("pcm_"))
        for track in audio
    )


def _link_or_copy(source: Path, target: Path) -> bool:
    """A hard link, where possible: the upload or download is deleted when the job ends."""
    target.unlink(missing_ok=True)
    with suppress(OSError):  # another file system, or one without links
        os.link(source, target)
        return True
    try:
        shutil.copyfile(source, target)
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True
