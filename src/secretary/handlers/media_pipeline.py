"""The pipeline of recording jobs, in the order in which a recording is processed: resolve the
source, get the transcript, translate it, assemble the results, keep the recording."""

import asyncio
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pydantic import Field

from ..core.callables import LazyCallable
from ..core.errors import FileTooLarge, InvalidParameters
from ..core.files import safe_name
from ..core.job import JobWarning, Progress
from ..core.languages import is_same_language, language_code
from ..documents.assembly import RESULTS_FILE
from ..jobs.handler import JobContext
from ..jobs.job_log import counted, format_seconds, source_line
from ..media.probe import Chapter, Recording
from ..media.transcript import (
    MARKDOWN_FILE,
    ORIGINAL,
    SRT_FILE,
    TEXT_FILE,
    VTT_FILE,
    Transcript,
    TranscriptImage,
    format_clock,
)
from ..storage.sources import SourceFile, parse_source
from . import transcription
from .document_pipeline import Document, check_source, start
from .parameters import (
    Frame,
    KeptRecording,
    RecordingResults,
    SubtitleFiles,
    is_from_cache,
    text_field,
)
from .text_generation import apply_requested_template
from .translation import (
    TranslationParameters,
    check_translation,
    translate_transcript,
    untranslated_warnings,
)

if TYPE_CHECKING:
    from ..media.ytdlp.metadata import MediaKind, SiteMedia

PROBE: LazyCallable[Recording] = LazyCallable("media.probe", "probe", returns=Recording)
WRITE_TRANSCRIPT: LazyCallable[None] = LazyCallable(
    "media.transcript", "write_transcript", returns=None
)

#: A recording may take hours, and an engine as long as the recording.
TIMEOUT = timedelta(hours=24)
PROBE_TIMEOUT = timedelta(minutes=2)
MEGABYTE = 1_000_000
#: The share of the progress that a download has.
FIRST_PERCENT, LAST_PERCENT = 5, 10
#: Tracks that the log lists.
MAX_TRACKS = 8


class RecordingParameters(TranslationParameters):
    source_language: str | None = text_field(
        35, "Spoken language, such as `en`. Detected automatically if omitted."
    )
    target_language: str | None = text_field(35, "Language to translate the transcript into")
    subtitles_url: str | None = text_field(8000, "URL of subtitles, as SubRip or WebVTT")
    use_subtitles: bool = Field(
        default=True, description="Use existing subtitles instead of transcribing"
    )


RecordingContext = JobContext[RecordingParameters]

# Resolve the source -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Media:
    """The source of a job: its file, what the site that it is from says about it, its tracks."""

    document: Document
    site: "SiteMedia | None"
    recording: Recording

    @property
    def title(self) -> str:
        own = (self.site and self.site.title) or self.recording.tags.get("title")
        return own or PurePath(self.document.source.name).stem

    @property
    def chapters(self) -> Sequence[Chapter]:
        return (self.site and self.site.chapters) or self.recording.chapters


async def resolve_media(
    ctx: RecordingContext, accepted: frozenset[str], kind: "MediaKind"
) -> Media:
    """Fetch the source, from a media site if need be, and probe it."""
    check_translation(ctx, ctx.parameters.source_language)
    await start(ctx)
    source, site = await _fetch(ctx, kind)
    document = await check_source(source, accepted)
    recording = await transcription.run_with_ffmpeg(ctx, PROBE, document.path, limit=PROBE_TIMEOUT)
    limit = ctx.media.max_duration.total_seconds()
    if recording.duration is not None and recording.duration > limit:
        raise FileTooLarge(
            f"The recording is {format_clock(recording.duration)} long;"
            f" the limit is {format_clock(limit)}",
            seconds=recording.duration,
            limit_seconds=limit,
        )
    media = Media(document, site, recording)
    await ctx.log(_recording_line(media))
    return media


def _recording_line(media: Media) -> str:
    recording = media.recording
    length = format_clock(recording.duration) if recording.duration else "unknown length"
    codecs = [track.codec for track in recording.video_tracks]
    codecs += [track.codec for track in recording.audio_tracks]
    tracks = ", ".join(codecs[:MAX_TRACKS]) or "no tracks"
    subtitles = counted(len(recording.subtitle_tracks), "subtitle track")
    return f"Recording: {recording.format}, {length}, {tracks}, {subtitles}"


