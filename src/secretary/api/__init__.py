"""The HTTP API: jobs and batches for programs."""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI

from ..desk import Desk
from ..version import __version__
from . import batches, event_job, health, jobs
from .access import Gate, security_schemes
from .doorway import Doorway
from .errors import ERROR_RESPONSES, ERROR_SCHEMAS, answer_errors, error_kind

MAX_BODY_BYTES = 16 * 1024 * 1024


def create_api(
    desk: Desk,
    *,
    api_keys: Sequence[str] = (),
    stopping: Callable[[], bool] = lambda: False,
    max_body_bytes: int = MAX_BODY_BYTES,
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
    api.state.gate = Gate(api_keys)
    api.state.stopping = stopping
    # `/jobs/batch` must be found before `/jobs/{job_id}`.
    for routes in (batches, jobs, event_job, health):
        api.include_router(routes.router)
    answer_errors(api)
    api.add_middleware(Doorway, max_body_bytes=max_body_bytes)
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
