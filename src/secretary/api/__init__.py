"""The HTTP API: jobs and batches for programs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI

from ..core.http_headers import StartSpan
from ..jobs.conference_import import ConferenceImporter
from ..jobs.events import EventHub
from ..jobs.service import JobService
from ..llm.templates import Library
from ..observability.metrics import Metrics
from ..observability.service_stats import ServiceStats
from ..observability.system_info import Installation
from ..version import __version__
from . import (
    batches,
    bulk,
    conferences,
    dashboard,
    docs,
    event_job,
    file_batches,
    files,
    health,
    ingress,
    jobs,
    overview,
    streams,
    system,
    templates,
)
from . import metrics as measure
from .auth import Authenticator
from .errors import answer_errors
from .middleware import RequestMiddleware
from .openapi import describe

MAX_BODY_BYTES = 16 * 1024 * 1024
BODY_PATIENCE = 30.0
HEARTBEAT_SECONDS = 15.0


def create_api(
    job_service: JobService,
    *,
    hub: EventHub | None = None,
    library: Library | None = None,
    schedules: ConferenceImporter | None = None,
    installation: Installation | None = None,
    api_keys: Sequence[str] = (),
    stopping: Callable[[], bool] = lambda: False,
    metrics: Metrics | None = None,
    requests_per_minute: int = 0,
    max_body_bytes: int = MAX_BODY_BYTES,
    body_patience: float = BODY_PATIENCE,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    start_span: StartSpan | None = None,
) -> FastAPI:
    """Build the application. `stopping` says whether the service is about to end; `metrics` is
    also told by others what happens."""
    # `/jobs/batch` and `/jobs/bulk` must be found before `/jobs/{job_id}`, `/batches/from-…`
    # before others.
    parts = (
        conferences, file_batches, batches, bulk, jobs, templates, streams, ingress, files,
        event_job, health, measure, overview, system, docs, dashboard,
    )  # fmt: skip
    api = _application(job_service, [part.router for part in parts], stopping, metrics)
    api.state.job_service = job_service
    api.state.hub = hub or EventHub(job_service.store)
    api.state.library = library or Library()
    api.state.schedules = schedules or ConferenceImporter()
    api.state.system_info = system.SystemInfo(job_service, installation or Installation())
    api.state.heartbeat_seconds = heartbeat_seconds
    api.state.max_body_bytes = max_body_bytes
    api.openapi = lambda: describe(api)  # type: ignore[method-assign]  # FastAPI's way to do it
    # A form is a little larger than the file in it.
    upload_bytes = job_service.files.uploads.max_bytes + max_body_bytes
    limits = dict.fromkeys(ingress.UPLOAD_PATHS, upload_bytes)
    limits[file_batches.PATH] = file_batches.MAX_FILES * upload_bytes
    return _with_doorway(
        api,
        gate=Authenticator(api_keys, requests_per_minute=requests_per_minute),
        max_body_bytes=max_body_bytes,
        limits=limits,
        body_patience=body_patience,
        start_span=start_span,
    )


def create_probe(
    job_service: JobService,
    *,
    api_keys: Sequence[str] = (),
    stopping: Callable[[], bool] = lambda: False,
    metrics: Metrics,
) -> FastAPI:
    """The application of a process that only works: its health and its metrics."""
    api = _application(job_service, [health.router, measure.router], stopping, metrics)
    return _with_doorway(
        api, gate=Authenticator(api_keys), max_body_bytes=0, limits={}, body_patience=BODY_PATIENCE
    )


def _application(
    job_service: JobService,
    routers: Iterable[APIRouter],
    stopping: Callable[[], bool],
    metrics: Metrics | None,
) -> FastAPI:
    api = FastAPI(
        title="Secretary",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,  # the doorway takes them; a redirect would lose bodies
    )
    api.state.metrics = metrics or Metrics(
        job_service.registry.job_types, ServiceStats(job_service)
    )
    api.state.service_stats = api.state.metrics.service_stats
    api.state.stopping = stopping
    for router in routers:
        # Not include_router: an included router is searched twice for each request.
        api.routes.extend(router.routes)
    answer_errors(api)
    return api


def _with_doorway(api: FastAPI, **bounds: Any) -> FastAPI:
    """Round everything, also round what answers when nothing else can: no answer goes out
    without its headers."""
    answered = api.state.metrics.answered
    api.middleware_stack = RequestMiddleware(
        api.build_middleware_stack(), answered=answered, **bounds
    )
    return api
