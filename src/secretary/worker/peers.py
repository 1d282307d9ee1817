"""Job types that only other workers can run: during a deploy not all workers have the same version,
and some have handlers of their own."""

import time
from collections.abc import Callable, Collection, Iterable

from ..store.claims import WorkerInfo, is_alive

#: How long a lost worker, or another one like it, is expected to come back.
EXPECTED_BACK_SECONDS = 600.0


class PeerCapabilities:
    """`handles` are the types that this worker has a handler for."""

    def __init__(
        self, handles: Collection[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._handles = frozenset(handles)
        self._clock = clock
        self._seen: dict[str, float] = {}

    def update(self, workers: Iterable[WorkerInfo]) -> None:
        now = self._clock()
        for worker in workers:
            if is_alive(worker):
                self._seen |= dict.fromkeys(set(worker.handles) - self._handles, now)
        self._seen = {
            name: at for name, at in self._seen.items() if now - at < EXPECTED_BACK_SECONDS
        }

    @property
    def job_types(self) -> Collection[str]:
        """Types to leave to other workers."""
        return self._seen.keys()
