"""The routes that show at a glance how the service is and what it did lately. Read only."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from ..core.job import JobStatus, utc_now
from ..observability.service_stats import ServiceStats
from ..store.claims import is_alive, worker_document
from ..store.stats import EPOCH, Throughput, quantile
from .auth import Caller
from .dependencies import job_service_of
from .envelope import in_utc, success

router = APIRouter(prefix="/api", tags=["overview"])

#: A span of time is told in so many parts at the most.
MOST_PARTS = 30
#: They begin where clocks do: a bar keeps its height when the page looks again.
STEPS = [timedelta(minutes=n) for n in (2, 4, 6, 10, 12, 20, 30, 60, 120, 180, 240, 360)]

Minutes = Annotated[int, Query(ge=5, le=10_080, description="How far back the series goes")]


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time in parts of equal length; now is in the last of them."""

    since: datetime
    step: timedelta
    parts: int

    @classmethod
    def up_to(cls, now: datetime, length: timedelta) -> "Span":
        step = next(step for step in STEPS if length <= step * MOST_PARTS)
        parts = -(-length // step)
        last = EPOCH + (now - EPOCH) // step * step
        return cls(last - (parts - 1) * step, step, parts)


@router.get("/overview")
async def get_overview(request: Request, user: Caller, minutes: Minutes = 60) -> JSONResponse:
    """Jobs by state, the longest wait, the workers, and what ended lately; of jobs a user is told
    of their own."""
    service_stats: ServiceStats = request.app.state.service_stats
    span = Span.up_to(utc_now(), timedelta(minutes=minutes))
    store = job_service_of(request).store
    counts, waiting, workers, busy, ended = await asyncio.gather(
        service_stats.jobs_by_state(user),
        service_stats.waiting(),
        store.workers(),
        store.busy_slots(),
        store.throughput(span.since, step=span.step, intervals=span.parts, user_id=user),
    )
    alive = [worker for worker in workers if is_alive(worker)]
    told = {
        "jobs": {status.value: counts.value.get(status, 0) for status in JobStatus},
        "counted_at": in_utc(counts.at),
        "of_user": user,
        "oldest_wait_s": max((one.total_seconds() for one in waiting.values()), default=None),
        "workers": len(alive),
        "slots": sum(worker.slots for worker in alive),
        "busy": sum(busy.get(worker.worker_id, 0) for worker in alive),
        "crew": [worker_document(one) | {"busy": busy.get(one.worker_id, 0)} for one in workers],
        "part_s": span.step.total_seconds(),
        "series": series(ended, span),
    }
    return success(request, "overview", told)


@router.get("/workers")
async def get_workers(request: Request, user: Caller) -> JSONResponse:
    """The workers of all machines, the one that has run longest first."""
    workers = sorted(await job_service_of(request).store.workers(), key=lambda one: one.started_at)
    return success(request, "workers", {"workers": [worker_document(one) for one in workers]})


def series(ended: Iterable[Throughput], span: Span) -> list[dict[str, Any]]:
    """What ended in each part of a span of time, all together and by type."""
    parts: dict[int, dict[str, Throughput]] = defaultdict(dict)
    for one in ended:
        parts[one.interval][one.job_type] = one
    return [
        {"from": in_utc(span.since + part * span.step), **_part(parts[part])}
        for part in range(span.parts)
    ]


def _part(types: Mapping[str, Throughput]) -> dict[str, Any]:
    codes: Counter[str] = Counter()
    for one in types.values():
        codes.update(one.failed)
    return {
        **_counts(types.values()),
        "failures": dict(sorted(codes.items())),
        "types": {job_type: _counts([types[job_type]]) for job_type in sorted(types)},
    }


def _counts(ended: Iterable[Throughput]) -> dict[str, Any]:
    ended = list(ended)
    waits: Counter[int] = Counter()
    for one in ended:
        waits.update(one.waits)
    return {
        "completed": sum(one.completed for one in ended),
        "failed": sum(sum(one.failed.values()) for one in ended),
        "cancelled": sum(one.cancelled for one in ended),
        "wait_p50_s": _rounded(quantile(waits, 0.5)),
        "wait_p95_s": _rounded(quantile(waits, 0.95)),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
