"""Is the service alive, is it ready, and how is it? Open to everybody, so it tells no secrets."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ..core.errors import StoreUnavailable
from ..core.job import JobStatus
from ..observability.service_stats import ServiceStats
from ..version import __version__
from .envelope import success
from .errors import error_response

router = APIRouter(prefix="/api/health", tags=["health"])


@router.get("/live")
async def live(request: Request) -> JSONResponse:
    """Does the process answer? If not, start it again."""
    return success(request, "health", {"live": True})


@router.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """Should it get requests? Not while it shuts down, and not without its store."""
    stopping: Callable[[], bool] = request.app.state.stopping
    if stopping():
        return error_response(503, "The service is shutting down")
    await _vitals(request).worker_stats()  # a question that is quickly answered
    return success(request, "health", {"ready": True})


@router.get("")
async def health(request: Request) -> JSONResponse:
    """The version, the store, the workers that are alive and the jobs that wait and run."""
    service_stats = _vitals(request)
    told: dict[str, Any] = {
        "version": __version__,
        "uptime_s": round(service_stats.uptime.total_seconds(), 1),
        "stopping": request.app.state.stopping(),
        "store": {"kind": service_stats.store_kind, "answers": True},
    }
    try:
        crew, counts = await service_stats.worker_stats(), await service_stats.jobs()
    except StoreUnavailable:
        told["store"]["answers"] = False
        return error_response(503, "The job store does not answer", details=told)
    jobs = {
        status.value: sum(by_status.get(status, 0) for by_status in counts.values())
        for status in JobStatus
    }
    told |= {"workers": crew.workers, "slots": crew.slots, "jobs": jobs}
    return success(request, "health", told)


def _vitals(request: Request) -> ServiceStats:
    service_stats: ServiceStats = request.app.state.service_stats
    return service_stats
