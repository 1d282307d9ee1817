"""The change feed (each change has a revision, in commit order), and wake-ups between processes."""

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

#: An SQL expression. Writes are serialized, so no other one gets the same revision; all rows that
#: one statement changes share it. It costs two index lookups and no write.
NEXT_REVISION = (
    "(SELECT 1 + max(coalesce((SELECT max(revision) FROM jobs), 0),"
    " coalesce((SELECT max(revision) FROM traces), 0)))"
)

#: Readers that fall further behind than this miss deletions and batch changes.
MAX_RECORDED_CHANGES = 10_000

# Not a row-value comparison: SQLite would only seek by the first column and scan the rest.
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
    """Record a change that no row of `jobs` shows. `above` is the revision of a deleted job: if it
    was the highest, it must not be assigned again."""
    db.execute(
        f"INSERT INTO traces VALUES (max({NEXT_REVISION}, ? + 1), ?, ?)",
        (above, job_id, batch_id),
    )


def prune_recorded_changes(db: apsw.Connection) -> None:
    """Keep the newest one in any case: it may have the highest revision."""
    db.execute(
        "DELETE FROM traces WHERE revision <="
        " (SELECT revision FROM traces ORDER BY revision DESC LIMIT 1 OFFSET ?)",
        (MAX_RECORDED_CHANGES,),
    )


def changes(db: apsw.Connection, since: str | None, *, limit: int) -> Changes:
    position = _parse_position(since) if since is not None else None
    with db:  # one snapshot for both queries
        newest: int = db.execute(f"SELECT {NEXT_REVISION}").get - 1
        if position is None or position[0] > newest:  # invalid, or of another database
            return Changes([], _position(newest, _END_OF_REVISION), gap=since is not None)
        rows: list[Any] = db.execute(CHANGES, (*position, limit)).fetchall()
    items = [Change(job_id, batch_id) for _, _, job_id, batch_id in rows]
    if len(rows) < limit:
        return Changes(items, _position(newest, _END_OF_REVISION))
    return Changes(items, _position(rows[-1][0], rows[-1][1]))


#: Sorts after every row of a revision.
_END_OF_REVISION = 2**62


def _position(revision: int, seq: int) -> str:
    return f"{revision}" if seq == _END_OF_REVISION else f"{revision}.{seq}"


def _parse_position(position: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d{1,18})(?:\.(\d{1,18}))?", position, re.ASCII)
    return (int(match[1]), int(match[2] or _END_OF_REVISION)) if match else None


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
            self._wake(address)

    def _wake(self, address: str) -> None:
        assert self._socket is not None
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
