"""Secretary on MongoDB with several worker processes, as many machines have them: each in a data
directory of its own."""

import os
import sys
from dataclasses import replace
from pathlib import Path

from secretary_peer import PEER as SINGLE
from secretary_peer import worker_env

WORKERS = int(os.environ.get("BENCH_WORKERS", "2"))
SLOTS = int(os.environ.get("BENCH_SLOTS", "16"))
HANDLERS = os.environ.get("BENCH_HANDLERS", "register")
WHERE = {
    "register": "in child processes",
    "register_on_loop": "on the loops of their workers",
}
FLEET = Path(__file__).resolve().with_name("fleet.py")

PEER = replace(
    SINGLE,
    runs_as=f"{WORKERS} worker processes of {SLOTS} slots, jobs run {WHERE[HANDLERS]}",
    worker=(sys.executable, str(FLEET), str(WORKERS), str(SLOTS)),
    worker_env=worker_env(f"secretary_handlers:{HANDLERS}"),
    extra=None,
)
