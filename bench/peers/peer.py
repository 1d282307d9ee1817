"""What a row of the engine benchmark consists of, and the two jobs that all rows run.

A row is a module in this directory with a `PEER`; `verbs.py` gives all rows the same command line.
In the environment a row finds BENCH_DIR, its own directory, empty and current, and BENCH_URL, the
address of its broker if it has one. The first program to run is always a client (`enqueue`), so
that it can create the store.
"""

import functools
import os
import struct
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Job = Literal["noop", "hold"]
Submit = Callable[[Job, int], Awaitable[object]]
"""Enqueues one job through the regular API; the number is the job's payload, for `record`."""

HOLD_S = 600


@dataclass(frozen=True, kw_only=True)
class Peer:
    version: str
    runs_as: str
    """How its worker runs, for the reader of the table."""
    durable: bool
    """Whether a job whose enqueue has returned survives a power cut."""
    worker: tuple[str, ...]
    """The command its users start; it runs until it is killed."""
    worker_env: Mapping[str, str] = field(default_factory=dict)
    client: Callable[[], AbstractAsyncContextManager[Submit]]
    extra: Callable[[], Awaitable[Mapping[str, object]]] | None = None
    """Figures that only this row has."""


def record(sent: int) -> None:
    """The no-op job: records in one write of 16 bytes when it was sent and when it started."""
    os.write(_records(), struct.pack("<qq", sent, time.monotonic_ns()))


def hold(sent: int) -> None:
    """The job that is killed: records its start and does not return."""
    record(sent)
    time.sleep(HOLD_S)


@dataclass(frozen=True)
class Blocking:
    """A client whose library blocks; it may be called from many threads."""

    submit: Callable[[Job, int], object]

    async def __call__(self, job: Job, sent: int) -> None:
        self.submit(job, sent)  # the await costs less than a microsecond


@asynccontextmanager
async def blocking(submit: Callable[[Job, int], object]) -> AsyncIterator[Submit]:
    yield Blocking(submit)


def tool(name: str) -> str:
    """A program installed next to the Python that runs this row."""
    return str(Path(sys.executable).with_name(name))


@functools.cache
def _records() -> int:
    # O_APPEND keeps the records of all processes intact, also with a descriptor inherited by fork.
    path = Path(os.environ["BENCH_DIR"], "records")
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
