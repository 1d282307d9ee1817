"""The HTTP API: jobs and batches for programs."""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI

from ..desk import Desk
from ..events import Hub
from ..version import __version__
from . import batches, event_job, files, health, ingress, jobs, streams
from .access import Gate, security_schemes
from .doorway import Doorway
from .errors import ERROR_RESPONSES, ERROR_SCHEMAS, answer_errors, error_kind

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
        # Not include_router: an included router is searched twice for each request.
        api.routes.extend(routes.router.routes)
    answer_errors(api)
    # A form is a little larger than the file in it.
    upload_bytes = desk.files.uploads.max_bytes + max_body_bytes
    limits = dict.fromkeys(ingress.UPLOAD_PATHS, upload_bytes)
    api.add_middleware(Doorway, max_body_bytes=max_body_bytes, limits=limits)
    api.openapi = lambda: _description(api)  # type: ignore[method-assign]  # FastAPI's way to do it
    return api


def _description(api: FastAPI) -> dict[str, Any]:
    """FastAPI's description, corrected: our errors are 400s in our own form, and there are keys."""
    if api.openapi_schema is None:
        document = FastAPI.openapi(api)
        for path, methods in document["paths"].items():
            for operation in methods.values():
                operation["responses"].pop("422", None)
                error = f"#/components/responses/{error_kind(path)}"
                operation["responses"]["default"] = {"$ref": error}
                if not path.startswith("/api/health"):
                    operation["security"] = [{"bearer": []}, {"key": []}]
        components = document["components"]
        components["schemas"] |= ERROR_SCHEMAS
        for unused in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(unused, None)
        components["responses"] = ERROR_RESPONSES
        components["securitySchemes"] = security_schemes()
    return api.openapi_schema or {}
