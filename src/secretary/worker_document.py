"""A worker as clients and operators see it."""

from datetime import datetime
from typing import Any

from .colleagues import is_alive
from .store import WorkerInfo


def worker_document(worker: WorkerInfo) -> dict[str, Any]:
    return {
        "worker_id": worker.worker_id,
        "host": worker.host,
        "slots": worker.slots,
        "version": worker.version,
        "job_types": list(worker.job_types),
        "handles": list(worker.handles),
        "started_at": _moment(worker.started_at),
        "seen_at": _moment(worker.seen_at),
        "draining": worker.draining,
        "alive": is_alive(worker),
    }


def _moment(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
