"""Speech to text: decodes a recording, splits it into chunks and transcribes the missing ones."""

import asyncio
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ..core.callables import LazyCallable, map_limited
from ..core.errors import (
    DownloadFailed,
    EngineUnavailable,
    FileCorrupt,
    FileTooLarge,
    JobFailed,
    ProcessDied,
    ProcessingTimeout,
    UnsupportedFile,
)
from ..core.languages import english_name, is_same_language, language_code
from ..jobs.handler import JobContext
from ..media import pcm
from ..media.pcm import DecodedAudio, decoded_seconds
from ..media.probe import AudioTrack, Recording, SubtitleTrack
from ..media.speech.chunking import Chunk
from ..media.speech.engines import (
    SpeechEngine,
    TimedText,
    Transcription,
    is_intelligible,
    open_speech_engine,
)
from ..media.transcript import StoredTranscript, decode_record, encode_record, format_clock
from ..storage import append_log
from ..storage.cache import CacheEntry
from ..version import __version__
from .document_pipeline import Document
from .parameters import SourceParameters, reusable_since
from .progress import MediaProgress

DECODE: LazyCallable[DecodedAudio] = LazyCallable("media.pcm", "decode_audio")
SPLIT: LazyCallable[list[Chunk]] = LazyCallable("media.speech.vad", "split_into_chunks")
TRANSCRIBE: LazyCallable[Transcription] = LazyCallable("media.speech.chunking", "transcribe_chunk")
AS_WAV: LazyCallable[bytes] = LazyCallable("media.pcm", "read_wav")

#: Decoding is hundreds of times faster than playing; this is for a very busy machine.
DECODE_TIMEOUT = timedelta(hours=2)
#: Voice activity detection takes seconds per hour of sound.
SPLIT_TIMEOUT = timedelta(minutes=20)
WAV_TIMEOUT = timedelta(minutes=1)
#: The child process that runs ffmpeg stops it and says why; this is for a child that hangs.
FFMPEG_GRACE = timedelta(seconds=30)
#: Seconds between progress reports while ffmpeg decodes.
REPORT_INTERVAL = 1.0
#: Seconds of speech by which an engine shows whether it understands the language.
LANGUAGE_SAMPLE_SECONDS = 60.0
#: Where decoding ends and transcription begins.
FIRST_PERCENT = 15

MediaContext = JobContext[SourceParameters]
OnTranscribed = Callable[[Chunk, Transcription], None]


