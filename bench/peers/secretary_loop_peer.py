"""Secretary on SQLite with its handlers on the worker's loop, as SAQ runs coroutines."""

from dataclasses import replace

import one_process
from secretary_peer import PEER, worker, worker_env

SLOTS = 64

PEER = replace(
    PEER,
    runs_as=f"1 process with {SLOTS} coroutines",
    worker=worker(SLOTS),
    worker_env=worker_env("secretary_handlers:register_on_loop"),
    extra=one_process.extra,
)
