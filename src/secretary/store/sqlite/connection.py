"""Connections to the SQLite file: reader threads, a writer with group commit, and wake-ups between
processes."""

import asyncio
import contextlib
import os
import random
import shutil
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import local
from typing import Any, TypeVar
from uuid import uuid4

import apsw

from ...core.errors import NoDiskSpace, StoreLocked, StoreUnavailable
from ..jobs import Notifier, resolve

#: How long opening the database waits for other processes: one may be changing the schema.
BUSY_SECONDS = 30.0
#: How long a write waits for the lock. Other processes hold it for milliseconds, unless one hangs.
LOCK_SECONDS = 5.0
#: How long a readiness check waits for the lock.
CHECK_SECONDS = 1.0
#: A disk with less space than a few pages of the database is full.
MIN_FREE_BYTES = 65_536


def connect(path: Path, *, read_only: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | (0 if read_only else apsw.SQLITE_OPEN_CREATE)
    db = apsw.Connection(str(path), flags=flags)
    db.set_busy_handler(wait_while_busy(lambda: True))
    # Otherwise SQLite re-prepares a statement whenever a bound value might change its plan.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    if not read_only:
        # Only affects new files, but takes the write lock.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute(
        "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
        "PRAGMA cache_size = -65536; PRAGMA journal_size_limit = 67108864"
    ).fetchall()
    if read_only:
        db.execute("PRAGMA query_only = ON")
    return db


def wait_while_busy(
    may_wait: Callable[[], bool], seconds: float = BUSY_SECONDS
) -> Callable[[int], bool]:
    """Wait with jitter: SQLite's own handler backs off to 100 ms, which starves busy processes."""
    started = 0.0

    def wait(tries: int) -> bool:
        nonlocal started
        if not may_wait():
            return False
        now = time.monotonic()
        if tries == 0:
            started = now
        time.sleep(random.uniform(0.0002, min(0.001 * (tries + 1), 0.005)))
        return now - started < seconds

    return wait


def unavailable_error(error: Exception, path: Path) -> StoreUnavailable:
    kind = StoreUnavailable
    match error:
        case apsw.FullError():
            kind, text = NoDiskSpace, "there is no space left on its disk"
        case apsw.IOError() if _is_full(path):
            kind, text = NoDiskSpace, f"there is no space left on its disk ({error})"
        case apsw.ReadOnlyError():
            text = "it is read-only"
        case apsw.CantOpenError():
            text = "it cannot be opened or created (check its directory and permissions)"
        case apsw.NotADBError() | apsw.CorruptError():
            text = "it is not a usable SQLite database"
        case apsw.BusyError() | apsw.LockedError():
            kind, text = StoreLocked, "another process keeps it locked"
        case _:
            text = str(error)
    return kind(f"The database {path.name} in {path.parent} cannot be used: {text}")


def _is_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < MIN_FREE_BYTES
    except OSError:
        return False


T = TypeVar("T")

READ_THREADS = 2


