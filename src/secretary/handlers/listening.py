"""Takes a recording through its pieces: known ones from the cache, the others heard in parallel."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..cache import Entry
from ..engines.speech import Heard
from ..errors import JobFailed, ProcessDied, ProcessingTimeout
from ..handler import JobContext
from ..lanes import in_lanes
from ..processors import records
from ..processors.speech.pieces import Piece
from ..processors.transcript import short_clock
from .ears import Ears

OnHeard = Callable[[Piece, Heard], None]

#: Before the time that is left is told, so much must be known about the pace.
LEAST_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """One recording on its way through its pieces."""

    ctx: JobContext[Any]
    ears: Ears
    entry: Entry
    made_after: float = 0.0

    def known(self) -> dict[int, records.Place]:
        return records.places(str(self.entry.directory), made_after=self.made_after)

    async def run(
        self,
        sound: str,
        pieces: Sequence[Piece],
        progress: "SoundProgress",
        on_heard: OnHeard | None = None,
    ) -> None:
        """Have what is said in these pieces on record. What `on_heard` raises ends all of it."""

        async def hear(piece: Piece) -> None:
            heard = await self._hear(sound, piece)
            await asyncio.to_thread(self._keep, piece, heard)
            if on_heard is not None:
                on_heard(piece, heard)
            await progress.advance(piece.end - piece.start)
            self.entry.touch()

        await in_lanes(pieces, self.ears.lanes, hear)

    async def _hear(self, sound: str, piece: Piece) -> Heard:
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

    def _keep(self, piece: Piece, heard: Heard) -> None:
        from ..processors.transcript_files import record_of

        directory, record = str(self.entry.directory), record_of(heard)
        records.append(directory, piece.number, record, not_before=self.made_after)


def _place(piece: Piece) -> str:
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
