"""One request to a webhook, and what came of it."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import httpx

from ..errors import AddressRefused
from ..job import Try, utc_now
from ..network.client import Network
from ..retry_after import read_retry_after
from .letter import Letter

#: An answer is its status. So much of the rest is read, that the connection can be used again.
MAX_ANSWER_BYTES = 64 * 1024
READ_SECONDS = 1.0

GONE = 410
#: With these a receiver may say when it wants to be asked again.
THROTTLING = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Answer:
    tried: Try
    retry_after: timedelta | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the endpoint works, whatever it thinks of this request."""
        return self.tried.status is not None and self.tried.status < 500


async def post(
    client: httpx.AsyncClient,
    network: Network,
    letter: Letter,
    *,
    limit: timedelta,
) -> Answer:
    """Never raises, and tells nothing of what was sent: the errors of others may quote it."""
    at, started = utc_now(), time.perf_counter()
    status: int | None = None
    error: str | None = None
    retry_after: timedelta | None = None
    try:
        network.check(letter.url, https_only=True)
        async with asyncio.timeout(limit.total_seconds()):
            request = client.build_request(
                "POST", letter.url, headers=letter.headers, content=letter.body
            )
            response = await client.send(request, stream=True, follow_redirects=False)
        status = response.status_code
        if status in THROTTLING:
            retry_after = read_retry_after(response.headers.get("retry-after"), at)
        await _finish(response)
    except (TimeoutError, httpx.TimeoutException):
        error = "timed out"
    except AddressRefused:
        error = "the address is refused"
    except httpx.ConnectError:
        error = "no connection"
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        error = f"the request failed ({type(problem).__name__})"
    duration = round((time.perf_counter() - started) * 1000)
    return Answer(Try(at=at, status=status, error=error, duration_ms=duration), retry_after)


async def _finish(response: httpx.Response) -> None:
    size = 0
    try:
        with suppress(TimeoutError, httpx.HTTPError):
            async with asyncio.timeout(READ_SECONDS):
                async for part in response.aiter_raw():
                    size += len(part)
                    if size > MAX_ANSWER_BYTES:
                        break
    finally:
        await response.aclose()
