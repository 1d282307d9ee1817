"""From a recording to the records of what is said in it."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..core.callables import LazyCallable, map_limited
from ..core.errors import (
    EngineUnavailable,
    FileTooLarge,
    JobFailed,
    ProcessDied,
    ProcessingTimeout,
    UnsupportedFile,
)
from ..core.languages import english_name
from ..jobs.handler import JobContext
from ..media import pcm
from ..media.pcm import Decoded, decoded_seconds
from ..media.recording import Recording, SoundTrack
from ..media.speech.chunking import Chunk
from ..media.speech.engines import (
    SpeechEngine,
    Transcription,
    Word,
    is_understood,
    open_speech_engine,
)
from ..media.transcript import short_clock
from ..storage import append_log
from ..storage.cache import CacheEntry
from ..version import __version__
from .cache_policy import made_after
from .document_pipeline import Document

if TYPE_CHECKING:
    from ..media.transcript import Spoken

LISTEN: LazyCallable[Transcription] = LazyCallable("media.speech.transcribe", "transcribe")
PACK: LazyCallable[bytes] = LazyCallable("media.pcm", "as_wav")

#: To pack half a minute of sound takes no longer.
PACK_TIMEOUT = timedelta(minutes=1)


class Transcriber(Protocol):
    """An engine for one recording. `options` are what makes a difference to what is heard,
    beside its version; `lanes` is how many pieces it listens to at the same time."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    @property
    def lanes(self) -> int: ...
    @property
    def language(self) -> str | None: ...
    @property
    def takes_any_for_its_own(self) -> bool:
        """Whether it would put down any language as if it were the one it knows."""
        ...

    async def hear(self, sound: str, piece: Chunk) -> Transcription: ...

    def understood(self, heard: Sequence[Transcription]) -> bool: ...

    def for_language(self, language: str) -> "Transcriber":
        """The same, once it is known what is spoken."""
        ...


@dataclass(frozen=True, slots=True)
class LocalTranscriber:
    ctx: JobContext[Any]
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
    def lanes(self) -> int:
        return self.ctx.processes

    @property
    def takes_any_for_its_own(self) -> bool:
        return self.language is None and len(self.engine.languages()) == 1

    async def hear(self, sound: str, piece: Chunk) -> Transcription:
        media = self.ctx.media
        return await self.ctx.run(
            LISTEN,
            Path(sound),
            piece,
            self.engine.name,
            media.speech_model_directory,
            self.language,
            wall_time=media.piece_timeout,
        )

    def understood(self, heard: Sequence[Transcription]) -> bool:
        return is_understood(heard)

    def for_language(self, language: str) -> "LocalTranscriber":
        return replace(self, language=language)


@dataclass(frozen=True, slots=True)
class EndpointTranscriber:
    """Any endpoint that speaks OpenAI's protocol."""

    ctx: JobContext[Any]
    language: str | None

    name = "openai"
    takes_any_for_its_own = False

    @property
    def version(self) -> str:
        return f"openai {self.ctx.llm.model('transcription')}"

    @property
    def options(self) -> Mapping[str, Any]:
        return {"language": self.language, "model": self.ctx.llm.model("transcription")}

    @property
    def lanes(self) -> int:
        return self.ctx.llm.options.models["transcription"].provider.max_concurrent

    async def hear(self, sound: str, piece: Chunk) -> Transcription:
        packed = await self.ctx.run(PACK, sound, piece.start, piece.end, wall_time=PACK_TIMEOUT)
        heard = await self.ctx.llm.transcribe(
            packed,
            file_name=f"piece_{piece.number:04d}.wav",
            seconds=piece.end - piece.start,
            language=self.language,
        )
        said = tuple(
            Word(start + piece.start, end + piece.start, text) for start, end, text in heard.said
        )
        return replace(heard, said=said)

    def understood(self, heard: Sequence[Transcription]) -> bool:
        return True

    def for_language(self, language: str) -> "EndpointTranscriber":
        return replace(self, language=language)