async def _fetch(ctx: RecordingContext, kind: "MediaKind") -> "tuple[SourceFile, SiteMedia | None]":
    how, value = parse_source(ctx.parameters)
    if how != "url":
        return await ctx.source(), None
    from ..media.ytdlp.fetch import fetch_media  # most recordings are files
    from ..media.ytdlp.metadata import SiteRequest

    language = language_code(ctx.parameters.source_language or "")
    request = SiteRequest(
        url=str(value),
        directory=ctx.scratch,
        kind=kind,
        allow_hosts=ctx.sources.allow_hosts,
        allow_private=ctx.sources.allow_private,
        limits=ctx.sources.limits,
        max_duration=ctx.media.max_duration,
        languages=(language,) if language else (),
    )

    def report(done: int, total: int | None) -> None:
        share = min(done / total, 1.0) if total else 0.0
        percent = FIRST_PERCENT + int((LAST_PERCENT - FIRST_PERCENT) * share)
        of_total = f" of {total / MEGABYTE:,.1f}" if total else ""
        message = f"{done / MEGABYTE:,.1f}{of_total} MB downloaded"
        ctx.reporter.progress(
            Progress(step="downloading_or_opening", percent=percent, message=message)
        )

    started = time.monotonic()
    media = await fetch_media(request, ctx.run, ctx.sources.network, report)
    seconds = format_seconds(time.monotonic() - started)
    if isinstance(media, SourceFile):
        size = await asyncio.to_thread(lambda: media.path.stat().st_size)
        host = urlsplit(str(value)).hostname
        await ctx.log(source_line(media.name, size, f"downloaded from {host} in {seconds}"))
        return media, None
    name = safe_name(f"{media.title or media.site}{Path(media.path).suffix}")
    size = await asyncio.to_thread(lambda: Path(media.path).stat().st_size)
    await ctx.log(source_line(name, size, f"downloaded from {media.site} in {seconds}"))
    return SourceFile(media.path, name), media


# Get the transcript -----------------------------------------------------------------------------


