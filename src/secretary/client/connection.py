"""HTTP requests to the service, with authentication, retries and event streams."""

import asyncio
import ipaddress
import json
import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
from pydantic_core import to_json

from ..core.http_headers import read_retry_after
from ..version import __version__
from .errors import ApiError, ClientError, NotFound, Unreachable
from .models import Event

if TYPE_CHECKING:
    from .requests import Form

#: The service, or a proxy in front of it, is temporarily unavailable.
RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
#: The service sends a heartbeat every 15 seconds; a stream that is silent for longer is dead.
STREAM_TIMEOUT = 45.0
#: Pause before reconnecting to a stream that was closed, unless the service sets one.
RECONNECT_PAUSE = 1.0
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Retries:
    """How requests are retried: `attempts` in total, with waits that double from `first_wait` to
    `longest_wait` seconds, each shortened by up to half at random. A `Retry-After` header makes a
    wait longer, up to `longest_retry_after`."""

    attempts: int = 8
    first_wait: float = 0.5
    longest_wait: float = 15.0
    longest_retry_after: float = 120.0
    chance: Callable[[], float] = random.random

    def wait(self, failures: int, retry_after: float | None = None) -> float:
        """Return how many seconds to wait after so many failures in a row."""
        backoff = min(self.first_wait * 2.0 ** min(failures - 1, 30), self.longest_wait)
        jittered = backoff * (1 - self.chance() / 2)
        return max(jittered, min(retry_after or 0.0, self.longest_retry_after))


class StreamUnavailable(ClientError):
    """A proxy does not let event streams through."""


class Connection:
    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        user: str | None = None,
        timeout: float = 60.0,
        retries: Retries | None = None,
        verify: bool | ssl.SSLContext = True,
    ) -> None:
        headers = {b"User-Agent": f"secretary-client/{__version__}".encode()}
        if api_key is not None:
            headers[b"Authorization"] = b"Bearer " + api_key.encode()
        if user is not None:
            headers[b"X-User-ID"] = user.encode()
        self.url = url.rstrip("/")
        self.retries = retries or Retries()
        self._timeout = timeout
        if not self.url.startswith("https"):
            # Loading the trusted certificates takes 25 ms and is not needed without TLS.
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=headers,
            timeout=timeout,
            verify=verify,
            # Each job that is waited for has a stream of its own.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            # A proxy does not lead to this machine.
            trust_env=not _is_loopback(httpx.URL(self.url).host),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, *, attempts: int | None = None, **query: Any) -> Any:
        params = {name: value for name, value in query.items() if value is not None}
        build = partial(self._http.build_request, "GET", path, params=params)
        return (await self._send(build, attempts=attempts)).get("data")

    async def post(
        self, path: str, body: Any = None, *, key: str | None = None, safe: bool = True
    ) -> dict[str, Any]:
        """Send JSON. Requests that are not `safe` to repeat are only retried if not received."""
        headers = {"Content-Type": JSON} | ({"Idempotency-Key": key} if key else {})
        content = b"" if body is None else to_json(body)
        build = partial(self._http.build_request, "POST", path, content=content, headers=headers)
        return await self._send(build, safe=safe)

    async def upload(self, path: str, form: "Form", *, key: str) -> dict[str, Any]:
        headers = {
            "Content-Type": form.content_type,
            "Content-Length": str(form.length),
            "Idempotency-Key": key,
            "Prefer": "respond-async",  # jobs are awaited by their id, however long they take
        }
        return await self._send(
            lambda: self._http.build_request("POST", path, content=form.chunks(), headers=headers)
        )

    async def delete(self, path: str) -> None:
        """Delete a resource; a 404 on a retry means that an earlier attempt deleted it."""
        attempts = 0

        def build() -> httpx.Request:
            nonlocal attempts
            attempts += 1
            return self._http.build_request("DELETE", path)

        try:
            await self._send(build)
        except NotFound:
            if attempts == 1:
                raise

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], *, read_timeout: float | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Open a response for streaming, without retries. Raise for a status of 300 or more."""
        timeout = httpx.Timeout(self._timeout, read=read_timeout or self._timeout)
        request = self._http.build_request("GET", path, headers=headers, timeout=timeout)
        response = await self._http.send(request, stream=True)
        try:
            if response.status_code >= 300:
                await response.aread()
                raise _api_error(response)
            yield response
        finally:
            await response.aclose()

    async def paginate(self, collection: str, **query: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Yield all matching documents, fetching each page when it is needed."""
        cursor: str | None = None
        while True:
            page = await self.get(f"/api/{collection}", cursor=cursor, **query)
            for document in page[collection]:
                yield document
            if (cursor := page["next_cursor"]) is None:
                return

    async def events(
        self, path: str, attempts: int | None = None, *, since: str | None = None
    ) -> AsyncGenerator[Event, None]:
        """Yield events indefinitely. After a failure, reconnect and continue with the next event;
        give up after `attempts` failures in a row without receiving anything."""
        parser = EventParser(since)
        failures = 0
        attempts = self.retries.attempts if attempts is None else attempts
        while True:
            pause = parser.pause or RECONNECT_PAUSE
            try:
                async with aclosing(self._event_stream(path, parser)) as events:
                    async for event in events:
                        yield event
                if parser.is_finished:
                    return
                failures = 0
                await asyncio.sleep(pause)
            except (httpx.TransportError, ApiError) as error:
                failures = 1 if parser.has_received else failures + 1
                if failures >= attempts and isinstance(error, httpx.ReadTimeout):  # no heartbeat
                    raise StreamUnavailable("No events are received") from error
                await self.back_off(error, failures, attempts=attempts)

    async def _event_stream(self, path: str, parser: "EventParser") -> AsyncGenerator[Event, None]:
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if parser.last_id is not None:
            headers["Last-Event-ID"] = parser.last_id
        parser.reset()
        async with self.stream(path, headers, read_timeout=STREAM_TIMEOUT) as response:
            if response.status_code == 204:
                parser.is_finished = True
                return
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise StreamUnavailable("The response is not an event stream")
            async for chunk in response.aiter_bytes():
                for event in parser.feed(chunk):
                    yield event

    async def _send(
        self, build: Callable[[], httpx.Request], *, safe: bool = True, attempts: int | None = None
    ) -> dict[str, Any]:
        failures = 0
        while True:
            try:
                response = await self._http.send(build())
                if response.status_code >= 300:
                    raise _api_error(response)
                break
            except (httpx.TransportError, ApiError) as error:
                failures += 1
                await self.back_off(error, failures, safe=safe, attempts=attempts)
        try:
            document = response.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ApiError(response.status_code, "NO_JSON", "The response is not from Secretary")
        return document

    async def back_off(
        self, error: Exception, failures: int, *, safe: bool = True, attempts: int | None = None
    ) -> None:
        """Wait before the next attempt. Raise the error as a `ClientError` if it is not retryable
        or this was the last attempt."""
        attempts = self.retries.attempts if attempts is None else attempts
        if failures < attempts and is_retryable(error, safe=safe):
            retry_after = error.retry_after if isinstance(error, ApiError) else None
            await asyncio.sleep(self.retries.wait(failures, retry_after))
        elif isinstance(error, ClientError):
            raise error
        else:
            raise Unreachable(self.url, str(error) or type(error).__name__) from error


