"""A worker of Secretary that notes how long its claims take: `python timed_worker.py NUMBER SLOTS`.

Nothing else differs from `secretary worker`. In the file `claims` each claim that brought jobs is
24 bytes: when it ended (monotonic), nanoseconds it took, and how many jobs.
"""

import asyncio
import os
import struct
import sys
import time
from pathlib import Path

from secretary import config
from secretary.core.job import Job
from secretary.observability import logging as logs
from secretary.serve import work
from secretary.store import STORES, Capacity
from secretary.store.mongo import MongoStore

DIRECTORY = Path(os.environ["BENCH_DIR"])


class TimedStore(MongoStore):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._claimed = os.open(DIRECTORY / "claims", flags, 0o644)

    async def claim(self, worker_id: str, wanted: Capacity) -> list[Job]:
        started = time.monotonic_ns()
        jobs = await super().claim(worker_id, wanted)
        if jobs:
            now = time.monotonic_ns()
            os.write(self._claimed, struct.pack("<qqq", now, now - started, len(jobs)))
        return jobs


def main(number: str, slots: str) -> None:
    STORES["mongodb"] = f"{__name__}:{TimedStore.__name__}"
    overrides = {"storage": {"data_dir": DIRECTORY / f"worker-{number}"}}
    settings = config.load(overrides=overrides)
    logs.configure_logging("warning", as_json=False)
    if os.environ.get("BENCH_BARRIER"):
        (DIRECTORY / f"ready-{number}").touch()
        while not (DIRECTORY / "go").exists():
            time.sleep(0.01)
    asyncio.run(work(settings, slots=int(slots)))


if __name__ == "__main__":
    main(*sys.argv[1:])
