"""Requests to the service: with its key and user, tried again where that can do no harm."""

import asyncio
import ipaddress
import json
import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

import httpx
from pydantic_core import to_json

from ..core.http_headers import read_retry_after
from ..version import __version__
from .errors import ApiError, ClientError, NotFound, Unreachable
from .models import Event
from .uploads import Form

#: The service, or what stands before it, cannot answer now.
BUSY = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Retries:
    """`attempts` in all; the waits between them double from `first_wait` to `longest_wait`
    seconds, each up to a half shorter so that many clients do not come back at once. A
    `Retry-After` makes a wait longer, up to `longest_retry_after`."""

    attempts: int = 8
    first_wait: float = 0.5
    longest_wait: float = 15.0
    longest_retry_after: float = 120.0
    chance: Callable[[], float] = random.random

    def wait(self, failures: int, retry_after: float | None = None) -> float:
        """Seconds to wait after so many failures in a row."""
        grown = min(self.first_wait * 2.0 ** min(failures - 1, 30), self.longest_wait)
        jittered = grown * (1 - self.chance() / 2)
        return max(jittered, min(retry_after or 0.0, self.longest_retry_after))


def seconds_until(header: str | None) -> float | None:
    """`Retry-After`: seconds, or a date."""
    wait = read_retry_after(header, datetime.now(UTC))
    return None if wait is None else wait.total_seconds()


