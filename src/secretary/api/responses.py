"""Builds responses: the success envelope, and the status, code and envelope of every error."""

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, JsonValue
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..core import errors
from ..core.errors import (
    DISK_FULL_ERRNOS,
    InvalidParameters,
    NoDiskSpace,
    QuotaExceeded,
    RateLimited,
    SecretaryError,
    StoreUnavailable,
)
from ..core.job import Job, JobError, JobWarning, iso
from ..core.json_codec import encode_off_loop
from ..jobs.submission import invalid_request


class JsonResponse(JSONResponse):
    """Encodes its content when it is sent, off the event loop if it is large. Returns any JSON that
    was accepted, even a lone surrogate."""

    def __init__(
        self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(None, status_code, headers)
        self._content = content

    def render(self, content: Any) -> bytes:
        return b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.body = await encode_off_loop(self._content)
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def success(
    request: Request,
    processor: str,
    data: dict[str, Any],
    *,
    process_id: str = "",
    more: Mapping[str, Any] | None = None,
) -> JSONResponse:
    """`more` is put beside `data`."""
    arrived = _arrived(request)
    process = {
        "id": process_id or f"request-{uuid4()}",
        "main_processor": processor,
        "started": arrived,
        "duration_ms": round((time.time() - request.state.arrived_at) * 1000, 1),
        "is_from_cache": False,
        "llm_info": {"requests": [], "total_tokens": 0},
    }
    parameters = {**request.query_params, **request.path_params}
    return JsonResponse(_envelope(arrived, processor, parameters, process, data) | dict(more or {}))


def enqueued(
    request: Request, location: str, data: dict[str, Any], warnings: Sequence[JobWarning]
) -> JSONResponse:
    """The 202 of routes that add jobs; `location` is the path of the new job or batch."""
    parameters = {"job_count": len(data["job_ids"])}
    process = {
        "id": location.rpartition("/")[2],
        "main_processor": "SecretaryJobWorker",
        "llm_info": {"requests": []},
    }
    data = {**data, **warnings_field(warnings)}
    document = _envelope(_arrived(request), "job-enqueue", parameters, process, data)
    return JsonResponse(document, 202, {"Location": location})


def warnings_field(warnings: Sequence[JobWarning]) -> dict[str, Any]:
    """Of the response to a request that was accepted; left out if there are none."""
    return {"warnings": [warning.model_dump() for warning in warnings]} if warnings else {}


def accepted(job: Job, warnings: Sequence[JobWarning]) -> JSONResponse:
    """The 202 of ingress routes."""
    path = f"/api/jobs/{job.job_id}"
    client_id = job.webhook.job_id if job.webhook else None  # the client's own id for the job
    if not client_id and isinstance(extra := job.parameters.get("extra"), dict):
        client_id = extra.get("jobId")
    body = {
        "status": "accepted",
        "worker": "secretary",
        "job_id": job.job_id,
        "process": {
            "id": job.job_id,
            "main_processor": job.job_type,
            "started": iso(job.created_at),
            "is_from_cache": False,
        },
        "job": {"id": job.job_id} | ({"client_id": client_id} if client_id else {}),
        "webhook": {"delivered_to": job.webhook.url} if job.webhook else None,
        "links": {"self": path, "stream": f"{path}/stream", "cancel": f"{path}/cancel"},
        **warnings_field(warnings),
        "error": None,
    }
    return JsonResponse(body, 202, {"Location": path})


def finished(request: Request, job: Job, data: dict[str, Any] | None = None) -> JSONResponse:
    """The 200 of ingress routes for a client that waited until the job completed. `data` are the
    results, unless given."""
    results = job.public_results
    started = job.processing_started_at or job.created_at
    ended = job.completed_at or started
    parameters = job.summary()["parameters"]
    process = {
        "id": job.job_id,
        "main_processor": job.job_type,
        "started": iso(started),
        "duration_ms": round((ended - started).total_seconds() * 1000, 1),
        "is_from_cache": bool(results.get("is_from_cache", False)),
        "llm_info": results.get("llm_info") or {"requests": [], "total_tokens": 0},
    }
    document = _envelope(_arrived(request), job.job_type, parameters, process, data or results)
    return JsonResponse(document, headers={"Location": f"/api/jobs/{job.job_id}"})


def _envelope(
    arrived: str,
    processor: str,
    parameters: dict[str, Any],
    process: dict[str, Any],
    data: dict[str, Any],
) -> dict[str, Any]:
    info = {"processor": processor, "timestamp": arrived, "parameters": parameters}
    return {"status": "success", "request": info, "process": process, "data": data, "error": None}


def _arrived(request: Request) -> str:
    return iso(datetime.fromtimestamp(request.state.arrived_at, UTC))


def matches_etag(etag: str, request: Request) -> bool:
    """Whether the client has this version. Proxies may have made the ETag a weak one."""
    value = request.headers.get("if-none-match", "")
    etags = (part.strip().removeprefix("W/") for part in value.split(","))
    return value.strip() == "*" or etag in etags


logger = logging.getLogger(__name__)

#: The first match counts; anything else is a 500.
STATUS: dict[type[SecretaryError], int] = {
    InvalidParameters: 400,
    errors.AddressRefused: 400,
    errors.Unauthorized: 401,
    errors.AccessDenied: 403,
    errors.NotFound: 404,
    errors.KeyReused: 422,
    errors.Conflict: 409,
    errors.FileTooLarge: 413,
    errors.UnsupportedFile: 415,
    RateLimited: 429,
    StoreUnavailable: 503,
}

CODES = {
    400: "VALIDATION_ERROR", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED", 409: "CONFLICT", 410: "GONE", 413: "PAYLOAD_TOO_LARGE",
    415: "UNSUPPORTED_FILE",
    416: "VALIDATION_ERROR", 422: "VALIDATION_ERROR", 429: "RATE_LIMITED", 500: "INTERNAL_ERROR",
    503: "UNAVAILABLE",
}  # fmt: skip

#: The status of a synchronous response whose job failed; anything else is a 500.
JOB_STATUS = {
    "VALIDATION_ERROR": 400, "UNKNOWN_JOB_TYPE": 400, "CANCELLED": 409, "FILE_TOO_LARGE": 413,
    "UNSUPPORTED_FILE": 415, "FILE_ENCRYPTED": 422, "FILE_CORRUPT": 422, "DOWNLOAD_FAILED": 502,
    "UPSTREAM_FAILED": 502, "ENGINE_UNAVAILABLE": 503, "PROCESSING_TIMEOUT": 504,
}  # fmt: skip

HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "5"}}