async def get_transcript(
    ctx: RecordingContext, media: Media, *, last_percent: int = 90
) -> transcription.SpokenText:
    """Use subtitles if there are any, else transcribe."""
    document, recording = media.document, media.recording
    declared = media.site.language if media.site else None
    language = _spoken_language(ctx.parameters) or language_code(declared or "")
    if ctx.parameters.use_subtitles:
        is_local = parse_source(ctx.parameters)[0] == "path"
        site, files = (media.site.site, media.site.subtitles) if media.site else ("", {})
        from_site = [
            transcription.Subtitles(origin=f"from {site}", language=language_code(tag), path=path)
            for tag, path in files.items()
        ]
        available = [
            *await transcription.download_subtitles(ctx, ctx.parameters.subtitles_url),
            *from_site,
            *transcription.find_subtitles(document, recording, search_directory=is_local),
        ]
        spoken_in = language
        if spoken_in is None and recording.audio_tracks:
            spoken_in = transcription.select_sound_track(recording, None).language
        transcript = await transcription.transcript_from_subtitles(
            ctx, document, available, spoken_in
        )
        if transcript is not None:
            return transcript
    return await transcription.transcribe(
        ctx,
        document,
        recording,
        language=language,
        last_percent=last_percent,
        on_language=partial(check_translation, ctx),
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


# Assemble the results ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedSlides:
    frames: list[Frame]
    #: The cache entry, relative to the data directory.
    directory: str
    processed: bool


async def assemble_results(
    ctx: RecordingContext,
    media: Media,
    transcript: transcription.SpokenText | None,
    slides: ExtractedSlides | None = None,
) -> RecordingResults:
    """Translate the transcript if requested, write the files, and apply the job's template."""
    target, translation = ctx.parameters.target_language, None
    warnings: list[JobWarning] = []
    if transcript and target and not is_same_language(transcript.spoken.language, target):
        warnings = await untranslated_warnings(ctx, transcript.spoken.language)
        if not warnings:
            translation = await translate_transcript(ctx, transcript.spoken, target)
    await ctx.progress("postprocessing", 95, "Assembling the transcript")
    frames = slides.frames if slides else []
    output = Transcript(
        directory=str(ctx.directory),
        spoken=transcript.spoken if transcript else None,
        translation=translation,
        title=media.title,
        chapters=media.chapters,
        images=[TranscriptImage(frame.time, frame.file, frame.text or "") for frame in frames],
    )
    await ctx.run(WRITE_TRANSCRIPT, output)
    translated = (
        f", translated from {transcript.spoken.language}" if translation and transcript else ""
    )
    text = "transcript" if transcript else "no transcript"
    await ctx.log(f"Output: {text}{translated}, {counted(len(frames), 'slide')}")
    recording = await asyncio.to_thread(_keep_recording, ctx, media)
    if recording.not_kept == "no_room":
        await ctx.log("There is no space left to keep the recording with the results", "warning")
    parts = [part for part in (transcript, slides) if part is not None]
    directory = parts[0].directory if parts else None
    name = media.document.source.name
    results = RecordingResults(
        markdown_file=MARKDOWN_FILE,
        transcript_file=TEXT_FILE if transcript else None,
        subtitles=_subtitle_files() if transcript else None,
        original_subtitles=_subtitle_files(ORIGINAL) if translation else None,
        frames=frames,
        assets=[frame.file for frame in frames],
        asset_dir=directory,
        target_dir=directory,
        archive_filename=f"{PurePath(name).stem or 'recording'}_files.zip",
        context=ctx.parameters.context,
        is_from_cache=is_from_cache(ctx, processed=any(part.processed for part in parts)),
        metadata={
            "file_name": name,
            "file_size": media.document.source.path.stat().st_size,
            "title": media.title,
            "format": media.recording.format,
            "duration": media.recording.duration,
            **_track_metadata(media),
            **(transcript.metadata if transcript else {}),
            **(_site_metadata(media.site) if media.site else {}),
        },
        recording=recording,
        warnings=warnings,
        chapters=[asdict(chapter) for chapter in media.chapters],
        llm_info=ctx.llm.info(),
        more_in=RESULTS_FILE,
    )
    if not ctx.parameters.wants_template:
        return results
    return await apply_requested_template(ctx, results, MARKDOWN_FILE)


def _track_metadata(media: Media) -> dict[str, int]:
    """Of the first audio track; the bit rate is that of the whole file."""
    metadata: dict[str, int] = {}
    for track in media.recording.audio_tracks[:1]:
        metadata["channels"] = track.channels
        if track.sample_rate:
            metadata["sample_rate"] = track.sample_rate
    if seconds := media.recording.duration:
        metadata["bit_rate"] = round(media.document.source.path.stat().st_size * 8 / seconds)
    return metadata


def _site_metadata(site: "SiteMedia") -> dict[str, str]:
    uploaded_on = site.uploaded_on.isoformat() if site.uploaded_on else None
    names = ("page_url", "site", "description", "uploader")
    metadata = {**{name: getattr(site, name) for name in names}, "uploaded_on": uploaded_on}
    return {name: value for name, value in metadata.items() if value is not None}


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


def _keep_recording(ctx: RecordingContext, media: Media) -> KeptRecording:
    """Keep the recording with the results if browsers can play it and it is not too large."""
    path = media.document.source.path
    size, limit = path.stat().st_size, ctx.media.keep_recording_mb * 1024 * 1024

    def not_kept(reason: NotKept) -> KeptRecording:
        return KeptRecording(file=None, media_type=None, file_size=size, not_kept=reason)

    playable = _playable_as(path, media.document.file_type, media.recording)
    if playable is None:
        return not_kept("not_playable")
    if size > limit:
        return not_kept("too_large" if limit else "off")
    suffix, media_type = playable
    target = ctx.directory / f"recording{suffix}"
    target.unlink(missing_ok=True)
    try:
        link_or_copy(path, target)
    except OSError:
        target.unlink(missing_ok=True)
        return not_kept("no_room")
    return KeptRecording(file=target.name, media_type=media_type, file_size=size, not_kept=None)


def _playable_as(path: Path, file_type: str | None, recording: Recording) -> tuple[str, str] | None:
    # Players take the first track of each kind.
    for video in recording.video_tracks[:1]:
        if video.codec not in VIDEO_CODECS:
            return None
    for audio in recording.audio_tracks[:1]:
        is_pcm = file_type == "wav" and audio.codec.startswith("pcm_")
        if audio.codec not in AUDIO_CODECS and not is_pcm:
            return None
    if file_type == "webm":
        with path.open("rb") as file:
            if b"webm" not in file.read(WEBM_HEADER_BYTES):
                return None
    return (PLAYABLE_VIDEO if recording.video_tracks else PLAYABLE_AUDIO).get(file_type or "")


def link_or_copy(source: Path, target: Path) -> None:
    """A hard link, where possible: the source is deleted when the job ends, linked files stay."""
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)
