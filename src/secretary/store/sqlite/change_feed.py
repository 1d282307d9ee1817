"""The feed of changes in SQLite: each change gets a revision, in the order of the commits."""

import asyncio
import contextlib
import os
import re
import socket
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw

from ..jobs import Change, Changes
from ..notifier import Notifier

#: As an expression of SQL. Writers take turns, so the next number is that of nobody else. All
#: rows that one statement changes share it. To find it takes two looks at the ends of indexes
#: and writes nothing.
NEXT_REVISION = (
    "(SELECT 1 + max(coalesce((SELECT max(revision) FROM jobs), 0),"
    " coalesce((SELECT max(revision) FROM traces), 0)))"
)

#: So many traces are kept; a reader that comes later than that does not hear of those changes.
MAX_RECORDED_CHANGES = 10_000

# Not as one comparison of pairs: SQLite would seek by the first part only and walk the rest.
CHANGES = (
    "SELECT * FROM (SELECT revision, seq, job_id, batch_id FROM jobs INDEXED BY jobs_changed"
    " WHERE revision = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3)"
    " UNION ALL SELECT * FROM (SELECT revision, seq, job_id, batch_id FROM jobs"
    " INDEXED BY jobs_changed WHERE revision > ?1 ORDER BY revision, seq LIMIT ?3)"
    " UNION ALL SELECT * FROM (SELECT revision, 0, job_id, batch_id FROM traces"
    " WHERE revision > ?1 ORDER BY revision LIMIT ?3)"
    " ORDER BY 1, 2 LIMIT ?3"
)


def record_change(
    db: apsw.Connection, *, job_id: str | None, batch_id: str | None, above: int = 0
) -> None:
    """Note a change that no row of `jobs` tells of. `above` is the revision that went with a
    deleted job: if it was the highest, it must not be given out again."""
    db.execute(
        f"INSERT INTO traces VALUES (max({NEXT_REVISION}, ? + 1), ?, ?)",
        (above, job_id, batch_id),
    )


def prune_recorded_changes(db: apsw.Connection) -> None:
    """The newest one always stays: it may hold the highest revision."""
    db.execute(
        "DELETE FROM traces WHERE revision <="
        " (SELECT revision FROM traces ORDER BY revision DESC LIMIT 1 OFFSET ?)",
        (MAX_RECORDED_CHANGES,),
    )


def changes(db: apsw.Connection, since: str | None, *, limit: int) -> Changes:
    place = _parse_position(since) if since is not None else None
    with db:  # one view for both questions
        newest: int = db.execute(f"SELECT {NEXT_REVISION}").get - 1
        if place is None or place[0] > newest:  # unknown, or of another database
            return Changes([], _position(newest, _END_OF_REVISION), gap=since is not None)
        rows: list[Any] = db.execute(CHANGES, (*place, limit)).fetchall()
    items = [Change(job_id, batch_id) for _, _, job_id, batch_id in rows]
    if len(rows) < limit:
        return Changes(items, _position(newest, _END_OF_REVISION))
    return Changes(items, _position(rows[-1][0], rows[-1][1]))


#: Behind every row of a revision.
_END_OF_REVISION = 2**62


def _position(revision: int, seq: int) -> str:
    return f"{revision}" if seq == _END_OF_REVISION else f"{revision}.{seq}"


def _parse_position(position: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d{1,18})(?:\.(\d{1,18}))?", position, re.ASCII)
    return (int(found[1]), int(found[2] or _END_OF_REVISION)) if found else None


#: A directory that changed this recently may change again without a new time of change.
MTIME_RESOLUTION_SECONDS = 0.1


class WakeUp(Notifier):
    """Datagram sockets through which processes poke each other. A lost poke costs only time:
    who waits also looks again by itself."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self._socket: socket.socket | None = None
        self._name = f"{uuid4().hex[:12]}.sock"
        self._poking = False
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
            # A file system without sockets, or too long a path: who waits polls.
            sock.close()
            return
        self._socket = sock
        self._loop.add_reader(sock, self._heard)

    def close(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            (self._directory / self._name).unlink(missing_ok=True)
            self._socket = None

    def notify(self) -> None:
        """Wake everybody who waits here or in another process."""
        super().notify()
        if self._socket is not None and not self._poking:
            self._poking = True
            self._loop.call_soon(self._poke_others)

    def _poke_others(self) -> None:
        """Once for all the news of one turn of the loop."""
        self._poking = False
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
            self._poke(address)

    def _poke(self, address: str) -> None:
        assert self._socket is not None
        try:
            self._socket.sendto(b"", address)
        except ConnectionRefusedError:
            Path(address).unlink(missing_ok=True)  # its process died
        except OSError:
            pass  # its buffer is full, so it is awake; or it has just gone

    def _heard(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
        super().notify()


def _address(path: Path) -> str:
    # The address of a socket is short (108 bytes); a path relative to here may be shorter.
    return min(str(path), os.path.relpath(path), key=len)
