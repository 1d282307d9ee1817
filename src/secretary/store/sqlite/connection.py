"""How the SQLite file is opened, and how long a connection waits for another process."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import apsw

BUSY_SECONDS = 30.0


def connect(path: Path, *, read_only: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | (0 if read_only else apsw.SQLITE_OPEN_CREATE)
    db = apsw.Connection(str(path), flags=flags)
    db.set_busy_handler(wait_while_busy(lambda: True))
    # Else SQLite prepares a statement anew whenever a value changes that its planner might heed.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # heeded only by a new file
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA temp_store = MEMORY")
    db.execute("PRAGMA cache_size = -65536")
    db.execute("PRAGMA journal_size_limit = 67108864")
    if read_only:
        db.execute("PRAGMA query_only = ON")
    return db


def wait_while_busy(may_wait: Callable[[], bool]) -> Callable[[int], bool]:
    """SQLite's own handler backs off to 100 ms, which starves a process among several."""
    started = 0.0

    def wait(tries: int) -> bool:
        nonlocal started
        if not may_wait():
            return False
        now = time.monotonic()
        if tries == 0:
            started = now
        time.sleep(random.uniform(0.0002, min(0.001 * (tries + 1), 0.005)))
        return now - started < BUSY_SECONDS

    return wait