class EventReader:
    """What is not complete when a connection breaks is never given out, and its id not kept: so
    it comes again."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        #: All has been told.
        self.is_over = False
        #: Seconds to wait before coming back, as the service asks.
        self.pause: float | None = None
        #: Something has come on this connection, if only a heartbeat.
        self.is_alive = False
        self._rest: list[bytes] = []
        self._fields: dict[str, str] = {}

    def restart(self) -> None:
        """On a new connection; where it was is kept."""
        self.is_alive = False
        self._rest, self._fields = [], {}

    def feed(self, piece: bytes) -> Iterator[Event]:
        self.is_alive = True
        if b"\n" not in piece:  # of a long line, which is put together once
            self._rest.append(piece)
            return
        *lines, rest = b"".join([*self._rest, piece]).split(b"\n")
        self._rest = [rest]
        for line in lines:
            event = self._line(line.removesuffix(b"\r").decode(errors="replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> Event | None:
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
        return Event.read(fields.get("event", "message"), self.last_id, json.loads(fields["data"]))


#: A stream is silent for 15 seconds at the most; after this it is dead.
STREAM_SILENCE = 45.0
#: Before coming back after a stream that was ended, unless the service has said how long.
CLEAN_END_PAUSE = 1.0
JSON = "application/json"


class NoStream(ClientError):
    """What stands between lets no stream through."""


class Connection:
    def __init__(
        self,
        url: str,
        *,
        api_key: str | None,
        user: str | None,
        timeout: float,
        retries: Retries,
        verify: bool | ssl.SSLContext,
    ) -> None:
        headers = {b"User-Agent": f"secretary-client/{__version__}".encode()}
        if api_key is not None:
            headers[b"Authorization"] = b"Bearer " + api_key.encode()
        if user is not None:
            headers[b"X-User-ID"] = user.encode()
        self.url = url.rstrip("/")
        self.retries = retries
        self._timeout = timeout
        if not self.url.startswith("https"):
            # One that trusts nobody: to load whom to trust takes 25 ms, and here is no TLS.
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=headers,
            timeout=timeout,
            verify=verify,
            # Each job that is waited for has a stream of its own.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            # No proxy leads to this machine.
            trust_env=not _is_loopback(httpx.URL(self.url).host),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, *, attempts: int | None = None, **query: Any) -> Any:
        asked = {name: value for name, value in query.items() if value is not None}
        build = self._builder("GET", path, params=asked)
        return (await self._answered(build, safe=True, attempts=attempts)).get("data")

    async def post(
        self, path: str, document: Any = None, *, key: str | None = None, safe: bool = True
    ) -> dict[str, Any]:
        """With a key, or where it is safe, it is asked again after a broken connection."""
        headers = {"Content-Type": JSON} | ({"Idempotency-Key": key} if key else {})
        content = b"" if document is None else to_json(document)
        build = self._builder("POST", path, content=content, headers=headers)
        return await self._answered(build, safe=safe)

    async def upload(self, path: str, form: Form, *, key: str) -> dict[str, Any]:
        headers = {
            "Content-Type": form.content_type,
            "Content-Length": str(form.length),
            "Idempotency-Key": key,
        }

        def build() -> httpx.Request:
            return self._http.build_request("POST", path, content=form.pieces(), headers=headers)

        return await self._answered(build, safe=True)

    async def delete(self, path: str) -> None:
        """A second try that finds nothing was preceded by one that worked."""
        tried = 0

        def build() -> httpx.Request:
            nonlocal tried
            tried += 1
            return self._http.build_request("DELETE", path)

        try:
            await self._answered(build, safe=True)
        except NotFound:
            if tried == 1:
                raise

    @asynccontextmanager
    async def opened(
        self, path: str, headers: Mapping[str, str], *, silence: float | None = None
    ) -> AsyncIterator[httpx.Response]:
        """One try, read as it comes. Raises for every status of 300 and more."""
        timeout = httpx.Timeout(self._timeout, read=silence or self._timeout)
        request = self._http.build_request("GET", path, headers=headers, timeout=timeout)
        response = await self._http.send(request, stream=True)
        try:
            if response.status_code >= 300:
                await response.aread()
                raise refusal(response)
            yield response
        finally:
            await response.aclose()

    async def events(
        self, path: str, *, since: str | None = None, patience: int | None = None
    ) -> AsyncGenerator[Event, None]:
        """Events until whoever reads has enough. Comes back by itself where it was; gives up
        after so many breaks in a row without a sign of life between them."""
        reader = EventReader(since)
        failures = 0
        attempts = self.retries.attempts if patience is None else patience
        while True:
            wait = reader.pause or CLEAN_END_PAUSE
            try:
                async with aclosing(self._stream(path, reader)) as events:
                    async for event in events:
                        failures = 0
                        yield event
                if reader.is_over:
                    return
                failures = 0
            except (httpx.TransportError, ApiError) as error:
                failures = 1 if reader.is_alive else failures + 1
                if failures >= attempts or not worth_another(error, safe=True):
                    if isinstance(error, httpx.ReadTimeout):  # not even a heartbeat
                        raise NoStream("The stream of events does not come through") from error
                    give_up(error, self.url)
                wait = self.retries.wait(failures, retry_after_of(error))
            await asyncio.sleep(wait)

    async def _stream(self, path: str, reader: EventReader) -> AsyncGenerator[Event, None]:
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if reader.last_id is not None:
            headers["Last-Event-ID"] = reader.last_id
        reader.restart()
        async with self.opened(path, headers, silence=STREAM_SILENCE) as response:
            if response.status_code == 204:
                reader.is_over = True
                return
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise NoStream("The answer is no stream of events")
            async for piece in response.aiter_bytes():
                for event in reader.feed(piece):
                    yield event

    def _builder(self, method: str, path: str, **options: Any) -> Callable[[], httpx.Request]:
        return lambda: self._http.build_request(method, path, **options)

    async def _answered(
        self, build: Callable[[], httpx.Request], *, safe: bool, attempts: int | None = None
    ) -> dict[str, Any]:
        attempts = self.retries.attempts if attempts is None else attempts
        failures = 0
        while True:
            try:
                return document_of(await self._http.send(build()))
            except (httpx.TransportError, ApiError) as error:
                failures += 1
                if failures >= attempts or not worth_another(error, safe=safe):
                    give_up(error, self.url)
                wait = self.retries.wait(failures, retry_after_of(error))
            await asyncio.sleep(wait)


def worth_another(error: Exception, *, safe: bool) -> bool:
    """What is not safe to do twice is tried again only if it cannot have begun."""
    if isinstance(error, ApiError):
        return error.status in BUSY if safe else error.status == 429
    unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return unsent or (safe and not isinstance(error, httpx.UnsupportedProtocol))


def retry_after_of(error: Exception) -> float | None:
    return error.retry_after if isinstance(error, ApiError) else None


def give_up(error: Exception, url: str) -> NoReturn:
    if isinstance(error, ClientError):
        raise error
    raise Unreachable(url, str(error) or type(error).__name__) from error


def document_of(response: httpx.Response) -> dict[str, Any]:
    if response.status_code >= 300:
        raise refusal(response)
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ApiError(response.status_code, "NO_JSON", "The answer is not one of the service")
    return document


def refusal(response: httpx.Response) -> ApiError:
    """The error of an answer; of one that is not the service's own, its status."""
    status = response.status_code
    try:
        error = response.json()["error"]
        code, message, details = error["code"], error["message"], error.get("details")
    except (ValueError, KeyError, TypeError, AttributeError):
        reason = response.reason_phrase or "no answer of the service"
        code, message, details = f"HTTP_{status}", f"{status} {reason}", None
    kind = NotFound if status == 404 else ApiError
    retry_after = seconds_until(response.headers.get("retry-after"))
    return kind(status, code, message, details=details, retry_after=retry_after)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
