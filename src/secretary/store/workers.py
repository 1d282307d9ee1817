"""What other workers can do that this one cannot: during a deploy not all are of one version, and
some have handlers of their own."""

import time
from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from typing import Any

from ..core.job import iso, utc_now
from ..core.processes import has_died
from . import WorkerInfo

#: A worker renews its lease every few seconds; one that was silent for so long is gone.
ALIVE_WITHIN = timedelta(seconds=15)
#: A worker that is gone is expected back, or another like it, for so long.
EXPECTED_BACK_SECONDS = 600.0


def is_alive(worker: WorkerInfo) -> bool:
    silent = utc_now() - worker.seen_at
    return silent < ALIVE_WITHIN and not has_died(worker.pid, worker.birth)


class PeerCapabilities:
    """`handles`: the types that this worker has a handler for."""

    def __init__(
        self, handles: Collection[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._handles = frozenset(handles)
        self._clock = clock
        self._seen: dict[str, float] = {}

    def look_at(self, workers: Iterable[WorkerInfo]) -> None:
        now = self._clock()
        for worker in workers:
            if is_alive(worker):
                self._seen |= dict.fromkeys(set(worker.handles) - self._handles, now)
        self._seen = {
            name: at for name, at in self._seen.items() if now - at < EXPECTED_BACK_SECONDS
        }

    @property
    def left_to_them(self) -> Collection[str]:
        return self._seen.keys()


def worker_document(worker: WorkerInfo) -> dict[str, Any]:
    return {
        "worker_id": worker.worker_id,
        "host": worker.host,
        "slots": worker.slots,
        "version": worker.version,
        "job_types": list(worker.job_types),
        "handles": list(worker.handles),
        "started_at": iso(worker.started_at),
        "seen_at": iso(worker.seen_at),
        "draining": worker.draining,
        "alive": is_alive(worker),
    }
