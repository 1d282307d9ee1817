"""The workers and their leases, counted on the machine's steady clock: its processes share it."""

import json
import time
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import apsw

from ...errors import LeaseLost
from ...job import utc_now
from .. import RENEW_BELOW, Renewal, WorkerInfo
from .rows import microseconds, moment


def enlist(db: apsw.Connection, worker: WorkerInfo, lease: timedelta, *, boot: str) -> None:
    info = {**asdict(worker), "started_at": microseconds(worker.started_at)}
    del info["seen_at"]
    db.execute(
        "INSERT INTO workers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
        " SET info = excluded.info, seen_at = excluded.seen_at,"
        " lease_until = excluded.lease_until",
        (
            worker.worker_id,
            json.dumps(info),
            microseconds(utc_now()),
            time.monotonic() + lease.total_seconds(),
            boot,
        ),
    )


def dismiss(db: apsw.Connection, worker_id: str) -> None:
    db.execute("DELETE FROM workers WHERE worker_id = ?", (worker_id,))


def busy_slots(db: apsw.Connection) -> dict[str, int]:
    rows = db.execute(
        "SELECT worker_id, count(*) FROM jobs INDEXED BY jobs_running"
        " WHERE status = 'processing' GROUP BY 1"
    )
    return {worker_id: n for worker_id, n in rows if worker_id is not None}


def all_workers(db: apsw.Connection) -> list[WorkerInfo]:
    rows = db.execute("SELECT info, seen_at FROM workers ORDER BY worker_id")
    return [_worker_from(info, seen_at) for info, seen_at in rows]


def look(db: apsw.Connection, worker_id: str) -> tuple[float, Renewal]:
    """Until when a worker has its lease, and what it holds: most renewals need write nothing."""
    lease_until = db.execute(
        "SELECT lease_until FROM workers WHERE worker_id = ?", (worker_id,)
    ).get
    if lease_until is None:
        raise LeaseLost(f"The worker {worker_id} is not enlisted")
    rows: list[Any] = db.execute(
        "SELECT job_id, attempt, cancel_requested FROM jobs INDEXED BY jobs_running"
        " WHERE worker_id = ? AND status = 'processing'",
        (worker_id,),
    ).fetchall()
    cancelled = frozenset(job_id for job_id, _, cancel in rows if cancel)
    return lease_until, Renewal({job_id: n for job_id, n, _ in rows}, cancelled)


def is_short(lease_until: float, lease: timedelta) -> bool:
    return lease_until - time.monotonic() < lease.total_seconds() * RENEW_BELOW


def prolong(db: apsw.Connection, worker_id: str, lease: timedelta) -> None:
    db.execute(
        "UPDATE workers SET lease_until = ?, seen_at = ? WHERE worker_id = ?",
        (time.monotonic() + lease.total_seconds(), microseconds(utc_now()), worker_id),
    )
    if not db.changes():
        raise LeaseLost(f"The worker {worker_id} is not enlisted")


def _worker_from(info: str, seen_at: int) -> WorkerInfo:
    told = json.loads(info)
    times = {"started_at": moment(told["started_at"]), "seen_at": moment(seen_at)}
    return WorkerInfo.known_of(told | times)