class EventParser:
    """Parses server-sent events. An event that is incomplete when the connection breaks is
    dropped and its id not recorded, so the service sends it again."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        #: Set when the service has no further events.
        self.is_finished = False
        #: Seconds to wait before reconnecting, if the service sets them.
        self.pause: float | None = None
        #: Whether this connection has received anything, including heartbeats.
        self.has_received = False
        self._partial_line: list[bytes] = []
        self._fields: dict[str, str] = {}

    def reset(self) -> None:
        """Start over on a new connection; the position is kept."""
        self.has_received = False
        self._partial_line, self._fields = [], {}

    def feed(self, chunk: bytes) -> Iterator[Event]:
        self.has_received = True
        if b"\n" not in chunk:  # part of a long line, joined only once
            self._partial_line.append(chunk)
            return
        *lines, rest = b"".join([*self._partial_line, chunk]).split(b"\n")
        self._partial_line = [rest]
        for line in lines:
            event = self._feed_line(line.removesuffix(b"\r").decode(errors="replace"))
            if event is not None:
                yield event

    def _feed_line(self, line: str) -> Event | None:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data" and "data" in self._fields:
                value = f"{self._fields['data']}\n{value}"
            self._fields[name] = value
            return None
        fields, self._fields = self._fields, {}
        if fields.get("retry", "").isdecimal():
            self.pause = int(fields["retry"]) / 1000
        self.last_id = fields.get("id", self.last_id)
        if "data" not in fields:
            return None
        return Event.parse(fields.get("event", "message"), self.last_id, json.loads(fields["data"]))


def is_retryable(error: Exception, *, safe: bool) -> bool:
    """A request that is not `safe` to repeat is only retried if it cannot have been received."""
    if isinstance(error, ApiError):
        if error.code == "QUOTA_EXCEEDED":  # it may take until tomorrow
            return False
        return error.status in RETRYABLE_STATUSES if safe else error.status == 429
    unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return unsent or (safe and not isinstance(error, httpx.UnsupportedProtocol))


def _api_error(response: httpx.Response) -> ApiError:
    """Read an error response; one that is not from the service gets the code `HTTP_<status>`."""
    status = response.status_code
    try:
        error = response.json()["error"]
        code, message, details = error["code"], error["message"], error.get("details")
    except (ValueError, KeyError, TypeError, AttributeError):
        reason = response.reason_phrase or "unknown error"
        code, message, details = f"HTTP_{status}", f"{status} {reason}", None
    kind = NotFound if status == 404 else ApiError
    retry_after = parse_retry_after(response.headers.get("retry-after"))
    return kind(status, code, message, details=details, retry_after=retry_after)


def parse_retry_after(header: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header, which may be a number or a date."""
    wait = read_retry_after(header, datetime.now(UTC))
    return None if wait is None else wait.total_seconds()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