class Readers:
    """Threads with a connection each, and one connection for the event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="sqlite-reader")
        self._connections = local()
        self._opened: list[apsw.Connection] = []
        self._on_loop: apsw.Connection

    def open(self) -> None:
        self._on_loop = connect(self._path, read_only=True)
        self._on_loop.set_busy_handler(None)

    def close(self) -> None:
        self._threads.shutdown()
        for connection in (self._on_loop, *self._opened):
            connection.close()

    async def call(self, work: Callable[[apsw.Connection], T]) -> T:
        def run() -> T:
            try:
                if not hasattr(self._connections, "db"):
                    self._connections.db = connect(self._path, read_only=True)
                    self._opened.append(self._connections.db)
                return work(self._connections.db)
            except apsw.Error as error:
                raise unavailable_error(error, self._path) from error

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    async def call_on_loop(self, work: Callable[[apsw.Connection], T]) -> T:
        """For single-row reads, which take less time than handing them to a thread."""
        try:
            return work(self._on_loop)
        except apsw.Error:  # busy or broken: the thread may wait, and reports the error
            return await self.call(work)


MAX_GROUP = 512

#: Commits run on the event loop if the disk syncs faster than this.
FAST_SYNC = 0.001

#: Checkpoint when the WAL has grown to this many pages (16 MB).
CHECKPOINT_PAGES = 4000

#: Errors that no single call caused; they fail the whole group.
FATAL_ERRORS = (apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CorruptError, apsw.BusyError)

#: Does the work of many calls of one kind with few statements. Results that are exceptions are
#: raised in their callers.
Many = Callable[[apsw.Connection, list[Any]], Sequence[Any]]


@dataclass(slots=True)
class _Call:
    many: Many
    item: Any
    durable: bool
    heavy: bool
    future: asyncio.Future[Any] = field(init=False, repr=False)
    answer: Any = None


class Writer:
    """Runs calls in transactions with group commit; a call returns once it is committed.

    Calls that wait together share one commit, and so one disk sync. A call that fails is rolled
    back alone.

    The statements of ordinary calls take microseconds and run on the event loop, like the sync of
    a fast disk: handing them to a thread would take ten times as long. Whatever may take longer
    goes to a thread: the sync of a slower disk, waiting for another process, heavy work.
    """

    def __init__(self, path: Path, *, on_commit: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._on_commit = on_commit
        self._calls: deque[_Call] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-writer")
        self._busy = False
        self._may_wait = False
        self._waits_for_lock = False
        self._wal_pages = 0
        self._synchronous = ""
        self._sync_seconds = 1.0  # assume a slow disk until measured
        self._loop: asyncio.AbstractEventLoop
        self._db: apsw.Connection

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._db = connect(self._path)
        self._db.set_busy_handler(wait_while_busy(lambda: self._may_wait, LOCK_SECONDS))
        self._db.set_wal_hook(self._note_wal_pages)

    async def close(self) -> None:
        while self._busy or self._calls:
            await asyncio.sleep(0.001)
        await self._loop.run_in_executor(self._thread, self._db.close)
        self._thread.shutdown()

    async def call(
        self, work: Callable[[apsw.Connection], T], *, durable: bool = False, heavy: bool = False
    ) -> T:
        """Run `work` in a transaction; a durable one survives a power failure."""
        result: T = await self._enqueue(_Call(lambda db, _: [work(db)], None, durable, heavy))
        return result

    async def call_with_others(self, many: Many, item: Any, *, durable: bool = False) -> Any:
        """Run `many` on this item together with those of all waiting calls of the same kind."""
        return await self._enqueue(_Call(many, item, durable, False))

    async def check_lock(self) -> None:
        """Raise `StoreLocked` if another process keeps the lock. Long work of this one is fine."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self.call(lambda db: None)
        except TimeoutError:
            if self._waits_for_lock:
                raise unavailable_error(apsw.BusyError(), self._path) from None

    def _enqueue(self, call: _Call) -> asyncio.Future[Any]:
        call.future = self._loop.create_future()
        self._calls.append(call)
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._next_group)
        return call.future

    def _next_group(self) -> None:
        if not self._calls:
            self._busy = False
            return
        group = [self._calls.popleft() for _ in range(min(len(self._calls), MAX_GROUP))]
        if any(call.heavy for call in group):
            self._in_thread(self._all_of, group)
            return
        try:
            self._begin(group)
        except apsw.Error:  # busy or broken: the thread may wait, and reports the error
            self._in_thread(self._all_of, group)
            return
        try:
            self._execute(group, lambda many, items: many(self._db, items))
            if self._synchronous == "NORMAL" or self._sync_seconds < FAST_SYNC:
                self._commit(group)
                self._answer(group)
            else:
                self._in_thread(self._commit, group)
        except FATAL_ERRORS as error:
            self._refuse(group, error)
            self._answer(group)
        except Exception:  # rare: repeat with savepoints, so that only the failing call is undone
            self._db.execute("ROLLBACK")
            self._in_thread(self._all_of, group)

    def _begin(self, group: list[_Call]) -> None:
        # NORMAL survives a process crash, FULL a power failure too.
        level = "FULL" if any(call.durable for call in group) else "NORMAL"
        if level != self._synchronous:
            self._db.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level
        self._db.execute("BEGIN IMMEDIATE")

    def _in_thread(self, work: Callable[[list[_Call]], None], group: list[_Call]) -> None:
        def run() -> None:
            try:
                work(group)
            except apsw.Error as error:
                self._refuse(group, error)
            self._loop.call_soon_threadsafe(self._answer, group)

        self._thread.submit(run)

    def _all_of(self, group: list[_Call]) -> None:
        self._may_wait = self._waits_for_lock = True
        try:
            self._begin(group)
            self._waits_for_lock = False
            self._execute(group, self._in_savepoint)
            self._commit(group)
        finally:
            self._may_wait = self._waits_for_lock = False

    def _execute(self, group: list[_Call], run: Callable[[Many, list[Any]], Sequence[Any]]) -> None:
        kinds: dict[Many, list[_Call]] = {}
        for call in group:
            kinds.setdefault(call.many, []).append(call)
        for many, calls in kinds.items():
            answers = run(many, [call.item for call in calls])
            for call, answer in zip(calls, answers, strict=True):
                call.answer = answer

    def _in_savepoint(self, many: Many, items: list[Any]) -> Sequence[Any]:
        self._db.execute("SAVEPOINT one")
        try:
            answers = many(self._db, items)
        except FATAL_ERRORS:
            raise
        except Exception as error:
            self._db.execute("ROLLBACK TO one")
            answers = [error] * len(items)
        self._db.execute("RELEASE one")
        return answers

    def _commit(self, group: list[_Call]) -> None:
        started = time.perf_counter()
        self._db.execute("COMMIT")
        if self._synchronous == "FULL":
            took = time.perf_counter() - started
            # One slow sync moves commits to the thread; it takes several fast ones to return.
            self._sync_seconds = max(took, 0.8 * self._sync_seconds + 0.2 * took)

    def _refuse(self, group: list[_Call], error: Exception) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        unavailable = unavailable_error(error, self._path)
        for call in group:
            call.answer = unavailable

    def _answer(self, group: list[_Call]) -> None:
        if group and isinstance(error := group[0].answer, StoreLocked):
            # Those behind them would wait as long again, and in vain.
            for call in self._calls:
                call.answer = error
            group = [*group, *self._calls]
            self._calls.clear()
        for call in group:
            resolve(call.future, call.answer)
        self._on_commit()
        if self._wal_pages >= CHECKPOINT_PAGES:
            self._wal_pages = 0
            self._in_thread(self._checkpoint, [])
        else:
            # Let the callers run first: their next calls can join the next group.
            self._loop.call_soon(self._next_group)

    def _note_wal_pages(self, _: apsw.Connection, __: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self, _: list[_Call]) -> None:
        self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


