"""The progress of a job or batch until it has ended: by its stream, else by asking again."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol, TypeVar

from .connection import Connection, NoStream
from .documents import Event, Progress
from .errors import NotFound, Unreachable, WaitTimeout

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
    if not watched.ended:
        async with aclosing(_streamed(connection, path, concerns, patience)) as told:
            async for progress in told:
                yield progress
        await patience.within(watched.refresh())
    pause = FIRST_POLL
    while not watched.ended:  # there is no stream, or it was restarted meanwhile
        yield watched.progress
        await patience.within(asyncio.sleep(pause))
        pause = min(pause * 1.5, LONGEST_POLL)
        await patience.within(watched.refresh())
    yield watched.progress


async def _streamed(
    connection: Connection, path: str, concerns: Callable[[Event], bool], patience: "_Patience"
) -> AsyncGenerator[Progress, None]:
    """Ends with the final event, or when no stream comes through."""
    events = connection.events(f"{path}/stream", patience=STREAM_TRIES)
    async with aclosing(events):
        try:
            while (event := await patience.within(anext(events, None))) is not None:
                if not concerns(event):
                    continue
                if event.is_final:
                    return
                yield Progress(step=event.phase, percent=event.percent, message=event.message)
        except (NoStream, NotFound, Unreachable):
            # A job that is gone, and a service too, is noticed by whoever asks next.
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
