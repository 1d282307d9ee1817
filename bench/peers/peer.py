"""What a row of the engine benchmark consists of, and the two jobs that all rows run.

A row is one module in this directory with a `PEER`; `verbs.py` gives every row the same command
line, so that `engine.py` treats them alike. A row finds in its environment

    BENCH_DIR   its own directory, empty at first, also the current one; thrown away afterwards
    BENCH_URL   the address of its server, if it asked for one

and nothing is left over from an earlier measurement. The first program to run is always a client
(`enqueue`), alone: a store that must be created is created by it.
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
"""Enqueues one job by the normal API; the number is the job's payload, to be handed to `record`."""

HOLD_S = 600


@dataclass(frozen=True, kw_only=True)
class Peer:
    version: str
    runs_as: str
    """How its worker is started, in a few words for the reader of the table."""
    durable: bool
    """Whether a job whose enqueue has returned survives a power cut."""
    worker: tuple[str, ...]
    """The command of its users; it replaces the process and works until it is killed."""
    worker_env: Mapping[str, str] = field(default_factory=dict)
    client: Callable[[], AbstractAsyncContextManager[Submit]]
    extra: Callable[[], Awaitable[Mapping[str, float]]] | None = None
    """Figures that only this row has: title → value, for the second table."""


def record(sent: int) -> None:
    """The no-op job: notes in one write of 16 bytes when it was sent and that it runs now."""
    os.write(_records(), struct.pack("<qq", sent, time.monotonic_ns()))


def hold(sent: int) -> None:
    """The job that is killed: it notes its start and does not end by itself."""
    record(sent)
    time.sleep(HOLD_S)


@dataclass(frozen=True)
class Blocking:
    """A client whose library blocks: `submit` may be called as it is, by many threads at once."""

    submit: Callable[[Job, int], object]

    async def __call__(self, job: Job, sent: int) -> None:
        self.submit(job, sent)  # the await costs less than a microsecond


@asynccontextmanager
async def blocking(submit: Callable[[Job, int], object]) -> AsyncIterator[Submit]:
    yield Blocking(submit)


def tool(name: str) -> str:
    """A program installed beside the Python that runs this row."""
    return str(Path(sys.executable).with_name(name))


@functools.cache
def _records() -> int:
    # O_APPEND keeps the records of all processes whole; a descriptor inherited by fork is as good.
    path = Path(os.environ["BENCH_DIR"], "records")
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
