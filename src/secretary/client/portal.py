"""A way from ordinary code into an event loop that runs in a thread of its own."""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Iterator
from types import AsyncGeneratorType
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """Any number of threads may use it at once. It begins with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            loop = self._running()
        except RuntimeError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        finally:
            future.cancel()  # after Ctrl-C it is still at work; else this does nothing
            del future  # it holds the error that holds this frame: nobody could be let go of

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """What comes is handled by the caller's thread, not by the loop's."""
        try:
            while (found := self.run(_next(items))) is not None:
                yield found[0]
        finally:
            self._let_go(items)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Do this last, then end; the second time nothing happens."""
        if self._closed:
            last.close()
            return
        if self._loop is None:  # nothing was ever asked
            last.close()
            self._closed = True
            return
        try:
            self.run(last)
        finally:
            self._closed = True
            self._end()

    def _let_go(self, items: AsyncGenerator[Any, None]) -> None:
        if self._closed or self._loop is None:
            return
        if threading.current_thread() is self._thread:  # where the garbage was collected
            asyncio.run_coroutine_threadsafe(_close(items), self._loop)
        else:
            self.run(_close(items))

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeError("The client is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=_keep, args=(self._loop,), name="secretary-client", daemon=True
                )
                thread.start()
                self._thread = thread
                # Of a client that nobody closed.
                self._end = weakref.finalize(self, _end, self._loop, thread)
            if threading.current_thread() is self._thread:
                raise RuntimeError("This would wait for itself; use AsyncClient here")
            return self._loop


async def _next(items: AsyncGenerator[T, None]) -> tuple[T] | None:
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None


async def _close(items: AsyncGenerator[Any, None]) -> None:
    while (
        isinstance(items, AsyncGeneratorType) and items.ag_running
    ):  # after Ctrl-C it is about to end
        await asyncio.sleep(0.01)
    await items.aclose()


def _keep(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(10)
