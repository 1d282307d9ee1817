"""The synchronous client: runs each call of the asynchronous one on an event loop in a thread.

Its methods are derived from those of the asynchronous client, with the same parameters."""

import asyncio
import ssl
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from types import AsyncGeneratorType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from .aio import AsyncClient
from .connection import Retries
from .jobs import AsyncBatch, AsyncJob, BatchView, JobView, OnProgress, Resource, progress_bar
from .models import BatchDocument, JobDocument

P = ParamSpec("P")
T = TypeVar("T")


class Portal:
    """An event loop in a thread, started by the first call. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            loop = self._running_loop()
        except RuntimeError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        finally:
            future.cancel()  # after Ctrl-C it is still running; otherwise this does nothing
            del future  # its exception refers to this frame: break the cycle

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Iterate in the caller's thread."""
        try:
            while (item := self.run(_next(items))) is not None:
                yield item[0]
        finally:
            if self._loop is not None and not self._closed:
                if threading.current_thread() is self._thread:  # garbage collection ran there
                    asyncio.run_coroutine_threadsafe(_close(items), self._loop)
                else:
                    self.run(_close(items))

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run `last`, then stop the loop. A second call does nothing."""
        if self._closed or self._loop is None:  # never used
            last.close()
            self._closed = True
            return
        try:
            self.run(last)
        finally:
            self._closed = True
            self._stop()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeError("The client is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=_run_loop, args=(self._loop,), name="secretary-client", daemon=True
                )
                thread.start()
                self._thread = thread
                # In case nobody closes the client.
                self._stop = weakref.finalize(self, _stop_loop, self._loop, thread)
            if threading.current_thread() is self._thread:
                raise RuntimeError("This call would deadlock; use AsyncClient here")
            return self._loop


async def _next(items: AsyncGenerator[T, None]) -> tuple[T] | None:
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None


async def _close(items: AsyncGenerator[Any, None]) -> None:
    # After Ctrl-C it is still running, but about to stop.
    while isinstance(items, AsyncGeneratorType) and items.ag_running:
        await asyncio.sleep(0.01)
    await items.aclose()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop):  # at the end it cancels what still runs
        loop.run_forever()


def _stop_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(10)


A = TypeVar("A", covariant=True)


class _Wrapper(Generic[A]):
    """A synchronous object and the asynchronous one that it wraps."""

    def __init__(self, portal: Portal, wrapped: A) -> None:
        self._portal = portal
        self._wrapped = wrapped


W = TypeVar("W", bound=_Wrapper[Any])


def _adapt(method: Callable[..., Any], finish: Callable[[Any, Any], T]) -> Callable[..., T]:
    """Call a method of the wrapped object; `finish` makes the result of what it returns."""

    @wraps(method)
    def call(self: _Wrapper[Any], /, *args: Any, **kwargs: Any) -> T:
        return finish(self, method(self._wrapped, *args, **kwargs))

    return call


def _call(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Wrapper[A], P], T]:
    """Run a method and return its result."""
    return _adapt(method, lambda self, work: self._portal.run(work))


def _update(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, A]],
) -> Callable[Concatenate[W, P], W]:
    """Run a method that updates the object, and return the object."""

    def finish(self: W, work: Coroutine[Any, Any, A]) -> W:
        self._portal.run(work)
        return self

    return _adapt(method, finish)


def _get(
    kind: type[W], method: Callable[Concatenate[A, P], Coroutine[Any, Any, Any]]
) -> Callable[Concatenate[_Wrapper[A], P], W]:
    """Run a method and wrap its result."""
    return _adapt(method, lambda self, work: kind(self._portal, self._portal.run(work)))


def _iterate(
    method: Callable[Concatenate[A, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[_Wrapper[A], P], Iterator[T]]:
    return _adapt(method, lambda self, items: self._portal.iterate(items))


def _list(
    kind: type[W], method: Callable[Concatenate[A, P], AsyncGenerator[Any, None]]
) -> Callable[Concatenate[_Wrapper[A], P], Iterator[W]]:
    """Iterate, and wrap each item."""
    return _adapt(
        method,
        lambda self, items: (kind(self._portal, item) for item in self._portal.iterate(items)),
    )


R = TypeVar("R", bound=Resource[Any])


class _ResourceWrapper(_Wrapper[R]):
    def wait(self, *, progress: bool | OnProgress = False, timeout: float | None = None) -> Self:
        """Wait for the end, successful or not. Raise `WaitTimeout` after `timeout` seconds."""
        with progress_bar(progress, self._wrapped.label) as on_progress:
            for update in self._portal.iterate(self._wrapped.updates(timeout=timeout)):
                on_progress(update)
        return self

    refresh = _update(Resource.refresh)
    updates = _iterate(Resource.updates)
    cancel = _update(Resource.cancel)
    archive = _update(Resource.archive)
    unarchive = _update(Resource.unarchive)
    delete = _call(Resource.delete)


class Job(_ResourceWrapper[AsyncJob], JobView):
    @property
    def document(self) -> JobDocument:
        return self._wrapped.document

    result = _call(AsyncJob.result)
    restart = _update(AsyncJob.restart)
    download = _call(AsyncJob.download)
    read = _call(AsyncJob.read)
    download_archive = _call(AsyncJob.download_archive)


class Batch(_ResourceWrapper[AsyncBatch], BatchView):
    @property
    def document(self) -> BatchDocument:
        return self._wrapped.document

    @property
    def job_ids(self) -> tuple[str, ...]:
        return self._wrapped.job_ids

    jobs = _list(Job, AsyncBatch.jobs)
    pause = _update(AsyncBatch.pause)
    resume = _update(AsyncBatch.resume)
    restart_failed = _update(AsyncBatch.restart_failed)


class Client(_Wrapper[AsyncClient]):
    """The synchronous version of `AsyncClient`. Close it, or use it in a `with` statement."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:5000",
        *,
        api_key: str | None = None,
        user: str | None = None,
        timeout: float = 60.0,
        retries: Retries | None = None,
        verify: bool | ssl.SSLContext = True,
    ) -> None:
        client = AsyncClient(
            url, api_key=api_key, user=user, timeout=timeout, retries=retries, verify=verify
        )
        super().__init__(Portal(), client)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._portal.close(self._wrapped.close())

    submit = _get(Job, AsyncClient.submit)
    job = _get(Job, AsyncClient.job)
    jobs = _list(Job, AsyncClient.jobs)
    batch = _get(Batch, AsyncClient.batch)
    find_batch = _get(Batch, AsyncClient.find_batch)
    batches = _list(Batch, AsyncClient.batches)
    events = _iterate(AsyncClient.events)
    job_types = _call(AsyncClient.job_types)
    health = _call(AsyncClient.health)
