"""One thread that does all writes of a process to its SQLite file, many callers to a commit."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import apsw

from ..errors import StoreUnavailable

T = TypeVar("T")

MAX_GROUP = 512
BUSY_SECONDS = 30.0


@dataclass(slots=True)
class _Call:
    work: Callable[[apsw.Connection], Any]
    durable: bool
    future: asyncio.Future[Any] = field(repr=False)
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Runs each call's work inside a transaction and answers only once that is committed.

    Calls that wait together share one commit: the disk is asked to sync once for all of them.
    A call that fails is undone alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="sqlite-writer", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._db: apsw.Connection
        self._synchronous = ""

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._db = connect(self._path)
        self._thread.start()

    def close(self) -> None:
        self._calls.put(None)
        self._thread.join()

    async def call(self, work: Callable[[apsw.Connection], T], *, durable: bool = False) -> T:
        """Run `work` in a transaction. Durable: it survives a power cut once this returns."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.put(_Call(work, durable, future))
        return await future

    def _run(self) -> None:
        while (group := self._next_group()) is not None:
            try:
                self._commit(group)
            except apsw.Error as error:
                self._roll_back()
                unavailable = unavailable_error(error, self._path)
                for call in group:
                    call.error = unavailable
            self._loop.call_soon_threadsafe(_answer, group)
        self._db.close()

    def _next_group(self) -> list[_Call] | None:
        """Whatever is waiting, at least one call; None when the writer shall stop."""
        first = self._calls.get()
        if first is None:
            return None
        group = [first]
        while len(group) < MAX_GROUP:
            try:
                call = self._calls.get_nowait()
            except Empty:
                break
            if call is None:  # finish this group, then stop
                self._calls.put(None)
                break
            group.append(call)
        return group

    def _commit(self, group: list[_Call]) -> None:
        # NORMAL survives the death of any process, FULL a power cut too.
        self._set_synchronous("FULL" if any(call.durable for call in group) else "NORMAL")
        self._db.execute("BEGIN IMMEDIATE")
        for call in group:
            self._db.execute("SAVEPOINT one")
            try:
                call.result = call.work(self._db)
            except (apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CorruptError):
                raise
            except Exception as error:
                self._db.execute("ROLLBACK TO one")
                call.error = error
            self._db.execute("RELEASE one")
        self._db.execute("COMMIT")

    def _set_synchronous(self, level: str) -> None:
        if level != self._synchronous:
            self._db.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")


def _answer(group: list[_Call]) -> None:
    for call in group:
        if call.future.done():  # its caller was cancelled meanwhile
            continue
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.result)


def connect(path: Path, *, read_only: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | (0 if read_only else apsw.SQLITE_OPEN_CREATE)
    db = apsw.Connection(str(path), flags=flags)
    db.set_busy_handler(_wait_while_busy())
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # heeded only by a new file
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA temp_store = MEMORY")
    db.execute("PRAGMA cache_size = -65536")
    db.execute("PRAGMA wal_autocheckpoint = 4000")
    if read_only:
        db.execute("PRAGMA query_only = ON")
    return db


def _wait_while_busy() -> Callable[[int], bool]:
    """SQLite's own handler backs off to 100 ms, which starves a process among several."""
    started = 0.0

    def wait(tries: int) -> bool:
        nonlocal started
        now = time.monotonic()
        if tries == 0:
            started = now
        time.sleep(random.uniform(0.0002, min(0.001 * (tries + 1), 0.005)))
        return now - started < BUSY_SECONDS

    return wait


def unavailable_error(error: Exception, path: Path) -> StoreUnavailable:
    """What went wrong, in a sentence an operator can act on."""
    match error:
        case apsw.FullError():
            text = "there is no space left on its disk"
        case apsw.ReadOnlyError():
            text = "it is read-only"
        case apsw.CantOpenError():
            text = "it cannot be opened or created (does its directory exist, may we write there?)"
        case apsw.NotADBError() | apsw.CorruptError():
            text = "it is not a usable SQLite database"
        case apsw.BusyError() | apsw.LockedError():
            text = f"another process has kept it locked for {BUSY_SECONDS:.0f} s"
        case _:
            text = str(error)
    return StoreUnavailable(f"The database {path.name} in {path.parent} cannot be used: {text}")
