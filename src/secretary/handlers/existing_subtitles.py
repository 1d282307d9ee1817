"""Subtitles that exist already: beside the file, inside it, at a URL or from the site it is from.
They replace the transcription."""

import asyncio
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from ..core.callables import LazyCallable
from ..core.errors import DownloadFailed, FileCorrupt, FileTooLarge, UnsupportedFile
from ..core.languages import is_same_language, language_code
from ..media.recording import Recording, SubtitleTrack
from ..media.speech.engines import TimedText, Transcription
from ..media.transcript import StoredTranscript, encode_record
from ..storage import append_log
from ..storage.cache import CacheEntry
from ..version import __version__
from .document_pipeline import Document
from .parameters import reusable_since
from .transcription import FFMPEG_GRACE, MediaContext

LOAD: LazyCallable[list[TimedText]] = LazyCallable("media.subtitles", "load_subtitles")
EXTRACT: LazyCallable[str] = LazyCallable("media.subtitles", "extract_subtitles")
PARSE: LazyCallable[list[TimedText]] = LazyCallable("media.subtitles", "parse_subtitles")
DETECT_LANGUAGE: LazyCallable[str | None] = LazyCallable(
    "media.subtitles", "detect_subtitle_language"
)

LOAD_TIMEOUT = timedelta(minutes=2)
EXTRACT_TIMEOUT = timedelta(minutes=15)
SUFFIXES = (".vtt", ".srt")
#: `talk.de.vtt`, `talk.en-GB.srt`.
LANGUAGE_IN_NAME = re.compile(r"\.([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})?)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtitles:
    """A file or a track, and its language where that is known."""

    origin: str
    language: str | None
    path: Path | None = None
    track: SubtitleTrack | None = None


async def download_subtitles(ctx: MediaContext, url: str | None) -> list[Subtitles]:
    """Those at the URL that the client gave. If they are not available, the job goes on."""
    if url is None:
        return []
    try:
        file = await ctx.sources.download(url, ctx.scratch / "subtitles")
    except (DownloadFailed, FileTooLarge) as error:
        await ctx.log(f"The subtitles are not available: {error.message}", "warning")
        return []
    match = LANGUAGE_IN_NAME.search(os.path.splitext(file.name)[0])
    language = language_code(match[1]) if match else None
    return [Subtitles(origin="at subtitles_url", language=language, path=file.path)]


def find_subtitles(
    document: Document, recording: Recording, *, search_directory: bool
) -> list[Subtitles]:
    """Those in the directory of the file, where it may be searched, and those inside the file."""
    beside = list(_in_directory(document.source.path)) if search_directory else []
    inside = [
        Subtitles(origin="inside the file", language=track.language, track=track)
        for track in recording.subtitle_tracks
        if not track.is_forced  # these cover foreign-language parts and signs only
    ]
    return beside + inside


def _in_directory(path: Path) -> Iterator[Subtitles]:
    """Files with the same name. Symbolic links could lead to files that must not be read."""
    with os.scandir(path.parent) as entries:
        names = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    for name in names:
        stem, suffix = os.path.splitext(name)
        if suffix.lower() not in SUFFIXES or not stem.startswith(path.stem):
            continue
        rest = stem.removeprefix(path.stem)
        match = LANGUAGE_IN_NAME.fullmatch(rest)
        if not rest or (match and language_code(match[1])):
            language = language_code(match[1]) if match else None
            yield Subtitles(origin="beside the file", language=language, path=path.parent / name)


async def transcript_from_subtitles(
    ctx: MediaContext, document: Document, available: Sequence[Subtitles], spoken: str | None
) -> tuple[StoredTranscript, CacheEntry, str] | None:
    """The transcript by the first subtitles that can be used, with their origin."""
    for subtitles in _in_spoken_language(available, spoken):
        origin = subtitles.origin
        try:
            sentences = await _load(ctx, document, subtitles)
        except (FileCorrupt, FileTooLarge, UnsupportedFile) as error:
            await ctx.log(f"The subtitles {origin} cannot be used: {error.message}", "warning")
            continue
        language = subtitles.language or await ctx.run(DETECT_LANGUAGE, sentences) or spoken
        if spoken is not None and not is_same_language(language, spoken):
            await ctx.log(f"The subtitles {origin} are not in the spoken language", "warning")
            continue
        await ctx.log(f"Using the subtitles {origin}")
        code = language_code(language or "") or "und"
        transcript, entry = await _store(ctx, document, sentences, code)
        return transcript, entry, origin
    return None


def _in_spoken_language(available: Sequence[Subtitles], spoken: str | None) -> list[Subtitles]:
    """Those in the spoken language, then those of unknown language. A translation is not a
    transcript."""
    unknown = [subtitles for subtitles in available if subtitles.language is None]
    if spoken is None:
        languages = {subtitles.language for subtitles in available if subtitles.language}
        # With several languages it is unknown which of them is spoken.
        return list(available) if len(languages) <= 1 else unknown
    return [each for each in available if is_same_language(each.language, spoken)] + unknown


async def _load(ctx: MediaContext, document: Document, subtitles: Subtitles) -> list[TimedText]:
    if subtitles.track is None:
        return await ctx.run(LOAD, str(subtitles.path), wall_time=LOAD_TIMEOUT)
    extract = partial(
        EXTRACT,
        document.path,
        subtitles.track,
        timeout_s=EXTRACT_TIMEOUT.total_seconds(),
        program=ctx.media.ffmpeg,
    )
    text = await ctx.run(extract, wall_time=EXTRACT_TIMEOUT + FFMPEG_GRACE)
    return await ctx.run(PARSE, text, wall_time=LOAD_TIMEOUT)


async def _store(
    ctx: MediaContext, document: Document, sentences: Sequence[TimedText], language: str
) -> tuple[StoredTranscript, CacheEntry]:

    transcription = Transcription(language=language, confidence=1.0, segments=tuple(sentences))
    record = await asyncio.to_thread(encode_record, transcription)
    entry = await ctx.entry(
        "speech",
        document.sha256,
        "subtitles",
        options={"digest": hashlib.sha256(record).hexdigest()},
        version=f"secretary {__version__}",
    )
    since, directory = reusable_since(ctx), str(entry.directory)

    def store() -> None:
        if 0 not in append_log.index(directory, made_after=since):
            append_log.append(directory, 0, record, not_before=since)
            entry.save_metadata({})

    await asyncio.to_thread(store)
    return StoredTranscript(
        directory=directory, chunk_count=1, language=language, made_after=since
    ), entry