def ears_for(ctx: JobContext[Any], language: str | None) -> list[Transcriber]:
    """Those to be tried, one after the other; at least one. EngineUnavailable, before any work,
    where nobody understands the language."""
    media = ctx.media
    found: list[Transcriber] = []
    if media.speech_engine != "openai":
        engine = open_speech_engine(model_directory=media.speech_model_directory)
        if language is None or language in engine.languages():
            found.append(LocalTranscriber(ctx, engine, language))
    if media.speech_engine != "local" and "transcription" in ctx.llm.options.models:
        found.append(EndpointTranscriber(ctx, language))
    if not found and media.speech_engine == "openai":
        ctx.llm.model("transcription")  # says what to set
    if not found:
        raise nobody_understands(language)
    return found


def nobody_understands(language: str | None) -> EngineUnavailable:
    if language is None:
        text = "What is spoken in the recording is none of the languages that can be understood"
    else:
        text = f"No engine is set that understands {english_name(language)}"
    return EngineUnavailable(
        f"{text}: set media.speech_model_directory to a model for more languages,"
        " or llm.transcription_model to one behind an endpoint",
        language=language,
    )


OnHeard = Callable[[Chunk, Transcription], None]

#: Before the time that is left is told, so much must be known about the pace.
LEAST_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTranscription:
    """One recording on its way through its pieces."""

    ctx: JobContext[Any]
    ears: Transcriber
    entry: CacheEntry
    made_after: float = 0.0

    def known(self) -> dict[int, append_log.RecordRef]:
        return append_log.index(str(self.entry.directory), made_after=self.made_after)

    async def run(
        self,
        sound: str,
        pieces: Sequence[Chunk],
        progress: "SoundProgress",
        on_heard: OnHeard | None = None,
    ) -> None:
        """Have what is said in these pieces on record. What `on_heard` raises ends all of it."""

        async def hear(piece: Chunk) -> None:
            heard = await self._hear(sound, piece)
            await asyncio.to_thread(self._keep, piece, heard)
            if on_heard is not None:
                on_heard(piece, heard)
            await progress.advance(piece.end - piece.start)
            self.entry.touch()

        await map_limited(pieces, self.ears.lanes, hear)

    async def _hear(self, sound: str, piece: Chunk) -> Transcription:
        """A process that dies, or takes too long, may have had bad luck: it has a second try."""
        try:
            return await self.ears.hear(sound, piece)
        except (ProcessDied, ProcessingTimeout) as error:
            await self.ctx.log(f"{_place(piece)}: {error.message} It is tried again.", "warning")
        try:
            return await self.ears.hear(sound, piece)
        except JobFailed as error:
            details = {**error.details, "start": piece.start, "end": piece.end}
            raise type(error)(f"{_place(piece)}: {error.message}", **details) from None

    def _keep(self, piece: Chunk, heard: Transcription) -> None:
        from ..media.transcript import record_of

        directory, record = str(self.entry.directory), record_of(heard)
        append_log.append(directory, piece.number, record, not_before=self.made_after)


def _place(piece: Chunk) -> str:
    return f"From {short_clock(piece.start)} to {short_clock(piece.end)}"


@dataclass(slots=True)
class SoundProgress:
    """By seconds of sound, with the time that is left."""

    ctx: JobContext[Any]
    step: str
    total: float
    done: float = 0.0
    first_percent: int = 15
    last_percent: int = 90
    _began: float = field(default_factory=time.monotonic)
    _had: float | None = None

    async def advance(self, seconds: float) -> None:
        if self._had is None:
            self._had = self.done
        self.done = min(self.done + seconds, self.total)
        await self.tell()

    async def tell(self) -> None:
        share = self.done / self.total if self.total else 1.0
        await self.ctx.progress(
            f"{self.step}:{int(self.done)}/{int(self.total)}",
            self.first_percent + int((self.last_percent - self.first_percent) * share),
            f"{short_clock(self.done)} of {short_clock(self.total)} is done{self._left()}",
        )

    def _left(self) -> str:
        """By the pace of this attempt: what was known before took no time."""
        took = time.monotonic() - self._began
        did = self.done - (self._had if self._had is not None else self.done)
        if not did or took < LEAST_SECONDS or self.done >= self.total:
            return ""
        return f", about {short_clock(took / did * (self.total - self.done))} left"


PROBE: LazyCallable[Recording] = LazyCallable("media.probe", "probe")
DECODE: LazyCallable[Decoded] = LazyCallable("media.pcm", "decode")

