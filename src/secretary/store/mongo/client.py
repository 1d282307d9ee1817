"""The connection to MongoDB: client, errors, shielded calls and batched writes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs, urlsplit

from pymongo import AsyncMongoClient
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    DocumentTooLarge,
    ExecutionTimeout,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    WTimeoutError,
)
from pymongo.uri_parser import parse_uri

from ...core.errors import NoDiskSpace, StoreUnavailable
from ..jobs import resolve
from .schema import Document

#: Driver options, unless the URL sets them.
OPTIONS: dict[str, Any] = {
    "appname": "secretary",
    "tz_aware": True,
    "retryWrites": True,
    "serverSelectionTimeoutMS": 5_000,
    "connectTimeoutMS": 5_000,
    "socketTimeoutMS": 20_000,
    "maxPoolSize": 32,
}


def connect(url: str, **options: Any) -> tuple[AsyncMongoClient[Document], str]:
    """Return a client, not connected yet, and its hosts for use in messages."""
    try:
        # The hosts, never the user or password.
        address = urlsplit(url).hostname or "an unnamed host"
        if not url.startswith("mongodb+srv:"):
            nodes: list[tuple[str, int | None]] = parse_uri(url)["nodelist"]
            address = ",".join(host if port is None else f"{host}:{port}" for host, port in nodes)
        named = {name.lower() for name in parse_qs(urlsplit(url).query)}
        defaults = {name: v for name, v in (OPTIONS | options).items() if name.lower() not in named}
        return AsyncMongoClient(url, **defaults), address
    except (PyMongoError, ValueError):
        # The driver's message quotes what it cannot parse, which may be the password.
        raise StoreUnavailable("The MongoDB address is not valid") from None


T = TypeVar("T")


class ShieldedCalls:
    """Runs calls of several steps to their end even if the caller is cancelled."""

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
            task.exception()  # retrieved here, as the caller may be gone


@contextmanager
def cancellable() -> Iterator[None]:
    """Raise CancelledError at the end if the task was cancelled inside and continued.

    Before Python 3.12, `asyncio.wait_for`, which the driver uses for each message, loses a
    cancellation that arrives together with its result.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    yield
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


ACCESS_ERRORS = (13, 18)  # Unauthorized, AuthenticationFailed
DISK_FULL = 14031


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Translate the driver's errors into `StoreUnavailable`, without passwords."""
    try:
        with cancellable():
            yield
    except PyMongoError as error:
        # A bulk write error contains all documents, which must not be logged.
        cause = None if isinstance(error, BulkWriteError) else error
        raise _unavailable(error, address) from cause


def _unavailable(error: PyMongoError, address: str) -> StoreUnavailable:
    kind = StoreUnavailable
    match error:
        case WTimeoutError() | ExecutionTimeout() | NetworkTimeout():
            text = "it did not answer in time"
        case NotPrimaryError():
            text = "it has no primary at the moment"
        case ConnectionFailure():
            text = "it does not answer (check that it is running, its address and the network)"
        case OperationFailure(code=code) if code in ACCESS_ERRORS:
            text = "access denied (check user, password and permissions)"
        case OperationFailure(code=code) if code == DISK_FULL:
            kind, text = NoDiskSpace, "there is no space left on its disk"
        case BulkWriteError(details={"writeErrors": [{"code": code}, *_]}) if code == DISK_FULL:
            kind, text = NoDiskSpace, "there is no space left on its disk"
        case BulkWriteError(details={"writeErrors": [{"errmsg": str(reason)}, *_]}):
            text = reason
        case BulkWriteError():
            text = "it did not confirm the write in time"
        case OperationFailure(details={"errmsg": str(reason)}):
            text = reason
        case DocumentTooLarge():
            text = "a document is too large"
        case _:
            text = f"{type(error).__name__}: {error}"
    return kind(f"The MongoDB at {address} cannot be used: {text}")


R = TypeVar("R")

MAX_BATCH = 512


class WriteBatcher(Generic[T, R]):
    """Batches concurrent writes: while one batch is written, the next one is collected.

    The write is made even if its caller is cancelled.
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
            group, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            answers: Sequence[R | Exception]
            try:
                answers = await self._write([item for item, _ in group])
            except Exception as error:  # passed on to the callers
                answers = [error] * len(group)
            for (_, future), answer in zip(group, answers, strict=True):
                resolve(future, answer)
        self._writing = None
