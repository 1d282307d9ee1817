"""The HTTP API: builds the FastAPI application from its routers and middleware."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI

from ..jobs.conference_import import ConferenceImporter
from ..jobs.events import EventHub
from ..jobs.service import JobService
from ..llm.templates import Library
from ..observability.metrics import CachedQuery, Metrics, ServiceStats
from ..version import __version__
from . import (
    batches,
    dashboard,
    event_job,
    files,
    ingress,
    jobs,
    legacy_routes,
    streams,
    system,
    tracks,
)
from .auth import Authenticator, KeySettings
from .middleware import BODY_TIMEOUT, RequestMiddleware, StartSpan
from .openapi import DESCRIPTION, TAGS, OpenApiDocument, document_router
from .responses import add_error_handlers

MAX_BODY_BYTES = 16 * 1024 * 1024
HEARTBEAT_SECONDS = 15.0
MAX_WAIT_SECONDS = 900.0


def create_api(
    job_service: JobService,
    *,
    hub: EventHub | None = None,
    library: Library | None = None,
    schedules: ConferenceImporter | None = None,
    settings: Mapping[str, Any] | None = None,
    engines: Callable[[], list[dict[str, Any]]] = list,
    api_keys: Sequence[str | KeySettings] = (),
    stopping: Callable[[], bool] = lambda: False,
    metrics: Metrics | None = None,
    requests_per_minute: int = 0,
    max_body_bytes: int = MAX_BODY_BYTES,
    body_timeout: float = BODY_TIMEOUT,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    max_wait_seconds: float = MAX_WAIT_SECONDS,
    start_span: StartSpan | None = None,
) -> FastAPI:
    """Build the application. `settings` and `engines`, without secrets, are shown to operators;
    `stopping` returns whether the service is shutting down; `metrics` may be shared with other
    parts of the process."""
    # Routes are tried in this order: jobs first, because they are polled most often.
    routers = (
        jobs.router,
        batches.schedule_router(job_service.registry),
        batches.router,
        system.templates_router,
        streams.router,
        ingress.ingress_router(job_service.registry),
        tracks.tracks_router(job_service.registry),
        files.router,
        event_job.router,
        system.health_router,
        system.metrics_router,
        system.router,
        dashboard.router,
        legacy_routes.legacy_router(),
    )
    # A form is a little larger than the file in it.
    upload_bytes = job_service.files.uploads.max_bytes + max_body_bytes
    path_limits = dict.fromkeys(ingress.UPLOAD_PATHS, upload_bytes)
    path_limits[batches.FROM_FILES_PATH] = batches.MAX_FILES * upload_bytes
    api = _make_application(job_service, routers, stopping, metrics)
    api.add_middleware(
        RequestMiddleware,
        authenticator=Authenticator(api_keys, requests_per_minute=requests_per_minute),
        record_response=api.state.metrics.answered,
        max_body_bytes=max_body_bytes,
        path_limits=path_limits,
        body_timeout=body_timeout,
        start_span=start_span,
    )
    api.state.job_service = job_service
    api.state.hub = hub or EventHub(job_service.store)
    api.state.library = library or Library()
    api.state.schedules = schedules or ConferenceImporter()
    api.state.settings = settings or {}
    # Slow to gather, so they are cached.
    api.state.engines = CachedQuery(partial(asyncio.to_thread, engines))
    api.state.cache_bytes = CachedQuery(partial(asyncio.to_thread, job_service.files.cache.size))
    api.state.heartbeat_seconds = heartbeat_seconds
    api.state.max_wait_seconds = max_wait_seconds
    api.state.max_body_bytes = max_body_bytes
    return api


def create_probe(
    job_service: JobService,
    *,
    api_keys: Sequence[str | KeySettings] = (),
    stopping: Callable[[], bool] = lambda: False,
    metrics: Metrics,
) -> FastAPI:
    """Build the application of a process that only runs a worker: health and metrics."""
    routers = (system.health_router, system.metrics_router)
    api = _make_application(job_service, routers, stopping, metrics)
    api.add_middleware(
        RequestMiddleware, authenticator=Authenticator(api_keys), record_response=metrics.answered
    )
    return api


def _make_application(
    job_service: JobService,
    routers: Iterable[APIRouter],
    stopping: Callable[[], bool],
    metrics: Metrics | None,
) -> FastAPI:
    api = FastAPI(
        title="Secretary",
        version=__version__,
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/"}],
        openapi_tags=TAGS,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # `document_router` serves it
        redirect_slashes=False,  # the middleware strips slashes; a redirect would lose bodies
    )
    job_types = job_service.registry.job_types
    api.state.metrics = metrics or Metrics(job_types, ServiceStats(job_service))
    api.state.service_stats = api.state.metrics.service_stats
    api.state.stopping = stopping
    api.state.openapi_document = OpenApiDocument(api.openapi)
    for router in (*routers, document_router):
        # Not `include_router`, which makes each request search the included routes twice.
        api.routes.extend(router.routes)
    add_error_handlers(api)
    return api