#: To look into a file takes no longer, however long the recording is.
PROBE_TIMEOUT = timedelta(minutes=2)
#: Decoding is hundreds of times as fast as playing; this is for a machine that is very busy.
DECODE_TIMEOUT = timedelta(hours=2)
#: The child that starts ffmpeg ends it, and says why; this is for a child that hangs.
GRACE = timedelta(seconds=30)
#: How often progress is told while ffmpeg works.
TELL_EVERY = 1.0


async def look_into(ctx: JobContext[Any], document: Document) -> Recording:
    probe = partial(
        PROBE, document.path, program=ctx.media.ffmpeg, timeout_s=PROBE_TIMEOUT.total_seconds()
    )
    recording = await ctx.run(probe, wall_time=PROBE_TIMEOUT + GRACE)
    limit = ctx.media.max_duration.total_seconds()
    if recording.duration is not None and recording.duration > limit:
        took, most = short_clock(recording.duration), short_clock(limit)
        text = f"The recording takes {took}; {most} at the most can be worked on"
        raise FileTooLarge(text, seconds=recording.duration, limit_seconds=limit)
    return recording


def chosen_track(recording: Recording, language: str | None) -> SoundTrack:
    """The one in the language that is asked for, else the one that players take."""
    track = pcm.chosen_track(recording.sounds, language)
    if track is None:
        what = "The video has no sound track" if recording.pictures else "The file has no sound"
        raise UnsupportedFile(what)
    return track


async def decoded_sound(
    ctx: JobContext[Any], document: Document, recording: Recording, track: SoundTrack
) -> tuple[str, Decoded]:
    """The track as a raw file in scratch, from which any part can be read."""
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
    progress = SoundProgress(
        ctx, "decoding", recording.duration or limit, first_percent=10, last_percent=15
    )
    telling = asyncio.create_task(_tell(target, progress))
    try:
        decoded = await ctx.run(decode, wall_time=DECODE_TIMEOUT + GRACE)
    finally:
        telling.cancel()
    for warning in decoded.warnings():
        await ctx.log(warning, "warning")
    return target, decoded


async def _tell(target: str, progress: SoundProgress) -> None:
    while True:
        await asyncio.sleep(TELL_EVERY)
        done = await asyncio.to_thread(decoded_seconds, target)
        await progress.advance(done - progress.done)


CUT: LazyCallable[list[Chunk]] = LazyCallable("media.speech.vad", "pieces_of")
#: To find out where someone speaks takes seconds for an hour.
CUT_TIMEOUT = timedelta(minutes=20)
#: Speech by which it is told whether the engine understands the language.
SAMPLE_SECONDS = 60.0
#: The share of the progress that listening has.
FIRST_PERCENT = 15


