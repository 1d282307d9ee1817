"""The progress of a job or batch until it has ended: by its stream, else by asking again."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol, TypeVar

from .connection import Connection, NoStream
from .documents import Event, Progress
from .errors import ApiError, NotFound, Unreachable, WaitTimeout

T = TypeVar("T")

#: A stream that breaks so often without a word is not tried any more.
STREAM_TRIES = 3
FIRST_POLL, LONGEST_POLL = 0.5, 5.0


class Watched(Protocol):
    """A job or a batch."""

    @property
    def id(self) -> str: ...
    @property
    def ended(self) -> bool: ...
    @property
    def progress(self) -> Progress: ...
    async def refresh(self) -> object: ...


async def updates(
    connection: Connection,
    path: str,
    watched: Watched,
    *,
    concerns: Callable[[Event], bool],
    timeout: float | None,
) -> AsyncGenerator[Progress, None]:
    """Each change until the end, with the whole document known at the end."""
    patience = _Patience(timeout, watched.id)
    stream = _Stream(connection, path, concerns, patience)
    pause = FIRST_POLL
    while not watched.ended:
        async with aclosing(stream.progress()) as told:
            async for progress in told:
                yield progress
        await patience.within(watched.refresh())
        if not watched.ended:  # there is no stream, or it broke, or this was restarted meanwhile
            yield watched.progress
            await patience.within(asyncio.sleep(pause))
            pause = min(pause * 1.5, LONGEST_POLL)
    yield watched.progress


class _Stream:
    def __init__(
        self,
        connection: Connection,
        path: str,
        concerns: Callable[[Event], bool],
        patience: "_Patience",
    ) -> None:
        self._connection = connection
        self._path = path
        self._concerns = concerns
        self._patience = patience
        self._comes_through = True

    async def progress(self) -> AsyncGenerator[Progress, None]:
        """Ends before the final event, and when it breaks or does not come through."""
        if not self._comes_through:
            return
        events = self._connection.events(f"{self._path}/stream", patience=STREAM_TRIES)
        async with aclosing(events):
            try:
                while (event := await self._patience.within(anext(events, None))) is not None:
                    if not self._concerns(event):
                        continue
                    if event.is_final:
                        return
                    yield Progress(step=event.phase, percent=event.percent, message=event.message)
            except (NoStream, NotFound):  # one that is gone is noticed by whoever asks next
                self._comes_through = False
            except (ApiError, Unreachable):  # and so is a service that is away
                return


class _Patience:
    """How long there is to wait, in all. Each wait has its own limit: what is waited for may
    go on in another task."""

    def __init__(self, seconds: float | None, what: str) -> None:
        self._what = what
        self._seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds

    async def within(self, awaited: Awaitable[T]) -> T:
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        try:
            async with asyncio.timeout(left) as limit:
                return await awaited
        except TimeoutError:
            if not limit.expired():
                raise
            raise WaitTimeout(
                f"{self._what} has not ended within {self._seconds:g} seconds"
            ) from None
