"""The transcript of a recording: by a speech engine, chunk by chunk, or from existing subtitles."""

import asyncio
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from ..core import errors
from ..core.callables import LazyCallable, map_limited
from ..core.languages import english_name, is_same_language, language_code
from ..jobs.handler import JobContext
from ..jobs.job_log import counted, format_seconds
from ..media.pcm import DecodedAudio, decoded_seconds, select_audio_track
from ..media.probe import AudioTrack, Recording, SubtitleTrack
from ..media.speech.chunking import Chunk
from ..media.speech.engines import TimedText, Transcription, is_intelligible, open_speech_engine
from ..media.transcript import StoredTranscript, encode_record, format_clock
from .document_pipeline import Document
from .parameters import RecordCache, SourceParameters
from .progress import MediaProgress

DECODE: LazyCallable[DecodedAudio] = LazyCallable("media.pcm", "decode_audio", returns=DecodedAudio)
SPLIT: LazyCallable[list[Chunk]] = LazyCallable(
    "media.speech.vad", "split_into_chunks", returns=list[Chunk]
)
TRANSCRIBE: LazyCallable[Transcription] = LazyCallable(
    "media.speech.chunking", "transcribe_chunk", returns=Transcription
)
AS_WAV: LazyCallable[bytes] = LazyCallable("media.pcm", "read_wav", returns=bytes)
LOAD: LazyCallable[list[TimedText]] = LazyCallable(
    "media.subtitles", "load_subtitles", returns=list[TimedText]
)
EXTRACT: LazyCallable[str] = LazyCallable("media.subtitles", "extract_subtitles", returns=str)
PARSE: LazyCallable[list[TimedText]] = LazyCallable(
    "media.subtitles", "parse_subtitles", returns=list[TimedText]
)
DETECT_LANGUAGE: LazyCallable[str | None] = LazyCallable(
    "media.subtitles", "detect_subtitle_language", returns=str | None
)

#: Decoding is hundreds of times faster than playing; this is for a very busy machine.
DECODE_TIMEOUT = timedelta(hours=2)
#: Voice activity detection takes seconds per hour of sound.
SPLIT_TIMEOUT = timedelta(minutes=20)
WAV_TIMEOUT = timedelta(minutes=1)
LOAD_TIMEOUT = timedelta(minutes=2)
EXTRACT_TIMEOUT = timedelta(minutes=15)
#: For a child process that hangs instead of stopping ffmpeg.
FFMPEG_GRACE = timedelta(seconds=30)
#: Seconds between progress reports while ffmpeg decodes.
REPORT_INTERVAL = 1.0
#: Seconds of speech by which an engine shows whether it understands the language.
LANGUAGE_SAMPLE_SECONDS = 60.0
#: Where decoding ends and transcription begins.
FIRST_PERCENT = 15

MediaContext = JobContext[SourceParameters]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenText:
    """The transcript of a recording, and where it is from."""

    spoken: StoredTranscript
    #: The cache entry, relative to the data directory.
    directory: str
    metadata: Mapping[str, Any]
    processed: bool


async def run_with_ffmpeg(
    ctx: MediaContext, function: Callable[..., T], *args: Any, limit: timedelta, **options: Any
) -> T:
    """Run a function in a child process, which stops ffmpeg after the limit and says why."""
    limits = {"timeout_s": limit.total_seconds(), "program": ctx.media.ffmpeg}
    return await ctx.run(
        partial(function, *args, **options, **limits), wall_time=limit + FFMPEG_GRACE
    )


# By a speech engine -----------------------------------------------------------------------------


class LanguageNotUnderstood(Exception):
    """The engine knows one language only, and the recording is in another."""


async def transcribe(
    ctx: MediaContext,
    document: Document,
    recording: Recording,
    *,
    language: str | None,
    last_percent: int = 90,
    on_language: Callable[[str], None] = lambda language: None,
) -> SpokenText:
    """Transcribe with the first engine that understands the language. `on_language` is called once
    the language is known, and may raise an error to stop the work."""
    track = select_sound_track(recording, language)
    language = language or track.language or ctx.media.speech_language
    if language is not None:
        on_language(language)
    for engine in _select_engines(ctx, language):
        details = {"language": language, "model": engine.model}
        options: dict[str, Any] = {name: value for name, value in details.items() if value}
        if len(recording.audio_tracks) > 1:
            options["track"] = track.stream
        key = "speech", document.sha256, engine.name
        cache = await RecordCache.open(ctx, *key, options=options, made_with=engine.version)
        run = _TranscriptionRun(
            ctx, document, recording, track, engine, cache, language, last_percent, on_language
        )
        try:
            return await run.run()
        except LanguageNotUnderstood:
            await ctx.log(f"The engine {engine.name} does not understand the language")
    text = "No speech engine understands the language of the recording"
    if language is not None:
        text = f"No configured speech engine understands {english_name(language)}"
    raise errors.EngineUnavailable(
        f"{text}: set media.speech_model_directory to a model for more languages,"
        " or llm.transcription_model to one behind an endpoint",
        language=language,
    )


