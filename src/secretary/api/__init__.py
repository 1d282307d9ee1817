"""The HTTP API: jobs and batches for programs."""

from collections.abc import Callable, Sequence

from fastapi import FastAPI

from ..desk import Desk
from ..events import Hub
from ..version import __version__
from . import batches, event_job, files, health, ingress, jobs, streams
from .access import Gate
from .description import describe
from .doorway import Doorway
from .errors import answer_errors

MAX_BODY_BYTES = 16 * 1024 * 1024
HEARTBEAT_SECONDS = 15.0


def create_api(
    desk: Desk,
    *,
    hub: Hub | None = None,
    api_keys: Sequence[str] = (),
    stopping: Callable[[], bool] = lambda: False,
    max_body_bytes: int = MAX_BODY_BYTES,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> FastAPI:
    """Build the application. `stopping` says whether the service is about to end."""
    api = FastAPI(
        title="Secretary",
        version=__version__,
        docs_url="/api/doc",
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,  # the doorway takes them; a redirect would lose bodies
    )
    api.state.desk = desk
    api.state.hub = hub or Hub(desk.store)
    api.state.heartbeat_seconds = heartbeat_seconds
    api.state.gate = Gate(api_keys)
    api.state.stopping = stopping
    api.state.max_body_bytes = max_body_bytes
    # `/jobs/batch` must be found before `/jobs/{job_id}`.
    for routes in (batches, jobs, streams, ingress, files, event_job, health):
        api.include_router(routes.router)
    answer_errors(api)
    # A form is a little larger than the file in it.
    upload_bytes = desk.files.uploads.max_bytes + max_body_bytes
    limits = dict.fromkeys(ingress.UPLOAD_PATHS, upload_bytes)
    api.add_middleware(Doorway, max_body_bytes=max_body_bytes, limits=limits)
    api.openapi = lambda: describe(api)  # type: ignore[method-assign]  # FastAPI's way to do it
    return api
