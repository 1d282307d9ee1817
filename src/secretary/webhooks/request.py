"""One request to a webhook, and what came of it."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

import httpx

from ..core.errors import AddressRefused, NotFound
from ..core.http_headers import read_retry_after, webhook_signature
from ..core.job import Batch, DeliveryAttempt, Job, Webhook, utc_now
from ..network.client import Network
from ..storage.artifacts import JobFiles
from ..store.outbox import DueEvent
from ..version import __version__
from .payload import body, client_id

MAX_BYTES = 5 * 1024 * 1024


async def read_archive(files: JobFiles, job: Job) -> bytes | None:
    """The ZIP with everything a job made; None if there is none, or it is too large."""
    try:
        found = await files.archive(job)
        return await files.content(found) if found.size < MAX_BYTES else None
    except NotFound:
        return None


#: What a client's own headers cannot change: it would break the request or forge its identity.
RESERVED = frozenset(
    {
        "connection", "content-encoding", "content-length", "content-type", "expect", "host",
        "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "webhook-id",
        "webhook-timestamp", "webhook-signature",
    }
)  # fmt: skip


def headers_for(
    webhook: Webhook, *, message_id: str, at: datetime, body: bytes, traceparent: str | None = None
) -> dict[str, str]:
    headers = {
        name.lower(): value
        for name, value in webhook.headers.items()
        if name.lower() not in RESERVED
    }
    headers.setdefault("user-agent", f"Secretary/{__version__}")
    headers["content-type"] = "application/json"
    if webhook.token:
        headers["authorization"] = f"Bearer {webhook.token}"
        headers["x-callback-token"] = webhook.token
    if traceparent is not None:
        headers["traceparent"] = traceparent
    timestamp = str(int(at.timestamp()))
    headers |= {"webhook-id": message_id, "webhook-timestamp": timestamp}
    if webhook.secret:
        headers["webhook-signature"] = webhook_signature(
            webhook.secret, message_id, timestamp, body
        )
    return headers


def as_bytes(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as they go over the wire: a client may have put any text into its own."""
    return [(name.encode(), value.strip().encode()) for name, value in headers.items()]


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    url: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


async def write(
    event: DueEvent, owner: Job | Batch, webhook: Webhook, files: JobFiles
) -> WebhookRequest:
    archive = None
    if isinstance(owner, Job):
        if webhook.include_archive:  # asked for as the job is stored: it says what to pack
            archive = await read_archive(files, owner)
        owner = await files.filled(owner)
    return await asyncio.to_thread(_written, event, owner, webhook, archive)


def _written(
    event: DueEvent, owner: Job | Batch, webhook: Webhook, archive: bytes | None
) -> WebhookRequest:
    """May take a while: results can be large."""
    content = body(owner, webhook, archive=archive)
    headers = headers_for(
        webhook,
        message_id=message_id(event),
        at=utc_now(),
        body=content,
        traceparent=owner.traceparent if isinstance(owner, Job) else None,
    )
    return WebhookRequest(url_for(owner, webhook), as_bytes(headers), content)


def message_id(event: DueEvent) -> str:
    """The same for all tries of an end; each word on progress is a message of its own."""
    delivery = event.delivery
    if delivery.event != "progress":
        return delivery.delivery_id
    return f"{delivery.delivery_id}-{delivery.tried + 1}"


def url_for(owner: Job | Batch, webhook: Webhook) -> str:
    return webhook.url.replace("{jobId}", quote(client_id(owner, webhook), safe=""))


#: An answer is its status. So much of the rest is read, that the connection can be used again.
MAX_ANSWER_BYTES = 64 * 1024
READ_SECONDS = 1.0

GONE = 410
#: With these a receiver may say when it wants to be asked again.
THROTTLING = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Answer:
    tried: DeliveryAttempt
    retry_after: timedelta | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the endpoint works, whatever it thinks of this request."""
        return self.tried.status is not None and self.tried.status < 500


async def post(
    client: httpx.AsyncClient,
    network: Network,
    letter: WebhookRequest,
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
    return Answer(
        DeliveryAttempt(at=at, status=status, error=error, duration_ms=duration), retry_after
    )


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