#: A directory may change again within this time without a new modification time.
MTIME_RESOLUTION_SECONDS = 0.1


class WakeUp(Notifier):
    """Wakes waiting tasks in this and other processes, over datagram sockets. A lost wake-up only
    costs time, as waiting workers poll too."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self._socket: socket.socket | None = None
        self._name = f"{uuid4().hex[:12]}.sock"
        self._wake_scheduled = False
        self._others: list[str] = []
        self._others_at = 0
        self._loop: asyncio.AbstractEventLoop

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._directory.mkdir(exist_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            sock.bind(_address(self._directory / self._name))
        except OSError:
            # No sockets on this file system, or the path is too long: waiting workers poll.
            sock.close()
            return
        self._socket = sock
        self._loop.add_reader(sock, self._on_datagram)

    def close(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            (self._directory / self._name).unlink(missing_ok=True)
            self._socket = None

    def notify(self) -> None:
        """Wake everyone who waits in this or another process."""
        super().notify()
        if self._socket is not None and not self._wake_scheduled:
            self._wake_scheduled = True
            self._loop.call_soon(self._wake_others)

    def _wake_others(self) -> None:
        """Send one datagram for all notifications of one loop iteration."""
        self._wake_scheduled = False
        if self._socket is None:
            return
        changed_at = os.stat(self._directory).st_mtime_ns
        if changed_at != self._others_at:
            self._others = [
                _address(Path(entry.path))
                for entry in os.scandir(self._directory)
                if entry.name != self._name
            ]
            settled = time.time_ns() - changed_at > MTIME_RESOLUTION_SECONDS * 1e9
            self._others_at = changed_at if settled else 0
        for address in self._others:
            try:
                self._socket.sendto(b"", address)
            except ConnectionRefusedError:
                Path(address).unlink(missing_ok=True)  # its process has died
            except OSError:
                pass  # its buffer is full, so it is awake; or it has just exited

    def _on_datagram(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
        super().notify()


def _address(path: Path) -> str:
    # Socket addresses are limited to 108 bytes; a relative path may be shorter.
    return min(str(path), os.path.relpath(path), key=len)
