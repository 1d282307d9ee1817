"""Secretary workers that record how long their claims take.

    python timed_worker.py fleet WORKERS SLOTS    several, until one of them exits
    python timed_worker.py NUMBER SLOTS           one of them

Nothing else differs from `secretary worker`. Each claim that returned jobs appends 24 bytes to the
file `claims`: when it ended (monotonic), its nanoseconds, and the number of jobs. With
BENCH_BARRIER the workers start together, once there is a file `go`: starting a process takes a
second of a core, which would favour the first ones.
"""

import asyncio
import os
import struct
import subprocess
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


def fleet(workers: str, slots: str) -> None:
    command = [sys.executable, str(Path(__file__).resolve())]
    processes = [subprocess.Popen([*command, str(n), slots]) for n in range(int(workers))]
    while all(process.poll() is None for process in processes):
        time.sleep(0.2)
    os._exit(1)


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
    if sys.argv[1] == "fleet":
        fleet(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
