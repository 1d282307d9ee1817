"""Parts of a work on disk, each kept as soon as it is done and found again by its number."""

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

#: Each process writes its records to a file of its own: a line for each, with its number and when
#: it was made in front. To append is twenty times as fast as to make a file.
RECORDS = "records-"


@dataclass(frozen=True, slots=True)
class RecordRef:
    """Where a record is."""

    file: str
    start: int
    size: int
    made_at: float


_appending = threading.Lock()


def append(directory: str, number: int, record: bytes, *, not_before: float = 0.0) -> None:
    """A record is one line. Once it is there, it is whole. It does not say that it is from before
    `not_before`: whoever wants all made anew has to find what was made, though the clock of this
    machine is behind, or was set back."""
    made_at = max(time.time(), not_before)
    line = b"%d %a %b\n" % (number, made_at, record)  # not %f: rounded, it could be from before
    with _appending, open(f"{directory}/{_own_file(os.getpid())}", "ab", buffering=0) as file:
        if file.write(line) < len(line):  # the disk is full, which nobody else would say
            _own_file.cache_clear()  # behind half of a line nothing can be found
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def index(directory: str, *, made_after: float = 0.0) -> dict[int, RecordRef]:
    """The records that are there, each as it was made last."""
    found: dict[int, RecordRef] = {}
    for place, number in _all_places(directory):
        known = found.get(number)
        if place.made_at >= made_after and (not known or known.made_at <= place.made_at):
            found[number] = place
    return found


def read(wanted: Iterable[RecordRef]) -> Iterator[bytes]:
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for place in wanted:
            if place.file not in files:
                files[place.file] = stack.enter_context(open(place.file, "rb"))
            files[place.file].seek(place.start)
            yield files[place.file].read(place.size).split(b" ", 2)[2]


def _all_places(directory: str) -> Iterator[tuple[RecordRef, int]]:
    with os.scandir(directory) as entries:
        files = [entry.path for entry in entries if entry.name.startswith(RECORDS)]
    for file in files:
        start = 0
        with open(file, "rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # else the process died while it wrote
                    number, made_at, _ = line.split(b" ", 2)
                    yield RecordRef(file, start, len(line), float(made_at)), int(number)
                start += len(line)


@functools.cache
def _own_file(pid: int) -> str:
    """Not by the process id alone: another machine, or another day, may have the same."""
    return f"{RECORDS}{pid}-{uuid4().hex[:12]}.jsonl"