class LanguageNotUnderstood(Exception):
    """The engine knows one language only, and the recording is in another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscribedRecording:
    spoken: StoredTranscript
    entry: CacheEntry
    engine: str
    #: Length of the decoded sound.
    seconds: float
    track: int
    processed: bool


async def transcribe(
    ctx: MediaContext,
    document: Document,
    recording: Recording,
    *,
    language: str | None,
    last_percent: int = 90,
) -> TranscribedRecording:
    """Transcribe with the first engine that understands the language."""
    track = select_sound_track(recording, language)
    language = language or track.language or ctx.media.speech_language
    for transcriber in select_transcribers(ctx, language):
        run = _TranscriptionRun(ctx, document, recording, track, transcriber, last_percent)
        try:
            return await run.run()
        except LanguageNotUnderstood:
            await ctx.log(f"The engine {transcriber.name} does not understand the language")
    raise _no_engine(language)


def select_sound_track(recording: Recording, language: str | None) -> AudioTrack:
    """The track in this language, else the one that players choose."""
    track = pcm.select_audio_track(recording.audio_tracks, language)
    if track is None:
        what = "The video has no sound track" if recording.video_tracks else "The file has no sound"
        raise UnsupportedFile(what)
    return track


class _TranscriptionRun:
    """The transcription of one recording by one engine."""

    def __init__(
        self,
        ctx: MediaContext,
        document: Document,
        recording: Recording,
        track: AudioTrack,
        transcriber: "Transcriber",
        last_percent: int,
    ) -> None:
        self._ctx = ctx
        self._document = document
        self._recording = recording
        self._track = track
        self._transcriber = transcriber
        self._last_percent = last_percent
        self._sound: tuple[str, float] | None = None

    async def run(self) -> TranscribedRecording:
        entry = await self._open_entry()
        facts = entry.metadata or await self._split(entry)
        chunks = [Chunk.from_json(number, value) for number, value in enumerate(facts["pieces"])]
        if not chunks:
            raise UnsupportedFile("There is no speech in the recording")
        runner = ChunkTranscription(
            ctx=self._ctx,
            transcriber=self._transcriber,
            entry=entry,
            made_after=reusable_since(self._ctx),
        )
        cached = await asyncio.to_thread(runner.cached)
        missing = [chunk for chunk in chunks if chunk.number not in cached]
        if missing:
            await self._transcribe(runner, chunks, missing)
        transcriptions = await asyncio.to_thread(runner.load, len(chunks))
        self._check(transcriptions)

        return TranscribedRecording(
            spoken=StoredTranscript(
                directory=str(entry.directory),
                chunk_count=len(chunks),
                language=_main_language(transcriptions),
                made_after=runner.made_after,
            ),
            entry=entry,
            engine=self._transcriber.version,
            seconds=facts["seconds"],
            track=self._track.stream,
            processed=bool(missing),
        )

    async def _open_entry(self) -> CacheEntry:
        options = {name: value for name, value in self._transcriber.options.items() if value}
        if len(self._recording.audio_tracks) > 1:
            options["track"] = self._track.stream
        return await self._ctx.entry(
            "speech",
            self._document.sha256,
            self._transcriber.name,
            options=options,
            version=f"secretary {__version__}, {self._transcriber.version}",
        )

    async def _split(self, entry: CacheEntry) -> Mapping[str, Any]:
        """Find the speech in the recording and note it in the cache."""
        sound, seconds = await self._decode()
        chunks = await self._ctx.run(SPLIT, sound, wall_time=SPLIT_TIMEOUT)
        facts = {"seconds": seconds, "pieces": [chunk.as_json() for chunk in chunks]}
        entry.save_metadata(facts)
        return facts

    async def _decode(self) -> tuple[str, float]:
        """The raw sound file and its length; decoded once, and only if it is needed."""
        if self._sound is None:
            self._sound = await decode_sound(
                self._ctx, self._document, self._recording, self._track
            )
        return self._sound

    async def _transcribe(
        self, runner: "ChunkTranscription", chunks: Sequence[Chunk], missing: Sequence[Chunk]
    ) -> None:
        total = sum(chunk.end - chunk.start for chunk in chunks)
        remaining = sum(chunk.end - chunk.start for chunk in missing)
        progress = MediaProgress(
            self._ctx,
            "transcribing",
            total,
            total - remaining,
            first_percent=FIRST_PERCENT,
            last_percent=self._last_percent,
        )
        await progress.report()
        sound, _ = await self._decode()
        if self._transcriber.assumes_language:
            await runner.run(sound, missing, progress, self._language_check(chunks))
            return
        if self._transcriber.language is None and missing[0] is chunks[0]:
            await runner.run(sound, missing[:1], progress)
            (first,) = await asyncio.to_thread(runner.load, 1)
            missing = missing[1:]
            # A recording is in one language: detect it once, not for each chunk.
            transcriber = self._transcriber.for_language(first.language)
            runner = replace(runner, transcriber=transcriber)
        await runner.run(sound, missing, progress)

    def _language_check(self, chunks: Sequence[Chunk]) -> OnTranscribed:
        """Stops the work once the beginning is transcribed and makes no sense."""
        sample = {chunk.number for chunk in _first_seconds(chunks, LANGUAGE_SAMPLE_SECONDS)}
        transcriptions: dict[int, Transcription] = {}

        def check(chunk: Chunk, transcription: Transcription) -> None:
            if chunk.number not in sample:
                return
            transcriptions[chunk.number] = transcription
            if len(transcriptions) == len(sample) and not self._transcriber.understands(
                list(transcriptions.values())
            ):
                raise LanguageNotUnderstood

        return check

    def _check(self, transcriptions: Sequence[Transcription]) -> None:
        transcriber = self._transcriber
        if transcriber.assumes_language and not transcriber.understands(transcriptions):
            raise LanguageNotUnderstood
        if not any(word.text.strip() for each in transcriptions for word in each.segments):
            raise UnsupportedFile("There is no speech in the recording")


def _first_seconds(chunks: Sequence[Chunk], seconds: float) -> Sequence[Chunk]:
    total = 0.0
    for count, chunk in enumerate(chunks, start=1):
        total += chunk.end - chunk.start
        if total >= seconds:
            return chunks[:count]
    return chunks


def _main_language(transcriptions: Sequence[Transcription]) -> str:
    """The language of most of the text."""
    characters: Counter[str] = Counter()
    for each in transcriptions:
        characters[each.language] += sum(len(word.text) for word in each.segments)
    return characters.most_common(1)[0][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTranscription:
    """Transcribes the chunks of one recording in parallel and caches each."""

    ctx: MediaContext
    transcriber: "Transcriber"
    entry: CacheEntry
    made_after: float = 0.0

    def cached(self) -> dict[int, append_log.RecordRef]:
        return append_log.index(str(self.entry.directory), made_after=self.made_after)

    def load(self, count: int) -> list[Transcription]:
        """The transcriptions of the first chunks."""

        cached = self.cached()
        return [decode_record(line) for line in append_log.read(cached[n] for n in range(count))]

    async def run(
        self,
        sound: str,
        chunks: Sequence[Chunk],
        progress: MediaProgress,
        on_transcribed: OnTranscribed | None = None,
    ) -> None:
        """Transcribe these chunks. An exception of `on_transcribed` stops all of them."""

        async def transcribe_chunk(chunk: Chunk) -> None:
            transcription = await self._transcribe(sound, chunk)
            await asyncio.to_thread(self._store, chunk, transcription)
            if on_transcribed is not None:
                on_transcribed(chunk, transcription)
            await progress.advance(chunk.end - chunk.start)
            self.entry.touch()

        await map_limited(chunks, self.transcriber.concurrency, transcribe_chunk)

    async def _transcribe(self, sound: str, chunk: Chunk) -> Transcription:
        """After a crash or a timeout the chunk is tried once more."""
        span = f"From {format_clock(chunk.start)} to {format_clock(chunk.end)}"
        try:
            return await self.transcriber.transcribe(sound, chunk)
        except (ProcessDied, ProcessingTimeout) as error:
            await self.ctx.log(f"{span}: {error.message} Retrying.", "warning")
        try:
            return await self.transcriber.transcribe(sound, chunk)
        except JobFailed as error:
            details = {**error.details, "start": chunk.start, "end": chunk.end}
            raise type(error)(f"{span}: {error.message}", **details) from None

    def _store(self, chunk: Chunk, transcription: Transcription) -> None:

        directory, record = str(self.entry.directory), encode_record(transcription)
        append_log.append(directory, chunk.number, record, not_before=self.made_after)


async def decode_sound(
    ctx: MediaContext, document: Document, recording: Recording, track: AudioTrack
) -> tuple[str, float]:
    """Decode the track to a raw file in scratch, and return its path and its length."""
    target = str(ctx.scratch / f"sound-{track.stream}.raw")
    limit = ctx.media.max_duration.total_seconds()
    decode = partial(
        DECODE,
        document.path,
        target,
        recording=recording,
        track=track,
        max_seconds=limit,
        timeout_s=DECODE_TIMEOUT.total_seconds(),
        program=ctx.media.ffmpeg,
    )
    progress = MediaProgress(
        ctx, "decoding", recording.duration or limit, first_percent=10, last_percent=FIRST_PERCENT
    )
    reporting = asyncio.create_task(_report_decoding(target, progress))
    try:
        decoded = await ctx.run(decode, wall_time=DECODE_TIMEOUT + FFMPEG_GRACE)
    finally:
        reporting.cancel()
    for warning in decoded.warnings():
        await ctx.log(warning, "warning")
    return target, decoded.seconds


async def _report_decoding(target: str, progress: MediaProgress) -> None:
    while True:
        await asyncio.sleep(REPORT_INTERVAL)
        seconds = await asyncio.to_thread(decoded_seconds, target)
        await progress.advance(seconds - progress.done)


class Transcriber(Protocol):
    """A speech engine set up for one recording. `options` and `version` are part of the cache key;
    `concurrency` is the number of chunks it transcribes at a time."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def language(self) -> str | None: ...
    @property
    def assumes_language(self) -> bool:
        """Whether it transcribes any language as if it were the only one it knows."""
        ...

    async def transcribe(self, sound: str, chunk: Chunk) -> Transcription: ...

    def understands(self, transcriptions: Sequence[Transcription]) -> bool: ...

    def for_language(self, language: str) -> "Transcriber":
        """The same engine, set to this language."""
        ...


