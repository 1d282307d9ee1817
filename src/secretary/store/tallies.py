"""Keeps the tallies of what ended for a moment and writes them together: a write for each job
would cost each job. A process that is killed takes the last second of them with it; the jobs
themselves are as safe as ever."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from .activity import Ending, Place, tally

logger = logging.getLogger(__name__)

WRITE_AFTER_S = 1.0
#: While the store does not answer no more places than this are remembered.
MOST_PLACES = 50_000


class Tallies:
    def __init__(
        self,
        write: Callable[[Counter[Place]], Awaitable[object]],
        *,
        unavailable: type[Exception],
    ) -> None:
        """`unavailable` is what `write` raises when the store does not answer."""
        self._write = write
        self._unavailable = unavailable
        self._ended: list[Ending] = []
        self._counted: Counter[Place] = Counter()
        self._writing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def note(self, endings: Iterable[Ending]) -> None:
        self._ended += endings
        if self._ended and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write_soon())

    async def _write_soon(self) -> None:
        while self._ended or self._counted:
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_AFTER_S):
                    await self._closing.wait()
            try:
                await self.write()
            except self._unavailable as error:
                logger.warning("What ended could not be counted yet: %s", type(error).__name__)
                if self._closing.is_set():
                    return

    async def write(self) -> None:
        ended, self._ended = self._ended, []
        taken, self._counted = self._counted + tally(ended), Counter()
        if not taken:
            return
        try:
            await self._write(taken)
        except self._unavailable:
            if len(taken) < MOST_PLACES:
                self._counted += taken
            raise

    async def close(self) -> None:
        """Not by cancelling: nobody could tell whether a write that was under way was made."""
        self._closing.set()
        if self._writing is not None:
            await self._writing
        if self._ended or self._counted:
            logger.warning("What ended last was not counted")