def select_sound_track(recording: Recording, language: str | None) -> AudioTrack:
    """The track in this language, else the one that players choose."""
    track = select_audio_track(recording.audio_tracks, language)
    if track is None:
        what = "The video has no sound track" if recording.video_tracks else "The file has no sound"
        raise errors.UnsupportedFile(what)
    return track


@dataclass(frozen=True, slots=True, kw_only=True)
class _Engine:
    """A speech engine set up for one recording. `version` and `model` are part of the cache key."""

    name: str
    version: str
    #: The name of a model behind an endpoint.
    model: str | None = None
    #: Whether it transcribes any language as if it were the only one it knows.
    assumes_language: bool = False
    #: How many chunks it transcribes at a time.
    concurrency: int
    transcribe: Callable[[str, Chunk, str | None], Awaitable[Transcription]]


def _select_engines(ctx: MediaContext, language: str | None) -> list[_Engine]:
    """The engines to try in turn, which may know the language."""
    engines: list[_Engine] = []
    selected = ctx.media.speech_engine
    if selected != "openai":
        local = open_speech_engine(ctx.media.speech_model_directory)
        if language is None or language in local.languages():
            engine = _Engine(
                name=local.name,
                version=f"{local.name} {local.version}",
                assumes_language=language is None and len(local.languages()) == 1,
                concurrency=ctx.processes,
                transcribe=partial(_transcribe_locally, ctx),
            )
            engines.append(engine)
    if selected != "local" and (model := ctx.llm.options.models.get("transcription")):
        engine = _Engine(
            name="openai",
            version=f"openai {model.name}",
            model=model.name,
            concurrency=model.provider.max_concurrent,
            transcribe=partial(_transcribe_by_endpoint, ctx),
        )
        engines.append(engine)
    if not engines and selected == "openai":
        ctx.llm.model("transcription")  # raises an error that names the setting
    return engines


async def _transcribe_locally(
    ctx: MediaContext, sound: str, chunk: Chunk, language: str | None
) -> Transcription:
    directory = ctx.media.speech_model_directory
    limit = timedelta(seconds=ctx.media.piece_timeout_sec)
    return await ctx.run(TRANSCRIBE, Path(sound), chunk, directory, language, wall_time=limit)


async def _transcribe_by_endpoint(
    ctx: MediaContext, sound: str, chunk: Chunk, language: str | None
) -> Transcription:
    wav = await ctx.run(AS_WAV, sound, chunk.start, chunk.end, wall_time=WAV_TIMEOUT)
    transcription = await ctx.llm.transcribe(
        wav, file_name=f"piece_{chunk.number:04d}.wav", seconds=chunk.seconds, language=language
    )
    words = tuple(
        TimedText(start + chunk.start, end + chunk.start, text)
        for start, end, text in transcription.segments
    )
    return replace(transcription, segments=words)