class NotUnderstood(Exception):
    """The engine knows one language, and this is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcribed:
    spoken: "Spoken"
    entry: CacheEntry
    engine: str
    #: Of the sound that is really there.
    seconds: float
    track: int
    made: bool


async def transcribe(
    ctx: JobContext[Any],
    document: Document,
    recording: "Recording",
    *,
    language: str | None,
    last_percent: int = 90,
) -> Transcribed:
    """By the first engine that understands what is spoken."""
    track = chosen_track(recording, language)
    language = language or track.language or ctx.media.speech_language
    for ears in ears_for(ctx, language):
        work = _Transcription(ctx, document, recording, track, ears, last_percent)
        try:
            return await work.run()
        except NotUnderstood:
            await ctx.log(f"The engine {ears.name} does not understand what is spoken")
    raise nobody_understands(language)


class _Transcription:
    """One recording heard by one engine."""

    def __init__(
        self,
        ctx: JobContext[Any],
        document: Document,
        recording: "Recording",
        track: "SoundTrack",
        ears: Transcriber,
        last_percent: int,
    ) -> None:
        self._ctx = ctx
        self._document = document
        self._recording = recording
        self._track = track
        self._ears = ears
        self._last_percent = last_percent
        self._sound: tuple[str, float] | None = None

    async def run(self) -> Transcribed:
        entry = await self._entry()
        listening = ChunkTranscription(
            ctx=self._ctx, ears=self._ears, entry=entry, made_after=made_after(self._ctx)
        )
        facts = entry.facts or await self._looked_over(entry)
        pieces = [Chunk.from_json(number, told) for number, told in enumerate(facts["pieces"])]
        if not pieces:
            raise UnsupportedFile("Nothing is said in the recording")
        known = await asyncio.to_thread(listening.known)
        missing = [piece for piece in pieces if piece.number not in known]
        if missing:
            await self._hear(listening, pieces, missing)
        heard = await asyncio.to_thread(_all_heard, listening, len(pieces))
        self._check(heard)
        from ..media.transcript import Spoken

        spoken = Spoken(
            directory=str(entry.directory),
            pieces=len(pieces),
            language=_language(heard),
            made_after=listening.made_after,
        )
        return Transcribed(
            spoken=spoken,
            entry=entry,
            engine=self._ears.version,
            seconds=facts["seconds"],
            track=self._track.stream,
            made=bool(missing),
        )

    async def _entry(self) -> CacheEntry:
        tracks = self._recording.sounds
        options = {
            **{name: value for name, value in self._ears.options.items() if value},
            **({"track": self._track.stream} if len(tracks) > 1 else {}),
        }
        version = f"secretary {__version__}, {self._ears.version}"
        return await self._ctx.entry(
            "speech",
            self._document.sha256,
            self._ears.name,
            options=options,
            version=version,
        )

    async def _looked_over(self, entry: CacheEntry) -> dict[str, Any]:
        """How long the sound is, and where in it someone speaks."""
        sound, seconds = await self._decoded()
        pieces = await self._ctx.run(CUT, sound, wall_time=CUT_TIMEOUT)
        facts = {"seconds": seconds, "pieces": [piece.as_json() for piece in pieces]}
        entry.note(facts)
        return facts

    async def _decoded(self) -> tuple[str, float]:
        """Once, and only if there is something to listen to."""
        if self._sound is None:
            sound, decoded = await decoded_sound(
                self._ctx, self._document, self._recording, self._track
            )
            self._sound = (sound, decoded.seconds)
        return self._sound

    async def _hear(
        self, listening: ChunkTranscription, pieces: Sequence[Chunk], missing: Sequence[Chunk]
    ) -> None:
        total = sum(piece.end - piece.start for piece in pieces)
        left = sum(piece.end - piece.start for piece in missing)
        progress = SoundProgress(
            self._ctx,
            "transcribing",
            total,
            total - left,
            first_percent=FIRST_PERCENT,
            last_percent=self._last_percent,
        )
        await progress.tell()
        sound, _ = await self._decoded()
        if self._ears.takes_any_for_its_own:
            await listening.run(sound, missing, progress, self._judge(pieces))
            return
        if self._ears.language is None and missing[0] is pieces[0]:
            await listening.run(sound, missing[:1], progress)
            (heard,) = await asyncio.to_thread(_all_heard, listening, 1)
            missing = missing[1:]
            # A recording is in one language: no piece of it is to be taken for another.
            listening = replace(listening, ears=self._ears.for_language(heard.language))
        await listening.run(sound, missing, progress)

    def _judge(self, pieces: Sequence[Chunk]) -> OnHeard:
        """Ends the work as soon as the beginning is heard and makes no sense."""
        sample = {piece.number for piece in _first(pieces, SAMPLE_SECONDS)}
        known: dict[int, Transcription] = {}

        def judge(piece: Chunk, heard: Transcription) -> None:
            if piece.number in sample:
                known[piece.number] = heard
                if len(known) == len(sample) and not self._ears.understood(list(known.values())):
                    raise NotUnderstood

        return judge

    def _check(self, heard: Sequence[Transcription]) -> None:
        """Once all of it is heard."""
        if self._ears.takes_any_for_its_own and not self._ears.understood(heard):
            raise NotUnderstood
        if not any(said.text.strip() for one in heard for said in one.said):
            raise UnsupportedFile("Nothing is said in the recording")


def _first(pieces: Sequence[Chunk], seconds: float) -> Sequence[Chunk]:
    """The first ones that make up so much sound."""
    sum_of = 0.0
    for count, piece in enumerate(pieces, start=1):
        sum_of += piece.end - piece.start
        if sum_of >= seconds:
            return pieces[:count]
    return pieces


def _all_heard(listening: ChunkTranscription, count: int) -> list[Transcription]:
    from ..media.transcript import heard_in

    known = listening.known()
    return [heard_in(line) for line in append_log.read(known[n] for n in range(count))]


def _language(heard: Sequence[Transcription]) -> str:
    """The one in which most is said."""
    letters: Counter[str] = Counter()
    for one in heard:
        letters[one.language] += sum(len(said.text) for said in one.said)
    return letters.most_common(1)[0][0]
