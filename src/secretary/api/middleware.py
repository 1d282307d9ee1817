"""The one wrapper round the application: requests are admitted and bounded before they are looked
at, and every answer gets its headers, is counted and noted."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core.errors import SecretaryError
from ..core.http_headers import RequestSpan, StartSpan, read_traceparent, trace_id
from .auth import Authenticator
from .errors import answer_to, error_response

logger = logging.getLogger("secretary.requests")

#: A body that comes slower than this, after the first `body_patience` seconds, is not waited for.
MIN_BYTES_PER_SECOND = 1000

#: An answer is data for its client: nothing in it is to be run, shown in a frame or guessed at.
#: A page that needs more says so itself, and what a route says stands.
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
JSON_HEADERS = (*SECURITY_HEADERS, (b"cache-control", b"no-store"))

#: A label per route and method is enough; clients can make up any number of others.
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})

#: Nobody wants to read the story of what is asked every few seconds.
UNTOLD = ("/api/health", "/metrics", "/dashboard")

#: Told of every answer: method, route, status, and the seconds until it began.
Answered = Callable[[str, str, int, float], None]

TWO_LENGTHS = "A body has either a Content-Length or a Transfer-Encoding, not both"


class RequestMiddleware:
    """`limits` are those of paths that differ from all others."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        gate: Authenticator,
        answered: Answered,
        max_body_bytes: int,
        limits: Mapping[str, int],
        body_patience: float,
        start_span: StartSpan | None = None,
    ) -> None:
        self._app = app
        self._start_span = start_span
        self._gate = gate
        self._answered = answered
        self._max = max_body_bytes
        self._limits = limits
        self._patience = body_patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["arrived_at"] = time.time()
        scope = _without_slash(scope)
        answer = _Answer(scope, send, self._answered, self._span(scope))
        try:
            await self._admit(scope, receive, answer.send)
        finally:
            answer.note()

    def _span(self, scope: Scope) -> RequestSpan | None:
        if self._start_span is None or scope["path"].startswith(UNTOLD):
            return None
        came = read_traceparent(Headers(scope=scope).get("traceparent"))
        span = self._start_span(_known(scope["method"]), came)
        scope["state"]["traceparent"] = span.traceparent
        return span

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy before us may go by the other one, and see another request in the rest.
            refusal = error_response(400, TWO_LENGTHS, headers={"Connection": "close"})
            await refusal(scope, receive, send)
            return
        try:
            self._gate.admit(scope)
        except SecretaryError as error:
            await answer_to(error)(scope, receive, send)
            return
        limit = self._limits.get(scope["path"], self._max)
        announced = headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and int(announced) > limit:
            await error_response(413, _refusal(limit))(scope, receive, send)
            return
        await self._app(scope, _Body(receive, limit, self._patience), send)


class _Body:
    """The body of a request as the application receives it: neither too large nor too slow."""

    def __init__(self, receive: Receive, limit: int, patience: float) -> None:
        self._receive = receive
        self._limit = limit
        self._patience = patience
        self._size = 0
        self._waited = 0.0
        self._complete = False

    async def __call__(self) -> Message:
        if self._complete:  # what is waited for now is that the client goes away
            return await self._receive()
        message = await self._in_time()
        self._complete = not message.get("more_body", False)
        self._size += len(message.get("body", b""))
        if self._size > self._limit:  # a body in pieces does not say how large it will be
            raise HTTPException(413, _refusal(self._limit))
        return message

    async def _in_time(self) -> Message:
        left = self._patience + self._size / MIN_BYTES_PER_SECOND - self._waited
        began = time.monotonic()
        try:
            async with asyncio.timeout(min(left, self._patience)):
                return await self._receive()
        except TimeoutError:
            text = "The request body came too slowly"
            raise HTTPException(400, text, headers={"Connection": "close"}) from None
        finally:
            self._waited += time.monotonic() - began


class _Answer:
    """What becomes of one request."""

    __slots__ = ("_answered", "_began", "_scope", "_send", "_span", "_status")

    def __init__(
        self, scope: Scope, send: Send, answered: Answered, span: RequestSpan | None
    ) -> None:
        self._scope = scope
        self._span = span
        self._send = send
        self._answered = answered
        self._began = time.perf_counter()
        self._status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = self._headers(message["headers"])
            self._status = message["status"]
            seconds = time.perf_counter() - self._began
            known = _known(self._scope["method"])
            self._answered(known, route_of(self._scope), self._status, seconds)
        await self._send(message)

    def _headers(self, given: Any) -> list[tuple[bytes, bytes]]:
        names = dict(given)
        is_json = names.get(b"content-type", b"").startswith(b"application/json")
        added = JSON_HEADERS if is_json else SECURITY_HEADERS
        more = self._scope["state"].get("headers", ())
        return [*given, *(header for header in (*added, *more) if header[0] not in names)]

    def note(self) -> None:
        """A line in the log, for refusals at `info`. No query: clients put secrets there."""
        if self._span is not None:
            self._span.end(route_of(self._scope), self._status)
        level = logging.DEBUG if self._status < 400 else logging.INFO
        if not logger.isEnabledFor(level):
            return
        scope = self._scope
        traceparent = Headers(scope=scope).get("traceparent")
        fields = {
            "method": scope["method"],
            "route": route_of(scope),
            "status": self._status,
            "ms": round((time.perf_counter() - self._began) * 1000, 1),
            "user": scope["state"].get("user"),
            "trace_id": trace_id(read_traceparent(traceparent)),
        }
        said = "{method} {route} {status} {ms} ms".format(**fields)
        user = f", user {fields['user']!r}" if fields["user"] is not None else ""
        logger.log(level, "%s%s", said, user, extra={"fields": fields})


def _known(method: str) -> str:
    return method if method in METHODS else "OTHER"


def route_of(scope: Scope) -> str:
    """The template of the path, without what varies; `unknown` when there is no such route."""
    route = scope.get("route")
    return "unknown" if route is None else str(route.path)


def _refusal(limit: int) -> str:
    return f"A request body may have {limit:,} bytes at the most"


def _without_slash(scope: Scope) -> Scope:
    """Every route of the API is also there with a slash behind it. No redirect: some clients
    follow one without the body or with another method."""
    path: str = scope["path"]
    if not (path.startswith("/api/") and path.endswith("/")):
        return scope
    raw_path: bytes = scope.get("raw_path") or path.encode()
    return {**scope, "path": path[:-1], "raw_path": raw_path.removesuffix(b"/")}
