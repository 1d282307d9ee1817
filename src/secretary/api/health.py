"""Is the service alive, is it ready, and how is it? Open to everybody, so it tells no secrets."""

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ..errors import StoreUnavailable
from ..job import JobStatus
from ..version import __version__
from .envelope import success
from .errors import error_response
from .jobs import desk_of

router = APIRouter(prefix="/api/health", tags=["health"])

PATIENCE_SECONDS = 2.0


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
    await _work(request)
    return success(request, "health", {"ready": True})


@router.get("")
async def health(request: Request) -> JSONResponse:
    """The version, the workers that are alive and the jobs that wait and run."""
    return success(request, "health", {"version": __version__, **await _work(request)})


async def _work(request: Request) -> dict[str, Any]:
    desk = desk_of(request)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            counts = await desk.store.counts()
            workers = await desk.workers_alive()
    except TimeoutError:
        raise StoreUnavailable("The store does not answer") from None
    jobs = {
        status.value: sum(by_status.get(status, 0) for by_status in counts.values())
        for status in JobStatus
    }
    return {"workers": len(workers), "jobs": jobs}
