"""Several workers of Secretary: `python fleet.py WORKERS SLOTS`. Ends when one of them does.

Where BENCH_BARRIER is set they begin together, when there is a file `go`: to start a process takes
a second of a core, in which those that came first would have it easier.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

WORKER = Path(__file__).resolve().with_name("timed_worker.py")


def main(workers: str, slots: str) -> None:
    processes = [
        subprocess.Popen([sys.executable, str(WORKER), str(number), slots])
        for number in range(int(workers))
    ]
    while all(process.poll() is None for process in processes):
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
