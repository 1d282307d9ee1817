"""From a recording to the records of what is said in it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..cache import Entry
from ..engines.speech import Heard
from ..errors import UnsupportedFile
from ..handler import JobContext
from ..processors import records
from ..processors.speech.pieces import Piece
from ..remote import Remote
from ..version import __version__
from .documents import Document
from .ears import Ears, ears_for, nobody_understands
from .freshness import made_after
from .listening import Listening, OnHeard, SoundProgress
from .recordings import chosen_track, decoded_sound

if TYPE_CHECKING:
    from ..processors.media.recording import Recording, SoundTrack
    from ..processors.transcript_files import Spoken

CUT: Remote[list[Piece]] = Remote("processors.speech.activity", "pieces_of")
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
    entry: Entry
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
        ears: Ears,
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
        listening = Listening(
            ctx=self._ctx, ears=self._ears, entry=entry, made_after=made_after(self._ctx)
        )
        facts = entry.facts or await self._looked_over(entry)
        pieces = [Piece.from_json(number, told) for number, told in enumerate(facts["pieces"])]
        if not pieces:
            raise UnsupportedFile("Nothing is said in the recording")
        known = await asyncio.to_thread(listening.known)
        missing = [piece for piece in pieces if piece.number not in known]
        if missing:
            await self._hear(listening, pieces, missing)
        heard = await asyncio.to_thread(_all_heard, listening, len(pieces))
        self._check(heard)
        from ..processors.transcript_files import Spoken

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

    async def _entry(self) -> Entry:
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

    async def _looked_over(self, entry: Entry) -> dict[str, Any]:
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
        self, listening: Listening, pieces: Sequence[Piece], missing: Sequence[Piece]
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

    def _judge(self, pieces: Sequence[Piece]) -> OnHeard:
        """Ends the work as soon as the beginning is heard and makes no sense."""
        sample = {piece.number for piece in _first(pieces, SAMPLE_SECONDS)}
        known: dict[int, Heard] = {}

        def judge(piece: Piece, heard: Heard) -> None:
            if piece.number in sample:
                known[piece.number] = heard
                if len(known) == len(sample) and not self._ears.understood(list(known.values())):
                    raise NotUnderstood

        return judge

    def _check(self, heard: Sequence[Heard]) -> None:
        """Once all of it is heard."""
        if self._ears.takes_any_for_its_own and not self._ears.understood(heard):
            raise NotUnderstood
        if not any(said.text.strip() for one in heard for said in one.said):
            raise UnsupportedFile("Nothing is said in the recording")


def _first(pieces: Sequence[Piece], seconds: float) -> Sequence[Piece]:
    """The first ones that make up so much sound."""
    sum_of = 0.0
    for count, piece in enumerate(pieces, start=1):
        sum_of += piece.end - piece.start
        if sum_of >= seconds:
            return pieces[:count]
    return pieces


def _all_heard(listening: Listening, count: int) -> list[Heard]:
    from ..processors.transcript_files import heard_in

    known = listening.known()
    return [heard_in(line) for line in records.load(known[n] for n in range(count))]


def _language(heard: Sequence[Heard]) -> str:
    """The one in which most is said."""
    letters: Counter[str] = Counter()
    for one in heard:
        letters[one.language] += sum(len(said.text) for said in one.said)
    return letters.most_common(1)[0][0]
