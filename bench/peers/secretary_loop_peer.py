"""Secretary on SQLite with handlers on the worker's event loop, as SAQ runs coroutines; and the
start latency if one process is client, store and worker."""

import asyncio
import os
import statistics
import struct
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from secretary_peer import DIRECTORY, PEER, opened_store, worker, worker_env

from secretary.app import Application
from secretary.config import Settings, StorageSettings
from secretary.core.job import Job
from secretary.serve import run_worker

SLOTS = 64
HANDLERS = "secretary_handlers:register_on_loop"
JOBS, WARM_UP = 300, 50
GAP_S = 0.02
LIMIT_S = 30


async def extra() -> Mapping[str, object]:
    settings = Settings(storage=StorageSettings(data_dir=DIRECTORY), handlers=(HANDLERS,))
    async with opened_store() as store:
        parts = Application(settings, store).worker(slots=16)
        working = asyncio.create_task(run_worker(parts))
        try:
            for number in range(WARM_UP + JOBS):
                sent = time.monotonic_ns()
                await store.add([Job(job_type="noop", parameters={"sent": sent})])
                await asyncio.sleep(GAP_S)
                async with asyncio.timeout(LIMIT_S):
                    while len(_records()) <= number:
                        await asyncio.sleep(0.001)
        finally:
            parts.worker.drain()
            await working
    delays = [(started - sent) / 1e6 for sent, started in _records()[WARM_UP:]]
    return {"one_process": (statistics.median(delays), statistics.quantiles(delays, n=20)[-1])}


def _records() -> list[tuple[int, ...]]:
    path = Path(os.environ["BENCH_DIR"], "records")
    return list(struct.iter_unpack("<qq", path.read_bytes())) if path.exists() else []


PEER = replace(
    PEER,
    runs_as=f"1 process with {SLOTS} coroutines",
    worker=worker(SLOTS),
    worker_env=worker_env(HANDLERS),
    extra=extra,
)
