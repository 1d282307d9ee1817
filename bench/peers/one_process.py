"""From the call to the first line of a job where one process does all: the client's call, the
store, and the worker with the handler on its loop."""

import asyncio
import os
import statistics
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from secretary_peer import DIRECTORY, opened_store

from secretary.app import Application
from secretary.config import Settings, StorageSettings
from secretary.core.job import Job
from secretary.serve import run_worker

JOBS, WARM_UP = 300, 50
GAP_S = 0.02
LIMIT_S = 30


async def extra() -> Mapping[str, float]:
    handlers = ("secretary_handlers:register_on_loop",)
    settings = Settings(storage=StorageSettings(data_dir=DIRECTORY), handlers=handlers)
    async with opened_store() as store:
        parts = Application(settings, store).worker(slots=16)
        working = asyncio.create_task(run_worker(parts))
        try:
            for number in range(WARM_UP + JOBS):
                sent = time.monotonic_ns()
                await store.add([Job(job_type="noop", parameters={"sent": sent})])
                await asyncio.sleep(GAP_S)
                await _started(number + 1)
        finally:
            parts.worker.drain()
            await working
    delays = [(started - sent) / 1e6 for sent, started in _records()[WARM_UP:]]
    twentieths = statistics.quantiles(delays, n=20)
    return {
        "in one process, call to start, p50 ms": statistics.median(delays),
        "in one process, call to start, p95 ms": twentieths[-1],
    }


async def _started(count: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while len(_records()) < count:
            await asyncio.sleep(0.001)


def _records() -> list[tuple[int, ...]]:
    """What jobs have noted: when they were sent, and when they began."""
    path = Path(os.environ["BENCH_DIR"], "records")
    return list(struct.iter_unpack("<qq", path.read_bytes())) if path.exists() else []