#: Errors below this path keep the fields that event-job clients read, beside ours.
LEGACY_PREFIX = "/api/event-job"


class ErrorDetail(BaseModel):
    code: str
    message: str
    details: dict[str, JsonValue] | None


class Error(BaseModel):
    status: Literal["error"]
    error: ErrorDetail


class LegacyError(Error):
    """The error envelope of the event-job API."""

    message: str
    error_type: str


class ErrorResponse(JSONResponse):
    """Renders the legacy form for event-job paths. The path is only certain when the response is
    sent, so code that creates an error response need not know about it."""

    def __init__(self, status: int, error: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        super().__init__({"status": "error", "error": error}, status, headers)
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_legacy(scope["path"]):
            is_forbidden = self.status_code == 403
            legacy = {
                "status": "error",
                "message": self._error["message"],
                "error_type": "permission_denied" if is_forbidden else self._error["code"].lower(),
                "error": self._error,
            }
            self.body = self.render(legacy)
            self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def is_legacy(path: str) -> bool:
    return path == LEGACY_PREFIX or path.startswith(f"{LEGACY_PREFIX}/")


def error_response(
    status: int,
    message: str,
    *,
    code: str | None = None,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    error = {"code": code or CODES[status], "message": message, "details": details or None}
    return ErrorResponse(status, error, {**HEADERS.get(status, {}), **(headers or {})})


def response_for(error: SecretaryError) -> JSONResponse:
    """The response to an error whose message and details clients may see."""
    details: Mapping[str, Any] | None = None
    match error:
        case InvalidParameters() | errors.AddressRefused() | QuotaExceeded():
            details = error.details
        case StoreUnavailable(reason=str(reason)):
            details = {"reason": reason}
    retry = {"Retry-After": str(error.retry_after)} if isinstance(error, RateLimited) else None
    status, code = status_of(error), code_of(error)
    return error_response(status, message_of(error), code=code, details=details, headers=retry)


def message_of(error: SecretaryError) -> str:
    return error.public_message if isinstance(error, StoreUnavailable) else str(error)


def job_error_response(error: JobError) -> JSONResponse:
    """The synchronous response for a job that failed."""
    return ErrorResponse(JOB_STATUS.get(error.code, 500), error.model_dump(mode="json"), {})


def status_of(error: SecretaryError) -> int:
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def code_of(error: SecretaryError) -> str:
    return "QUOTA_EXCEEDED" if isinstance(error, QuotaExceeded) else CODES[status_of(error)]


def add_error_handlers(api: FastAPI) -> None:
    """Return every error in the error envelope, including those raised by the framework."""
    for kind in (SecretaryError, RequestValidationError, HTTPException, ClientDisconnect, OSError):
        api.add_exception_handler(kind, _handle_error)


async def _handle_error(request: Request, error: Exception) -> JSONResponse:
    match error:
        case StoreUnavailable():
            logger.error("%s %r: %s", request.method, request.url.path, error)
            return response_for(error)
        case OSError() if error.errno in DISK_FULL_ERRNOS:
            logger.error("%s %r: %s", request.method, request.url.path, error)
            return response_for(NoDiskSpace(str(error)))
        case OSError():
            raise error
        case SecretaryError() if status_of(error) == 500:
            logger.error("%s %r", request.method, request.url.path, exc_info=error)
            return error_response(500, "Internal error")
        case SecretaryError():
            if isinstance(error, QuotaExceeded):
                request.app.state.metrics.quota_refused(error.details["quota"])
            return response_for(error)
        case RequestValidationError():
            media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            is_json = media_type == "application/json" or media_type.endswith("+json")
            if request.method == "POST" and not is_json:
                message = "The request body must be JSON, sent with Content-Type: application/json"
                return error_response(400, message)
            # The first part of a location is where the value came from: body, query, path, header.
            problems = ({**problem, "loc": problem["loc"][1:]} for problem in error.errors())
            return response_for(invalid_request(problems))
        case HTTPException(status_code=404):
            return error_response(404, f"No route matches {request.url.path}")
        case HTTPException():
            status = error.status_code if error.status_code in CODES else 400
            headers = _allowed_methods(request, error) if status == 405 else error.headers
            return error_response(status, str(error.detail), headers=headers)
    # Nobody receives this; it keeps a client that left from counting as a server error.
    return error_response(400, "The client disconnected before the request body was complete")


def _allowed_methods(request: Request, error: HTTPException) -> Mapping[str, str]:
    """All methods of a path; the framework names only those of the first matching route."""
    matched = request.scope.get("route")
    if not isinstance(matched, Route):
        return error.headers or {}
    routes = [one for one in request.app.routes if getattr(one, "path", None) == matched.path]
    methods = {method for one in routes if isinstance(one, Route) for method in one.methods or ()}
    return {"Allow": ", ".join(sorted(methods))}