@dataclass(slots=True)
class _TranscriptionRun:
    """The transcription of one recording by one engine. Each chunk is cached once it is done."""

    ctx: MediaContext
    document: Document
    recording: Recording
    track: AudioTrack
    engine: _Engine
    cache: RecordCache
    #: Detected from the first chunk if it is unknown.
    language: str | None
    last_percent: int
    on_language: Callable[[str], None]
    _sound: tuple[str, float] | None = None

    async def run(self) -> SpokenText:
        entry = self.cache.entry
        facts = entry.metadata or await self._split()
        chunks = [Chunk.from_json(number, value) for number, value in enumerate(facts["pieces"])]
        if not chunks:
            raise errors.UnsupportedFile("There is no speech in the recording")
        missing = [chunk for chunk in chunks if chunk.number not in self.cache.cached]
        await self.ctx.log(
            f"Speech engine: {self.engine.version}; cache: reusing {len(chunks) - len(missing):,}"
            f" of {counted(len(chunks), 'chunk')}"
        )
        if missing:
            started = time.monotonic()
            await self._transcribe_all(chunks, missing)
            speech, seconds = sum(each.seconds for each in missing), time.monotonic() - started
            await self.ctx.log(
                f"Transcribed {format_clock(speech)} of speech in {format_seconds(seconds)}"
                f" ({speech / max(seconds, 0.001):.1f} times real time)"
            )
        stored = StoredTranscript(
            directory=str(entry.directory),
            chunk_count=len(chunks),
            language="und",
            made_after=self.cache.since,
        )
        transcriptions = await asyncio.to_thread(lambda: list(stored.chunks()))
        if self.engine.assumes_language and not is_intelligible(transcriptions):
            raise LanguageNotUnderstood
        characters: Counter[str] = Counter()
        for each in transcriptions:
            characters[each.language] += sum(len(word.text) for word in each.segments)
        if not any(word.text.strip() for each in transcriptions for word in each.segments):
            raise errors.UnsupportedFile("There is no speech in the recording")
        language = characters.most_common(1)[0][0]  # of most of the text
        await self.ctx.log(f"Language: {language}; {sum(characters.values()):,} characters")
        return SpokenText(
            spoken=replace(stored, language=language),
            directory=entry.name,
            metadata={
                "engine": self.engine.version,
                "duration": round(facts["seconds"], 3),
                "sound_track": self.track.stream,
                "source_language": language,
            },
            processed=bool(missing),
        )

    async def _split(self) -> Mapping[str, Any]:
        """Find the speech in the recording and note it in the cache."""
        sound, seconds = await self._decode()
        started = time.monotonic()
        chunks = await self.ctx.run(SPLIT, sound, wall_time=SPLIT_TIMEOUT)
        speech = sum(chunk.seconds for chunk in chunks)
        await self.ctx.log(
            f"Found {format_clock(speech)} of speech in {format_clock(seconds)} of sound"
            f" in {format_seconds(time.monotonic() - started)}"
        )
        facts = {"seconds": seconds, "pieces": [chunk.windows for chunk in chunks]}
        self.cache.entry.save_metadata(facts)
        return facts

    async def _decode(self) -> tuple[str, float]:
        """The raw sound file in scratch and its length; decoded once, and only if it is needed."""
        if self._sound is not None:
            return self._sound
        ctx, recording = self.ctx, self.recording
        target = str(ctx.scratch / f"sound-{self.track.stream}.raw")
        limit = ctx.media.max_duration.total_seconds()
        duration = recording.duration or limit
        progress = MediaProgress(
            ctx, "decoding", duration, first_percent=10, last_percent=FIRST_PERCENT
        )

        async def report() -> None:
            while True:
                await asyncio.sleep(REPORT_INTERVAL)
                seconds = await asyncio.to_thread(decoded_seconds, target)
                await progress.advance(seconds - progress.done)

        reporting, started = asyncio.create_task(report()), time.monotonic()
        try:
            decoded = await run_with_ffmpeg(
                ctx,
                DECODE,
                self.document.path,
                target,
                recording=recording,
                track=self.track,
                max_seconds=limit,
                limit=DECODE_TIMEOUT,
            )
        finally:
            reporting.cancel()
        elapsed = format_seconds(time.monotonic() - started)
        await ctx.log(f"Decoded {format_clock(decoded.seconds)} of sound in {elapsed}")
        for warning in decoded.warnings():
            await ctx.log(warning, "warning")
        self._sound = target, decoded.seconds
        return self._sound

    async def _transcribe_all(self, chunks: Sequence[Chunk], missing: Sequence[Chunk]) -> None:
        total = sum(chunk.seconds for chunk in chunks)
        progress = MediaProgress(
            self.ctx,
            "transcribing",
            total,
            total - sum(chunk.seconds for chunk in missing),
            first_percent=FIRST_PERCENT,
            last_percent=self.last_percent,
        )
        await progress.report()
        sound, _ = await self._decode()
        # The beginning shows whether an engine with one language understands the recording.
        sample = _first_chunks(chunks) if self.engine.assumes_language else set()
        sample_transcripts: list[Transcription] = []

        async def process(chunk: Chunk) -> Transcription:
            transcription = await self._transcribe(sound, chunk)
            self.ctx.resources.add("audio_seconds", chunk.seconds)
            record = encode_record(transcription)
            await asyncio.to_thread(self.cache.append, chunk.number, record)
            if chunk.number in sample:
                sample_transcripts.append(transcription)
                if len(sample_transcripts) == len(sample) and not is_intelligible(
                    sample_transcripts
                ):
                    raise LanguageNotUnderstood
                if len(sample_transcripts) == len(sample):
                    self.on_language(transcription.language)
            await progress.advance(chunk.seconds)
            return transcription

        if self.language is None and not sample and missing[0] is chunks[0]:
            # A recording is in one language: detect it once, not for each chunk.
            first, *missing = missing
            self.language = (await process(first)).language
            self.on_language(self.language)
        await map_limited(missing, self.engine.concurrency, process)

    async def _transcribe(self, sound: str, chunk: Chunk) -> Transcription:
        """After a crash or a timeout the chunk is tried once more."""
        span = f"From {format_clock(chunk.start)} to {format_clock(chunk.end)}"
        transcribe = partial(self.engine.transcribe, sound, chunk, self.language)
        try:
            return await transcribe()
        except (errors.ProcessDied, errors.ProcessingTimeout) as error:
            await self.ctx.log(f"{span}: {error.message} Retrying.", "warning")
        try:
            return await transcribe()
        except errors.JobFailed as error:
            details = {**error.details, "start": chunk.start, "end": chunk.end}
            raise type(error)(f"{span}: {error.message}", **details) from None