@dataclass(frozen=True, slots=True)
class LocalTranscriber:
    """An engine on this machine."""

    ctx: MediaContext
    engine: SpeechEngine
    language: str | None

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def version(self) -> str:
        return f"{self.engine.name} {self.engine.version}"

    @property
    def options(self) -> Mapping[str, Any]:
        return {"language": self.language}

    @property
    def concurrency(self) -> int:
        return self.ctx.processes

    @property
    def assumes_language(self) -> bool:
        return self.language is None and len(self.engine.languages()) == 1

    async def transcribe(self, sound: str, chunk: Chunk) -> Transcription:
        media = self.ctx.media
        return await self.ctx.run(
            TRANSCRIBE,
            Path(sound),
            chunk,
            self.engine.name,
            media.speech_model_directory,
            self.language,
            wall_time=media.piece_timeout,
        )

    def understands(self, transcriptions: Sequence[Transcription]) -> bool:
        return is_intelligible(transcriptions)

    def for_language(self, language: str) -> "LocalTranscriber":
        return replace(self, language=language)


@dataclass(frozen=True, slots=True)
class EndpointTranscriber:
    """A model behind an endpoint with OpenAI's API."""

    ctx: MediaContext
    language: str | None

    name = "openai"
    assumes_language = False

    @property
    def version(self) -> str:
        return f"openai {self.ctx.llm.model('transcription')}"

    @property
    def options(self) -> Mapping[str, Any]:
        return {"language": self.language, "model": self.ctx.llm.model("transcription")}

    @property
    def concurrency(self) -> int:
        return self.ctx.llm.options.models["transcription"].provider.max_concurrent

    async def transcribe(self, sound: str, chunk: Chunk) -> Transcription:
        wav = await self.ctx.run(AS_WAV, sound, chunk.start, chunk.end, wall_time=WAV_TIMEOUT)
        transcription = await self.ctx.llm.transcribe(
            wav,
            file_name=f"piece_{chunk.number:04d}.wav",
            seconds=chunk.end - chunk.start,
            language=self.language,
        )
        words = tuple(
            TimedText(start + chunk.start, end + chunk.start, text)
            for start, end, text in transcription.segments
        )
        return replace(transcription, segments=words)

    def understands(self, transcriptions: Sequence[Transcription]) -> bool:
        return True

    def for_language(self, language: str) -> "EndpointTranscriber":
        return replace(self, language=language)


def select_transcribers(ctx: MediaContext, language: str | None) -> list[Transcriber]:
    """The engines to try in turn. Raises `EngineUnavailable` if none knows the language."""
    media = ctx.media
    transcribers: list[Transcriber] = []
    if media.speech_engine != "openai":
        engine = open_speech_engine(model_directory=media.speech_model_directory)
        if language is None or language in engine.languages():
            transcribers.append(LocalTranscriber(ctx, engine, language))
    if media.speech_engine != "local" and "transcription" in ctx.llm.options.models:
        transcribers.append(EndpointTranscriber(ctx, language))
    if not transcribers and media.speech_engine == "openai":
        ctx.llm.model("transcription")  # raises an error that names the setting
    if not transcribers:
        raise _no_engine(language)
    return transcribers


def _no_engine(language: str | None) -> EngineUnavailable:
    if language is None:
        text = "No speech engine understands the language of the recording"
    else:
        text = f"No configured speech engine understands {english_name(language)}"
    return EngineUnavailable(
        f"{text}: set media.speech_model_directory to a model for more languages,"
        " or llm.transcription_model to one behind an endpoint",
        language=language,
    )


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
