"""A worker as clients and operators see it."""

from typing import Any

from .colleagues import is_alive
from .job import iso
from .store import WorkerInfo


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
