"""What becomes of a call whose caller is cancelled."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Calls:
    """Calls of several steps, which go on to their end though their caller has given up."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, call: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(call)
        self._running.add(task)
        task.add_done_callback(self._ended)
        with cancellable():
            return await asyncio.shield(task)

    async def close(self) -> None:
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.remove(task)
        if not task.cancelled():
            task.exception()  # its caller may not be there any more to hear of it


@contextmanager
def cancellable() -> Iterator[None]:
    """Cancel the task after all if it was asked to end in here and went on.

    Before Python 3.12 `asyncio.wait_for`, which the driver uses for each message, forgets a
    cancellation that comes just when it has its result.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    yield
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
