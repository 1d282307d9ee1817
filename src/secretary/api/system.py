"""Routes for operators: health probes, metrics, overview, workers, installation and
templates."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request
from fastapi.responses import Response
from pydantic import Field

from ..core.errors import (
    AccessDenied,
    InvalidParameters,
    NotFound,
    StoreUnavailable,
    UnknownTemplate,
)
from ..core.job import JobStatus, UtcTime, iso, utc_now
from ..jobs.service import JobService
from ..llm.templates import Library
from ..llm.templates.template import schema
from ..observability.metrics import CONTENT_TYPE, Metrics, ServiceStats
from ..store.claims import WorkerInfo, worker_document
from ..store.stats import EPOCH, Throughput, quantile
from ..version import __version__
from .auth import SECURITY_SCHEMES, Caller
from .models import Envelope, JsonObject, ResponseModel
from .openapi import make_router
from .requests import OptionalText, job_service_of
from .responses import error_response, success


class JobCounts(ResponseModel):
    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int


# Health: open to everybody, so it reveals no secrets

health_router = make_router("health", prefix="/api/health")


class Live(ResponseModel):
    live: Literal[True]


class Ready(ResponseModel):
    ready: Literal[True]


class StoreHealth(ResponseModel):
    kind: str
    answers: bool


class Health(ResponseModel):
    version: str
    uptime_s: float
    stopping: bool
    store: StoreHealth
    workers: int
    slots: int
    io_slots: int
    jobs: JobCounts


@health_router.get("/live", response_model=Envelope[Live])
async def live(request: Request) -> Response:
    """Liveness probe: the process responds. If it fails, restart the process."""
    return success(request, "health", {"live": True})


@health_router.get("/ready", response_model=Envelope[Ready])
async def ready(request: Request) -> Response:
    """Readiness probe: fails during shutdown, while the store is unavailable or locked, and while
    the disk is full."""
    if request.app.state.stopping():
        return error_response(503, "The service is shutting down")
    await _service_stats(request).check_ready()
    return success(request, "health", {"ready": True})


@health_router.get("", response_model=Envelope[Health])
async def health(request: Request) -> Response:
    """Return the version, the store, the live workers and the number of jobs by state."""
    stats = _service_stats(request)
    document: dict[str, Any] = {
        "version": __version__,
        "uptime_s": round(stats.uptime.total_seconds(), 1),
        "stopping": request.app.state.stopping(),
        "store": {"kind": stats.store_kind, "answers": True},
    }
    try:
        alive, counts = await stats.workers(), await stats.jobs()
    except StoreUnavailable:
        document["store"]["answers"] = False
        return error_response(503, "The job store does not respond", details=document)
    jobs = {
        status.value: sum(by_status.get(status, 0) for by_status in counts.values())
        for status in JobStatus
    }
    document |= {
        "workers": len(alive),
        "slots": sum(worker.slots for worker in alive),
        "io_slots": sum(worker.io_slots for worker in alive),
        "jobs": jobs,
    }
    return success(request, "health", document)


def _service_stats(request: Request) -> ServiceStats:
    service_stats: ServiceStats = request.app.state.service_stats
    return service_stats


# Metrics

metrics_router = make_router("metrics", prefix="")


@metrics_router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, user: Caller) -> Response:
    """Return metrics in the Prometheus text format."""
    collected: Metrics = request.app.state.metrics
    return Response(await collected.exposition(), media_type=CONTENT_TYPE)


# Overview

router = make_router("overview")


class Greeting(ResponseModel):
    name: Literal["Secretary"]
    version: str
    documentation: str


@router.get("", response_model=Envelope[Greeting])
async def greet(request: Request, user: Caller) -> Response:
    """Return the version and where the API is documented."""
    data = {"name": "Secretary", "version": __version__, "documentation": "/api/doc"}
    return success(request, "greeting", data)


#: The most intervals that a series has.
MAX_INTERVALS = 30
#: Interval lengths. They align with the clock, so that a bar keeps its height on refresh.
STEPS = [timedelta(minutes=n) for n in (2, 4, 6, 10, 12, 20, 30, 60, 120, 180, 240, 360)]

Minutes = Annotated[int, Query(ge=5, le=10_080, description="How far back the series goes")]


@dataclass(frozen=True, slots=True)
class Span:
    """A period divided into intervals of equal length; the last one contains now."""

    since: datetime
    step: timedelta
    parts: int

    @classmethod
    def up_to(cls, now: datetime, length: timedelta) -> "Span":
        step = next(step for step in STEPS if length <= step * MAX_INTERVALS)
        parts = -(-length // step)
        last = EPOCH + (now - EPOCH) // step * step
        return cls(last - (parts - 1) * step, step, parts)


class FinishedJobs(ResponseModel):
    """Jobs that finished in an interval, and how long they waited."""

    completed: int
    failed: int
    cancelled: int
    wait_p50_s: float | None
    wait_p95_s: float | None


class Interval(FinishedJobs):
    start: UtcTime = Field(alias="from")
    failures: dict[str, int] = Field(description="Failed jobs by error code")
    types: dict[str, FinishedJobs] = Field(description="By job type")


class Worker(ResponseModel):
    worker_id: str
    host: str
    slots: int
    io_slots: int = Field(description="Further slots for jobs of `io_types`")
    io_types: list[str]
    version: str
    job_types: list[str]
    handles: list[str]
    started_at: UtcTime
    seen_at: UtcTime
    draining: bool
    alive: bool


class BusyWorker(Worker):
    busy: int = Field(description="Slots in use")
    io_busy: int = Field(description="I/O slots in use")


class QuotaFigure(ResponseModel):
    used: float = Field(description="Today (UTC); of stored files, at the moment")
    limit: float | None = Field(description="Null means unlimited")


class Quota(ResponseModel):
    """What a user may use and has used."""

    enabled: bool = Field(description="False: there are no quotas, and nothing is counted")
    user_id: str
    resets_at: UtcTime
    jobs: QuotaFigure
    pages: QuotaFigure
    audio_minutes: QuotaFigure
    stored_bytes: QuotaFigure


@router.get("/quota", response_model=Envelope[Quota])
async def get_quota(
    request: Request,
    user: Caller,
    user_id: Annotated[
        OptionalText, Query(max_length=200, description="Another user; for operators only")
    ] = None,
) -> Response:
    """Return what the caller may use and has used today. Operators name a user."""
    if user is not None and user_id not in (None, user):
        raise AccessDenied("You can only read your own quota")
    if (owner := user or user_id) is None:
        raise InvalidParameters("user_id: operators have no quota; name a user")
    return success(request, "quota", await _quota(job_service_of(request), owner))


async def _quota(job_service: JobService, user: str) -> dict[str, Any]:
    report = await job_service.quotas.report(job_service.store, user)
    return {
        "enabled": job_service.quotas.enabled,
        "user_id": user,
        "resets_at": iso(report.resets_at),
        **{
            unit: {"used": used, "limit": limit or None}
            for unit, (used, limit) in report.figures().items()
        },
    }


class UsageToday(ResponseModel):
    """What all users together have used today (UTC)."""

    users: int
    jobs: int
    pages: int
    audio_minutes: float


async def _usage(stats: ServiceStats) -> dict[str, Any] | None:
    if (usage := await stats.usage()) is None:
        return None
    minutes = round(usage.audio_seconds / 60, 2)
    figures = {"users": usage.users, "jobs": usage.jobs, "pages": usage.pages}
    return figures | {"audio_minutes": minutes}


class Overview(ResponseModel):
    jobs: JobCounts
    counted_at: UtcTime
    of_user: str | None
    oldest_wait_s: float | None
    workers: int
    slots: int
    busy: int
    io_slots: int
    io_busy: int
    crew: list[BusyWorker]
    quota: Quota | None = Field(description="Of the user; null for operators and without quotas")
    usage: UsageToday | None = Field(description="Of all users; null for users and without quotas")
    part_s: float = Field(description="Length of an interval in seconds")
    series: list[Interval]


@router.get("/overview", response_model=Envelope[Overview])
async def get_overview(request: Request, user: Caller, minutes: Minutes = 60) -> Response:
    """Return job counts, the longest wait, the workers and recent throughput. A user sees only
    their own jobs."""
    stats = _service_stats(request)
    span = Span.up_to(utc_now(), timedelta(minutes=minutes))
    job_service = job_service_of(request)
    store, is_limited = job_service.store, job_service.quotas.enabled
    counts, waiting, workers, busy, finished = await asyncio.gather(
        stats.jobs_by_state(user),
        stats.waiting(),
        store.workers(),
        store.busy_slots(),
        store.throughput(span.since, step=span.step, intervals=span.parts, user_id=user),
    )
    crew = [_busy_worker(worker, busy.get(worker.worker_id, {})) for worker in workers]
    alive = [worker for worker in crew if worker["alive"]]
    sums = ("slots", "busy", "io_slots", "io_busy")
    data = {
        "jobs": {status.value: counts.value.get(status, 0) for status in JobStatus},
        "counted_at": iso(counts.at),
        "of_user": user,
        "oldest_wait_s": max((wait.total_seconds() for wait in waiting.values()), default=None),
        "workers": len(alive),
        **{name: sum(worker[name] for worker in alive) for name in sums},
        "crew": crew,
        "quota": await _quota(job_service, user) if is_limited and user is not None else None,
        "usage": await _usage(stats) if user is None else None,
        "part_s": span.step.total_seconds(),
        "series": series(finished, span),
    }
    return success(request, "overview", data)


def _busy_worker(worker: WorkerInfo, running: Mapping[str, int]) -> dict[str, Any]:
    io_busy = sum(running.get(job_type, 0) for job_type in worker.io_types)
    busy = sum(running.values()) - io_busy
    return worker_document(worker) | {"busy": busy, "io_busy": io_busy}


class WorkerList(ResponseModel):
    workers: list[Worker]


@router.get("/workers", response_model=Envelope[WorkerList])
async def get_workers(request: Request, user: Caller) -> Response:
    """List the workers of all machines, longest-running first."""
    workers = await job_service_of(request).store.workers()
    ordered = sorted(workers, key=lambda worker: worker.started_at)
    return success(request, "workers", {"workers": [worker_document(one) for one in ordered]})


def series(finished: Iterable[Throughput], span: Span) -> list[dict[str, Any]]:
    """The jobs that finished in each interval of a period, in total and by type."""
    intervals: dict[int, dict[str, Throughput]] = defaultdict(dict)
    for entry in finished:
        intervals[entry.interval][entry.job_type] = entry
    documents: list[dict[str, Any]] = []
    for number in range(span.parts):
        types = intervals[number]
        failures = sum((Counter(entry.failed) for entry in types.values()), Counter[str]())
        document = {
            "from": iso(span.since + number * span.step),
            **_counts(types.values()),
            "failures": dict(sorted(failures.items())),
            "types": {job_type: _counts([types[job_type]]) for job_type in sorted(types)},
        }
        documents.append(document)
    return documents


def _counts(finished: Collection[Throughput]) -> dict[str, Any]:
    waits = sum((Counter(entry.waits) for entry in finished), Counter[int]())
    return {
        "completed": sum(entry.completed for entry in finished),
        "failed": sum(sum(entry.failed.values()) for entry in finished),
        "cancelled": sum(entry.cancelled for entry in finished),
        "wait_p50_s": _rounded(quantile(waits, 0.5)),
        "wait_p95_s": _rounded(quantile(waits, 0.95)),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


# Installation


class StoreKind(ResponseModel):
    kind: str


class DiskSpace(ResponseModel):
    total_bytes: int
    free_bytes: int


class CacheSize(ResponseModel):
    bytes: int
    max_bytes: int


class Engine(ResponseModel):
    subject: str
    verdict: Literal["ok", "info", "warning", "problem"]
    fact: str
    remedy: str | None


class System(ResponseModel):
    version: str
    uptime_s: float
    store: StoreKind
    webhook_lag_s: float
    workers: list[Worker]
    disk: DiskSpace
    cache: CacheSize
    engines: list[Engine] | None = Field(description="Operators only")
    settings: JsonObject | None = Field(description="Operators only; without secrets")


@router.get("/system", response_model=Envelope[System], dependencies=SECURITY_SCHEMES)
async def get_system(request: Request, user: Caller) -> Response:
    """Return the version, the store, the workers, disk and cache usage. Operators also see the
    settings, without secrets, and the detected engines."""
    job_service = job_service_of(request)
    stats = _service_stats(request)
    state = request.app.state
    workers, lag, cached = await asyncio.gather(
        job_service.store.workers(), stats.webhook_lag(), state.cache_bytes.get()
    )
    disk_size, disk_free = await stats.disk()
    is_operator = user is None
    document = {
        "version": request.app.version,
        "uptime_s": round(stats.uptime.total_seconds(), 1),
        "store": {"kind": stats.store_kind},
        "webhook_lag_s": lag.total_seconds(),
        "workers": [worker_document(worker) for worker in workers],
        "disk": {"total_bytes": disk_size, "free_bytes": disk_free},
        "cache": {"bytes": cached, "max_bytes": job_service.files.cache.max_bytes},
        "engines": await state.engines.get() if is_operator else None,
        "settings": state.settings if is_operator else None,
    }
    return success(request, "system", document)


templates_router = make_router("templates", prefix="/api/templates")

TemplateName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        description="Case-insensitive, with or without a language suffix",
        examples=["Session_en"],
    ),
]


class TemplateField(ResponseModel):
    name: str
    type: str
    instruction: str


class TemplateFault(ResponseModel):
    line: int
    message: str


class TemplateSummary(ResponseModel):
    name: str
    title: str
    language: str | None
    source: Literal["own", "shipped"]
    fields: list[TemplateField]
    context_keys: list[str]
    faults: list[TemplateFault]


class TemplateList(ResponseModel):
    templates: list[TemplateSummary]


class Template(TemplateSummary):
    content: str | None
    system_prompt: str | None
    answer_schema: JsonObject | None = Field(
        alias="schema", description="The JSON Schema of the model's answer"
    )


@templates_router.get("", response_model=Envelope[TemplateList])
async def list_templates(request: Request, user: Caller) -> Response:
    """List the templates with their fields. Faulty templates are listed with their faults."""
    library: Library = request.app.state.library
    entries = await asyncio.to_thread(library.listed)
    return success(request, "templates", {"templates": [entry.document() for entry in entries]})


@templates_router.get("/{name}", response_model=Envelope[Template])
async def get_template(request: Request, name: TemplateName, user: Caller) -> Response:
    """Return a template with its text and the JSON Schema of the model's answer."""
    library: Library = request.app.state.library
    try:
        entry = await asyncio.to_thread(library.look_up, name)
    except UnknownTemplate as error:
        raise NotFound(error.message) from None
    template = entry.template
    details = {
        "content": template.source if template else None,
        "system_prompt": template.system_prompt if template else None,
        "schema": schema(template) if template else None,
    }
    return success(request, "templates", entry.document() | details)
