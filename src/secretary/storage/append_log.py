"""An append-only log of numbered records, which several processes may write at once.

Each process appends to a file of its own: one line per record, with its number and creation time
in front. Appending a line is twenty times as fast as creating a file."""

import errno
import functools
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO
from uuid import uuid4

FILE_PREFIX = "records-"


@dataclass(frozen=True, slots=True)
class RecordRef:
    """The position of a record in the log."""

    file: str
    start: int
    size: int
    made_at: float


_append_lock = threading.Lock()


def append(directory: str, number: int, record: bytes, *, not_before: float = 0.0) -> None:
    """Append a record, which must be a single line.

    Its creation time is never earlier than `not_before`: a client that asks for fresh records has
    to find them, even if the clock of this machine is behind or was set back.
    """
    made_at = max(time.time(), not_before)
    # Not %f: rounding could move the time before `not_before`.
    line = b"%d %a %b\n" % (number, made_at, record)
    with _append_lock, open(f"{directory}/{_own_file(os.getpid())}", "ab", buffering=0) as file:
        if file.write(line) < len(line):  # the disk is full, and the write did not raise
            _own_file.cache_clear()  # a record after a partial line could not be parsed
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def index(directory: str, *, made_after: float = 0.0) -> dict[int, RecordRef]:
    """Return the latest record for each number."""
    latest: dict[int, RecordRef] = {}
    for number, ref in _scan(directory):
        other = latest.get(number)
        if ref.made_at >= made_after and (not other or other.made_at <= ref.made_at):
            latest[number] = ref
    return latest


def read(refs: Iterable[RecordRef]) -> Iterator[bytes]:
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for ref in refs:
            if ref.file not in files:
                files[ref.file] = stack.enter_context(open(ref.file, "rb"))
            files[ref.file].seek(ref.start)
            yield files[ref.file].read(ref.size).split(b" ", 2)[2]


def _scan(directory: str) -> Iterator[tuple[int, RecordRef]]:
    with os.scandir(directory) as entries:
        paths = [entry.path for entry in entries if entry.name.startswith(FILE_PREFIX)]
    for path in paths:
        start = 0
        with open(path, "rb") as file:
            for line in file:
                if line.endswith(b"\n"):  # otherwise the process died while writing it
                    number, made_at, _ = line.split(b" ", 2)
                    yield int(number), RecordRef(path, start, len(line), float(made_at))
                start += len(line)


@functools.cache
def _own_file(pid: int) -> str:
    """Not the process id alone: it may repeat on another machine or after a restart."""
    return f"{FILE_PREFIX}{pid}-{uuid4().hex[:12]}.jsonl"
