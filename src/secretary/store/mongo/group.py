"""Writes together what is waiting to be written, so that many callers share one round trip."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

MAX_GROUP = 512


class Group(Generic[T, R]):
    """While one group is written, the next one gathers: a busy store makes its groups bigger.

    A caller that gives up changes nothing: what it asked for is written all the same.
    """

    def __init__(self, write: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]]) -> None:
        self._write = write
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def call(self, item: T) -> R:
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._run())
        return await future

    async def close(self) -> None:
        if self._writing is not None:
            await self._writing

    async def _run(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
            answers: Sequence[R | Exception]
            try:
                answers = await self._write([item for item, _ in group])
            except Exception as error:  # whatever it is, it belongs to those who wait
                answers = [error] * len(group)
            for (_, future), answer in zip(group, answers, strict=True):
                _answer(future, answer)
        self._writing = None


def _answer(future: asyncio.Future[R], answer: R | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
