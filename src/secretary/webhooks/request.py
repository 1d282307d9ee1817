"""One request to a webhook, and what came of it."""

import asyncio
import base64
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

import httpx

from ..core.errors import AddressRefused, NotFound
from ..core.http_headers import read_retry_after, webhook_signature
from ..core.job import (
    EMPTY_RESULTS,
    FINAL_STATUSES,
    Batch,
    DeliveryAttempt,
    Job,
    JobStatus,
    Webhook,
    iso,
    utc_now,
)
from ..core.json_codec import encode_in_parts, encode_strict_json
from ..jobs.events import event_payload
from ..network.client import Network
from ..storage.artifacts import JobFiles
from ..store.outbox import DueEvent
from ..version import __version__

SCHEMA_VERSION = 1
WORKER = "secretary"

Phase = Literal["queued", "running", "postprocessing", "completed", "error"]

MARKDOWN = frozenset({"markdown_content", "markdown_file"})
METADATA = frozenset({"metadata"})

#: Fields of a batch that may change after its end, or that are no business of a receiver.
NOT_TOLD = frozenset(
    {"updated_at", "archived", "isActive", "access_control", "webhook", "deliveries"}
)


def phase_of(owner: Job | Batch) -> Phase:
    match owner.status:
        case JobStatus.COMPLETED:
            return "completed"
        case JobStatus.FAILED | JobStatus.CANCELLED:
            return "error"
        case JobStatus.PROCESSING if isinstance(owner, Batch) or not _nearly_done(owner):
            return "running"
        case JobStatus.PROCESSING:
            return "postprocessing"
        case JobStatus.PENDING:
            return "queued"


def _nearly_done(job: Job) -> bool:
    return job.progress.step == "postprocessing"


def body(owner: Job | Batch, webhook: Webhook, *, archive: bytes | None = None) -> bytes:
    """What is sent, byte by byte."""
    payload = (
        job_payload(owner, webhook, archive=archive)
        if isinstance(owner, Job)
        else batch_payload(owner, webhook)
    )
    if webhook.token_in_body and webhook.token:
        payload["callback_token"] = webhook.token
    return encode_in_parts(payload, encode_strict_json)


def client_id(owner: Job | Batch, webhook: Webhook) -> str:
    """The id by which the client knows it: its own, if it gave one."""
    return webhook.job_id or (owner.job_id if isinstance(owner, Job) else owner.batch_id)


def job_payload(job: Job, webhook: Webhook, *, archive: bytes | None = None) -> dict[str, Any]:
    phase = phase_of(job)
    own_id = client_id(job, webhook)
    ended = job.status in FINAL_STATUSES
    results = {**EMPTY_RESULTS, **(job.results or {})}
    data = _data(job, webhook, archive) if ended else {"progress": job.progress.percent}
    return {
        "schema_version": SCHEMA_VERSION,
        "worker": WORKER,
        "phase": phase,
        "status": phase if ended else "processing",
        "message": _message(job, phase),
        "job_id": job.job_id,
        "job_type": job.job_type,
        "jobId": own_id,
        "job": {"id": own_id},
        "process": {
            "id": job.job_id,
            "main_processor": job.job_type,
            "started": iso(job.processing_started_at or job.created_at),
            "is_from_cache": bool(results.get("is_from_cache")),
        },
        "progress": job.progress.model_dump(),
        "percent": job.progress.percent,
        "data": data,
        "results": _told(results, webhook) if phase == "completed" else None,
        # An error of an attempt that will be tried again is no end.
        "error": job.error.model_dump(mode="json") if job.error and phase == "error" else None,
    }


def _message(job: Job, phase: Phase) -> str:
    if phase == "error" and job.error is not None:
        return job.error.message
    return job.progress.message or phase


def _data(job: Job, webhook: Webhook, archive: bytes | None) -> dict[str, Any] | None:
    outcome = event_payload(job)
    if outcome is None:
        return None
    data = _told(outcome, webhook)
    if archive is not None:
        data["archive_data"] = base64.b64encode(archive).decode()
        data["archive_filename"] = (job.results or {}).get("archive_filename")
    return data


def _told(results: dict[str, Any], webhook: Webhook) -> dict[str, Any]:
    """The results without what the client does not want."""
    left_out: set[str] = set()
    if not webhook.include_markdown:
        left_out |= MARKDOWN
    if not webhook.include_metadata:
        left_out |= METADATA
    return {key: value for key, value in results.items() if key not in left_out}


def batch_payload(batch: Batch, webhook: Webhook) -> dict[str, Any]:
    phase = phase_of(batch)
    own_id = client_id(batch, webhook)
    document = {key: value for key, value in batch.document().items() if key not in NOT_TOLD}
    message = f"{document['completed_jobs']} of {batch.total_jobs} jobs completed"
    error = None
    if phase == "error":
        code = "BATCH_FAILED"
        error = {"code": code, "message": "None of the jobs completed", "details": None}
    return {
        "schema_version": SCHEMA_VERSION,
        "worker": WORKER,
        "phase": phase,
        "status": phase,
        "message": message,
        "job_id": None,
        "batch_id": batch.batch_id,
        "job_type": "batch",
        "jobId": own_id,
        "job": {"id": own_id},
        "process": {
            "id": batch.batch_id,
            "main_processor": "batch",
            "started": iso(batch.started_at or batch.created_at),
            "is_from_cache": False,
        },
        "progress": {"step": phase, "percent": 100, "message": message},
        "percent": 100,
        "data": document if phase == "completed" else None,
        "batch": document,
        "results": None,
        "error": error,
    }


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