def _first_chunks(chunks: Sequence[Chunk]) -> set[int]:
    """The numbers of the chunks with the first minute of speech."""
    before = accumulate((chunk.seconds for chunk in chunks), initial=0.0)
    pairs = zip(chunks, before, strict=False)
    return {chunk.number for chunk, seconds in pairs if seconds < LANGUAGE_SAMPLE_SECONDS}


# From existing subtitles: beside the file, inside it, at a URL or from the site it is from ------

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
    except (errors.DownloadFailed, errors.FileTooLarge) as error:
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
        language = language_code(match[1]) if match else None
        if not rest or language:
            yield Subtitles(origin="beside the file", language=language, path=path.parent / name)


async def transcript_from_subtitles(
    ctx: MediaContext, document: Document, available: Sequence[Subtitles], spoken: str | None
) -> SpokenText | None:
    """The transcript by the first subtitles that can be used."""
    for subtitles in _in_spoken_language(available, spoken):
        origin = subtitles.origin
        try:
            sentences = await _load(ctx, document, subtitles)
        except (errors.FileCorrupt, errors.FileTooLarge, errors.UnsupportedFile) as error:
            await ctx.log(f"The subtitles {origin} cannot be used: {error.message}", "warning")
            continue
        language = subtitles.language or await ctx.run(DETECT_LANGUAGE, sentences) or spoken
        if spoken is not None and not is_same_language(language, spoken):
            await ctx.log(f"The subtitles {origin} are not in the spoken language", "warning")
            continue
        await ctx.log(f"Using the subtitles {origin}")
        return await _store(
            ctx, document, sentences, language_code(language or "") or "und", origin
        )
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
        ctx.grants.readable.add(str(subtitles.path))
        return await ctx.run(LOAD, str(subtitles.path), wall_time=LOAD_TIMEOUT)
    text = await run_with_ffmpeg(
        ctx, EXTRACT, document.path, subtitles.track, limit=EXTRACT_TIMEOUT
    )
    return await ctx.run(PARSE, text, wall_time=LOAD_TIMEOUT)


async def _store(
    ctx: MediaContext,
    document: Document,
    sentences: Sequence[TimedText],
    language: str,
    origin: str,
) -> SpokenText:
    transcription = Transcription(language=language, confidence=1.0, segments=tuple(sentences))
    record = await asyncio.to_thread(encode_record, transcription)
    options = {"digest": hashlib.sha256(record).hexdigest()}
    cache = await RecordCache.open(ctx, "speech", document.sha256, "subtitles", options=options)
    if 0 not in cache.cached:
        await asyncio.to_thread(cache.append, 0, record)
        cache.entry.save_metadata({})
    directory = str(cache.entry.directory)
    return SpokenText(
        spoken=StoredTranscript(
            directory=directory, chunk_count=1, language=language, made_after=cache.since
        ),
        directory=cache.entry.name,
        metadata={"engine": "subtitles", "subtitles": origin, "source_language": language},
        processed=False,
    )
