"""Middleware around all routes: authentication, body limits, response headers, metrics, logs."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core.errors import SecretaryError
from ..core.http_headers import read_traceparent, trace_id
from .auth import Authenticator
from .responses import error_response, response_for

if TYPE_CHECKING:
    from ..observability.otel import RequestSpan

logger = logging.getLogger("secretary.requests")

#: Called with the method and the `traceparent` header of the request.
StartSpan = Callable[[str, str | None], "RequestSpan"]

#: How long to wait for the next chunk of a body.
BODY_TIMEOUT = 30.0
#: The rate below which a body is refused, after the first `body_timeout` seconds.
MIN_BYTES_PER_SECOND = 1000

#: Defaults for every response: nothing in it may run, be framed or be sniffed. A route that needs
#: more sets its own headers, which take precedence.
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
JSON_HEADERS = (*SECURITY_HEADERS, (b"cache-control", b"no-store"))

#: Method labels of the metrics; clients can make up any number of others.
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
#: Polled every few seconds, so not worth a trace.
UNTRACED = ("/api/health", "/metrics", "/dashboard")

#: Called for every response with method, route, status and the seconds until it began.
RecordResponse = Callable[[str, str, int, float], None]


@dataclass(slots=True)
class RequestMiddleware:
    app: ASGIApp
    _: KW_ONLY
    authenticator: Authenticator
    record_response: RecordResponse
    max_body_bytes: int = 0
    #: Of paths whose limit differs from `max_body_bytes`.
    path_limits: Mapping[str, int] = field(default_factory=dict)
    body_timeout: float = BODY_TIMEOUT
    start_span: StartSpan | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        scope.setdefault("state", {})["arrived_at"] = time.time()
        path: str = scope["path"]
        if path.startswith("/api/") and path.endswith("/"):
            # Accept every API route with a trailing slash as well. A redirect would not do: some
            # clients follow it without the body or with another method.
            raw_path: bytes = scope.get("raw_path") or path.encode()
            scope = {**scope, "path": path[:-1], "raw_path": raw_path.removesuffix(b"/")}
        response = _ObservedResponse(scope, send, self.record_response, self._span(scope))
        try:
            await self._handle(scope, receive, response.send)
        except Exception as error:
            if not response.status:
                details = {"type": type(error).__name__}
                internal_error = error_response(500, "Internal error", details=details)
                await internal_error(scope, receive, response.send)
            raise  # the server logs the traceback
        finally:
            response.log()

    def _span(self, scope: Scope) -> "RequestSpan | None":
        if self.start_span is None or scope["path"].startswith(UNTRACED):
            return None
        parent = read_traceparent(Headers(scope=scope).get("traceparent"))
        span = self.start_span(_method_label(scope["method"]), parent)
        scope["state"]["traceparent"] = span.traceparent
        return span

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # Request smuggling: a proxy in front of us may go by the other header.
            message = "A request must not have both Content-Length and Transfer-Encoding"
            response = error_response(400, message, headers={"Connection": "close"})
            return await response(scope, receive, send)
        try:
            self.authenticator.authenticate(scope)
        except SecretaryError as error:
            return await response_for(error)(scope, receive, send)
        limit = self.path_limits.get(scope["path"], self.max_body_bytes)
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > limit:
            too_large = error_response(413, _too_large(limit), headers=_max_length(limit))
            return await too_large(scope, receive, send)
        await self.app(scope, _LimitedBody(receive, limit, self.body_timeout), send)


@dataclass(slots=True)
class _LimitedBody:
    """The `receive` of a request whose body may be neither too large nor too slow."""

    receive: Receive
    limit: int
    timeout: float
    size: int = 0
    waited: float = 0.0
    is_complete: bool = False

    async def __call__(self) -> Message:
        if self.is_complete:  # the application is waiting for the client to disconnect
            return await self.receive()
        remaining = self.timeout + self.size / MIN_BYTES_PER_SECOND - self.waited
        began = time.monotonic()
        try:
            async with asyncio.timeout(min(remaining, self.timeout)):
                message = await self.receive()
        except TimeoutError:
            text = "The request body arrived too slowly"
            raise HTTPException(400, text, headers={"Connection": "close"}) from None
        self.waited += time.monotonic() - began
        self.is_complete = not message.get("more_body", False)
        self.size += len(message.get("body", b""))
        if self.size > self.limit:  # a chunked body does not announce its length
            raise HTTPException(413, _too_large(self.limit), _max_length(self.limit))
        return message


@dataclass(slots=True)
class _ObservedResponse:
    """Adds the default headers to a response and records it in metrics, traces and the log."""

    scope: Scope
    send_on: Send
    record_response: RecordResponse
    span: "RequestSpan | None"
    began: float = field(default_factory=time.perf_counter)
    #: 0 until the response has started.
    status: int = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            names = dict(message["headers"])
            is_json = names.get(b"content-type", b"").startswith(b"application/json")
            defaults = JSON_HEADERS if is_json else SECURITY_HEADERS
            more = (*defaults, *self.scope["state"].get("headers", ()))
            message["headers"] = [
                *message["headers"],
                *(header for header in more if header[0] not in names),
            ]
            self.status = message["status"]
            seconds = time.perf_counter() - self.began
            method = _method_label(self.scope["method"])
            self.record_response(method, route_of(self.scope), self.status, seconds)
        await self.send_on(message)

    def log(self) -> None:
        """Log errors at INFO, the rest at DEBUG. No query string: clients put secrets there."""
        if self.span is not None:
            self.span.end(route_of(self.scope), self.status)
        level = logging.DEBUG if self.status < 400 else logging.INFO
        if not logger.isEnabledFor(level):
            return
        traceparent = Headers(scope=self.scope).get("traceparent")
        fields = {
            "method": self.scope["method"],
            "route": route_of(self.scope),
            "status": self.status,
            "ms": round((time.perf_counter() - self.began) * 1000, 1),
            "user": self.scope["state"].get("user"),
            "trace_id": trace_id(read_traceparent(traceparent)),
        }
        summary = "{method} {route} {status} {ms} ms".format(**fields)
        user = f", user {fields['user']!r}" if fields["user"] is not None else ""
        logger.log(level, "%s%s", summary, user, extra={"fields": fields})


def _method_label(method: str) -> str:
    return method if method in METHODS else "OTHER"


def route_of(scope: Scope) -> str:
    """The path template of the matched route, or `unknown`."""
    route = scope.get("route")
    return "unknown" if route is None else str(route.path)


def _max_length(limit: int) -> dict[str, str]:
    """Clients show it to their users."""
    return {"X-Max-Content-Length": str(limit)}


def _too_large(limit: int) -> str:
    return f"The request body exceeds the limit of {limit:,} bytes"
