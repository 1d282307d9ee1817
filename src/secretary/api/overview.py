"""The routes that show at a glance how the service is and what it did lately. Read only."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from ..desk import Desk
from ..job import FINAL, Job, JobStatus, utc_now
from ..store import JobQuery
from ..vitals import Vitals
from ..worker_document import worker_document
from .access import Caller
from .envelope import success
from .jobs import desk_of

router = APIRouter(prefix="/api", tags=["overview"])

#: A span of time is told in so many parts.
PARTS = 30
#: So many jobs are looked at, the newest: an answer must not take longer the busier it was.
MOST_JOBS, PAGE = 2000, 1000

Minutes = Annotated[int, Query(ge=5, le=10_080, description="How far back the series goes")]


@router.get("/overview")
async def get_overview(request: Request, user: Caller, minutes: Minutes = 60) -> JSONResponse:
    """Jobs by state, the longest wait, the workers, and what ended lately."""
    vitals: Vitals = request.app.state.vitals
    counts, waiting, crew = await asyncio.gather(vitals.jobs(), vitals.waiting(), vitals.crew())
    until = utc_now()
    since = until - timedelta(minutes=minutes)
    jobs, is_partial = await _ended(desk_of(request), since, user)
    told = {
        "jobs": {
            status.value: sum(by_status.get(status, 0) for by_status in counts.values())
            for status in JobStatus
        },
        "oldest_wait_s": max((one.total_seconds() for one in waiting.values()), default=None),
        "workers": crew.workers,
        "slots": crew.slots,
        "series": series(jobs, since, until),
        "is_partial": is_partial,
    }
    return success(request, "overview", told)


@router.get("/system")
async def get_system(request: Request, user: Caller) -> JSONResponse:
    """The version, the store, the workers with their last sign of life, the disk."""
    desk = desk_of(request)
    vitals: Vitals = request.app.state.vitals
    workers, lag = await asyncio.gather(desk.store.workers(), vitals.webhook_lag())
    disk = await vitals.disk()
    told = {
        "version": request.app.version,
        "uptime_s": round(vitals.uptime.total_seconds(), 1),
        "store": {"kind": vitals.store_kind},
        "webhook_lag_s": lag.total_seconds(),
        "workers": [worker_document(one) for one in workers],
        "disk": {"total_bytes": disk.total, "free_bytes": disk.free},
    }
    return success(request, "system", told)


@router.get("/workers")
async def get_workers(request: Request, user: Caller) -> JSONResponse:
    """The workers of all machines, the one that has run longest first."""
    workers = sorted(await desk_of(request).store.workers(), key=lambda one: one.started_at)
    return success(request, "workers", {"workers": [worker_document(one) for one in workers]})


def series(jobs: Iterable[Job], since: datetime, until: datetime) -> list[dict[str, Any]]:
    """What ended in each part of a span of time, and how long what started had waited."""
    step = (until - since) / PARTS
    ended: list[list[Job]] = [[] for _ in range(PARTS)]
    for job in jobs:
        if job.completed_at is not None and since <= job.completed_at <= until:
            ended[min(int((job.completed_at - since) / step), PARTS - 1)].append(job)
    return [_part(since + i * step, part) for i, part in enumerate(ended)]


def _part(start: datetime, jobs: list[Job]) -> dict[str, Any]:
    states = Counter(job.status for job in jobs)
    codes = Counter(
        job.error.code for job in jobs if job.status is JobStatus.FAILED and job.error is not None
    )
    waits = sorted(
        (job.processing_started_at - job.created_at).total_seconds()
        for job in jobs
        if job.processing_started_at is not None and job.attempt == 1
    )
    return {
        "from": start.isoformat().replace("+00:00", "Z"),
        "completed": states[JobStatus.COMPLETED],
        "failed": states[JobStatus.FAILED],
        "cancelled": states[JobStatus.CANCELLED],
        "failures": dict(sorted(codes.items())),
        "wait_p95_s": round(max(waits[int(len(waits) * 0.95)], 0.0), 3) if waits else None,
    }


async def _ended(desk: Desk, since: datetime, user: str | None) -> tuple[list[Job], bool]:
    """Jobs of that time that have ended, and whether there are more than were looked at."""
    found: list[Job] = []
    query = JobQuery(status=FINAL, created_after=since, limit=PAGE)
    while True:
        page = await desk.jobs(query, user=user)
        found += page.items
        if page.next_cursor is None or len(found) >= MOST_JOBS:
            return found, page.next_cursor is not None
        query = query.model_copy(update={"cursor": page.next_cursor})
