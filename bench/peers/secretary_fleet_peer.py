"""Secretary on MongoDB with several worker processes, each with its own data directory."""

import os
import sys
from dataclasses import replace
from pathlib import Path

from secretary_peer import PEER as SINGLE
from secretary_peer import worker_env

WORKERS = int(os.environ.get("BENCH_WORKERS", "2"))
SLOTS = int(os.environ.get("BENCH_SLOTS", "16"))
HANDLERS = os.environ.get("BENCH_HANDLERS", "register")
WHERE = {"register": "child processes", "register_on_loop": "the event loop"}
TIMED_WORKER = Path(__file__).resolve().with_name("timed_worker.py")

PEER = replace(
    SINGLE,
    runs_as=f"{WORKERS} worker processes with {SLOTS} slots, handlers in {WHERE[HANDLERS]}",
    worker=(sys.executable, str(TIMED_WORKER), "fleet", str(WORKERS), str(SLOTS)),
    worker_env=worker_env(f"secretary_handlers:{HANDLERS}"),
    extra=None,
)
