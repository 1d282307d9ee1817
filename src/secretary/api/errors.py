"""Which error becomes which HTTP status, and the form in which clients see errors."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..core.errors import (
    AccessDenied,
    AddressRefused,
    Conflict,
    FileTooLarge,
    InvalidParameters,
    KeyReused,
    NotFound,
    RateLimited,
    SecretaryError,
    StoreUnavailable,
    Unauthorized,
    UnsupportedFile,
)
from ..core.job import JobError
from ..jobs.submission import invalid_request

logger = logging.getLogger(__name__)

#: The first that fits; anything else is a 500.
STATUS: dict[type[SecretaryError], int] = {
    InvalidParameters: 400,
    AddressRefused: 400,
    Unauthorized: 401,
    AccessDenied: 403,
    NotFound: 404,
    KeyReused: 422,
    Conflict: 409,
    FileTooLarge: 413,
    UnsupportedFile: 415,
    RateLimited: 429,
    StoreUnavailable: 503,
}

CODES = {
    400: "VALIDATION_ERROR",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    409: "CONFLICT",
    413: "PAYLOAD_TOO_LARGE",
    415: "UNSUPPORTED_FILE",
    416: "VALIDATION_ERROR",
    422: "VALIDATION_ERROR",
    429: "RATE_LIMITED",
    500: "INTERNAL_ERROR",
    503: "UNAVAILABLE",
}

#: Below this path errors have the form that the older clients read, and ours beside it.
OLDER_ROUTES = "/api/event-job"
#: Their names for errors are our codes in lower case, but for these.
OLDER_NAMES = {403: "permission_denied"}

ERROR_SCHEMA = {
    "type": "object",
    "required": ["status", "error"],
    "properties": {
        "status": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "details": {"type": ["object", "null"]},
            },
        },
    },
}
OLDER_ERROR_SCHEMA = {
    "allOf": [{"$ref": "#/components/schemas/Error"}],
    "required": ["message", "error_type"],
    "properties": {"message": {"type": "string"}, "error_type": {"type": "string"}},
}
ERROR_SCHEMAS = {"Error": ERROR_SCHEMA, "OlderError": OLDER_ERROR_SCHEMA}

HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "5"}}


def error_kind(path: str) -> str:
    """Which of `ERROR_SCHEMAS` the errors of a path have."""
    older = path == OLDER_ROUTES or path.startswith(f"{OLDER_ROUTES}/")
    return "OlderError" if older else "Error"


class ErrorResponse(JSONResponse):
    """Takes its form when it is sent: only then is it certain on which path it happened, and
    no place that answers with an error has to think of it."""

    def __init__(self, status: int, error: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        super().__init__({"status": "error", "error": error}, status, headers)
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if error_kind(scope["path"]) == "OlderError":
            self.body = self.render(self._older())
            self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)

    def _older(self) -> dict[str, Any]:
        name = OLDER_NAMES.get(self.status_code, self._error["code"].lower())
        message = self._error["message"]
        return {"status": "error", "message": message, "error_type": name, "error": self._error}


def error_response(
    status: int,
    message: str,
    *,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    error = {"code": CODES[status], "message": message, "details": details or None}
    return ErrorResponse(status, error, {**HEADERS.get(status, {}), **(headers or {})})


#: How a client that waited for its job hears of the job's error; anything else is a 500.
JOB_STATUS = {
    "VALIDATION_ERROR": 400,
    "UNKNOWN_JOB_TYPE": 400,
    "CANCELLED": 409,
    "FILE_TOO_LARGE": 413,
    "UNSUPPORTED_FILE": 415,
    "FILE_ENCRYPTED": 422,
    "FILE_CORRUPT": 422,
    "DOWNLOAD_FAILED": 502,
    "UPSTREAM_FAILED": 502,
    "ENGINE_UNAVAILABLE": 503,
    "PROCESSING_TIMEOUT": 504,
}


def job_error_response(error: JobError) -> JSONResponse:
    return ErrorResponse(JOB_STATUS.get(error.code, 500), error.model_dump(mode="json"), {})


def answer_errors(api: FastAPI) -> None:
    """Give every error the form of the contract, those of the framework too."""
    api.add_exception_handler(SecretaryError, _our_error)
    api.add_exception_handler(RequestValidationError, _invalid_request)
    api.add_exception_handler(HTTPException, _http_error)
    api.add_exception_handler(ClientDisconnect, _gone)
    api.add_exception_handler(Exception, _unexpected)


async def _our_error(request: Request, error: Exception) -> JSONResponse:
    status = _status_of(error)
    if isinstance(error, StoreUnavailable):  # its text names files and servers
        logger.error("%s %r: %s", request.method, request.url.path, error)
        return error_response(status, "The job store cannot be used at the moment")
    if status == 500:
        logger.error("%s %r", request.method, request.url.path, exc_info=error)
        return error_response(status, "Internal error")
    return answer_to(error)


def answer_to(error: Exception) -> JSONResponse:
    """The answer to an error of ours that tells clients no more than they may know."""
    details = error.details if isinstance(error, InvalidParameters | AddressRefused) else None
    retry = {"Retry-After": str(error.retry_after)} if isinstance(error, RateLimited) else None
    return error_response(_status_of(error), str(error), details=details, headers=retry)


def code_of(error: SecretaryError) -> str:
    """As the answer to it would have it."""
    return CODES[_status_of(error)]


def _status_of(error: Exception) -> int:
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    if request.method == "POST" and not _is_json(request):
        text = "The request body must be JSON, sent with Content-Type: application/json"
        return error_response(400, text)
    # The place says first where the value came from: body, query, path or header.
    problems = ({**problem, "loc": problem["loc"][1:]} for problem in error.errors())
    told = invalid_request(problems)
    return error_response(400, told.message, details=told.details)


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = error.status_code if error.status_code in CODES else 400
    if status == 404:
        return error_response(status, f"There is nothing at {request.url.path}")
    if status == 405:
        return error_response(status, str(error.detail), headers=_allowed(request, error))
    return error_response(status, str(error.detail), headers=error.headers)


def _allowed(request: Request, error: HTTPException) -> Mapping[str, str]:
    """All methods of a path; the framework names those of its first route only."""
    found = request.scope.get("route")
    if not isinstance(found, Route):
        return error.headers or {}
    routes = (route for route in request.app.routes if isinstance(route, Route))
    methods = {
        method for route in routes if route.path == found.path for method in route.methods or ()
    }
    return {"Allow": ", ".join(sorted(methods))}


async def _gone(request: Request, error: Exception) -> JSONResponse:
    """Nobody hears this; but that a client leaves while it sends is no fault of ours."""
    return error_response(400, "The request ended before its body was complete")


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    # The server logs the traceback; a client gets the kind of error and no more.
    return error_response(500, "Internal error", details={"type": type(error).__name__})
