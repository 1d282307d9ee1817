"""Subtitles that exist already: beside the file, inside it, or from the site it came from."""

import asyncio
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.callables import LazyCallable
from ..core.errors import DownloadFailed, FileCorrupt, FileTooLarge, UnsupportedFile
from ..core.languages import is_same_language, language_code
from ..jobs.handler import JobContext
from ..media.speech.engines import Transcription, Word
from ..storage import append_log
from ..storage.cache import CacheEntry
from ..version import __version__
from .cache_policy import made_after
from .document_pipeline import Document
from .transcription import GRACE

if TYPE_CHECKING:
    from ..media.recording import Recording, SubtitleTrack
    from ..media.transcript import Spoken

LOAD: LazyCallable[list[Word]] = LazyCallable("media.subtitles", "load_subtitles")
EXTRACT: LazyCallable[str] = LazyCallable("media.subtitles", "subtitles_of")
READ: LazyCallable[list[Word]] = LazyCallable("media.subtitles", "read_subtitles")
TELL_LANGUAGE: LazyCallable[str | None] = LazyCallable("media.subtitles", "language_of")

LOAD_TIMEOUT = timedelta(minutes=2)
EXTRACT_TIMEOUT = timedelta(minutes=15)
ENDINGS = (".vtt", ".srt")
#: `talk.de.vtt`, `talk.en-GB.srt`.
LANGUAGE_IN_NAME = re.compile(r"\.([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})?)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtitles:
    """Where some are, and in which language; None where nobody says."""

    origin: str
    language: str | None
    path: Path | None = None
    track: "SubtitleTrack | None" = None


def subtitles_of(
    document: Document, recording: "Recording", *, may_look_beside: bool
) -> list[Subtitles]:
    beside = list(_beside(document.source.path)) if may_look_beside else []
    inside = [
        Subtitles(origin="inside the file", language=track.language, track=track)
        for track in recording.subtitles
        if not track.is_forced  # only what is said in other languages, or written on walls
    ]
    return beside + inside


async def subtitles_at(ctx: JobContext[Any], url: str | None) -> list[Subtitles]:
    """Those that the client names; the job goes on without those that cannot be had."""
    if url is None:
        return []
    try:
        found = await ctx.sources.download(url, ctx.scratch / "subtitles")
    except (DownloadFailed, FileTooLarge) as error:
        await ctx.log(f"The subtitles cannot be had: {error.message}", "warning")
        return []
    stem = os.path.splitext(found.name)[0]
    told = LANGUAGE_IN_NAME.search(stem)
    language = language_code(told[1]) if told else None
    return [Subtitles(origin="at subtitles_url", language=language, path=found.path)]


def _beside(path: Path) -> Iterator[Subtitles]:
    """Files of the same name. A link might lead out of where we may read."""
    with os.scandir(path.parent) as entries:
        files = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    for name in files:
        stem, ending = os.path.splitext(name)
        if ending.lower() not in ENDINGS or not stem.startswith(path.stem):
            continue
        rest = stem.removeprefix(path.stem)
        found = LANGUAGE_IN_NAME.fullmatch(rest)
        if not rest or (found and language_code(found[1])):
            language = language_code(found[1]) if found else None
            yield Subtitles(origin="beside the file", language=language, path=path.parent / name)


def fitting(found: Sequence[Subtitles], spoken: str | None) -> list[Subtitles]:
    """Those in the language that is spoken, as far as that is known; a translation is no
    transcript. Then those that do not say, which come second."""
    if spoken is None:
        languages = {one.language for one in found if one.language}
        # In several languages, and nobody says which of them is spoken.
        return list(found) if len(languages) <= 1 else [one for one in found if not one.language]
    same = [one for one in found if is_same_language(one.language, spoken)]
    return same + [one for one in found if one.language is None]


async def spoken_by_subtitles(
    ctx: JobContext[Any], document: Document, found: Sequence[Subtitles], spoken: str | None
) -> "tuple[Spoken, CacheEntry, str] | None":
    """What is said by the first subtitles that can be read; None where there are none."""
    for one in fitting(found, spoken):
        try:
            said = await _said(ctx, document, one)
        except (FileCorrupt, FileTooLarge, UnsupportedFile) as error:
            await ctx.log(f"The subtitles {one.origin} cannot be used: {error.message}", "warning")
            continue
        language = one.language or await ctx.run(TELL_LANGUAGE, said) or spoken
        if spoken is not None and not is_same_language(language, spoken):
            text = f"The subtitles {one.origin} are in another language than is spoken"
            await ctx.log(text, "warning")
            continue
        await ctx.log(f"The subtitles {one.origin} are used")
        known_as = language_code(language or "") or "und"
        kept, entry = await _kept(ctx, document, said, known_as)
        return kept, entry, one.origin
    return None


async def _said(ctx: JobContext[Any], document: Document, found: Subtitles) -> list[Word]:
    if found.track is None:
        return await ctx.run(LOAD, str(found.path), wall_time=LOAD_TIMEOUT)
    seconds = EXTRACT_TIMEOUT.total_seconds()
    extract = partial(
        EXTRACT, document.path, found.track, timeout_s=seconds, program=ctx.media.ffmpeg
    )
    text = await ctx.run(extract, wall_time=EXTRACT_TIMEOUT + GRACE)
    return await ctx.run(READ, text, wall_time=LOAD_TIMEOUT)


async def _kept(
    ctx: JobContext[Any], document: Document, said: Sequence[Word], language: str
) -> "tuple[Spoken, CacheEntry]":
    from ..media.transcript import Spoken, record_of

    heard = Transcription(language=language, confidence=1.0, said=tuple(said))
    record = await asyncio.to_thread(record_of, heard)
    entry = await ctx.entry(
        "speech",
        document.sha256,
        "subtitles",
        options={"digest": hashlib.sha256(record).hexdigest()},
        version=f"secretary {__version__}",
    )
    since, directory = made_after(ctx), str(entry.directory)

    def keep() -> None:
        if 0 not in append_log.index(directory, made_after=since):
            append_log.append(directory, 0, record, not_before=since)
            entry.note({})

    await asyncio.to_thread(keep)
    return Spoken(directory=directory, pieces=1, language=language, made_after=since), entry
