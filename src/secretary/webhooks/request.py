"""Builds the request for one webhook event (payload, headers, signature) and sends it."""

import asyncio
import base64
import json
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

#: Batch fields left out of the payload: internal, or still changing after the batch has ended.
INTERNAL_BATCH_FIELDS = frozenset(
    {"updated_at", "archived", "isActive", "access_control", "webhook", "deliveries"}
)


def phase_of(owner: Job | Batch) -> Phase:
    match owner.status:
        case JobStatus.COMPLETED:
            return "completed"
        case JobStatus.FAILED | JobStatus.CANCELLED:
            return "error"
        case JobStatus.PENDING:
            return "queued"
        case JobStatus.PROCESSING:
            is_last_step = isinstance(owner, Job) and owner.progress.step == "postprocessing"
            return "postprocessing" if is_last_step else "running"


def body(owner: Job | Batch, webhook: Webhook, *, archive: bytes | None = None) -> bytes:
    """The JSON body of an event."""
    payload = (
        job_payload(owner, webhook, archive=archive)
        if isinstance(owner, Job)
        else batch_payload(owner, webhook)
    )
    if webhook.token_in_body and webhook.token:
        payload["callback_token"] = webhook.token
    return encode_in_parts(payload, encode_strict_json)


def client_id(owner: Job | Batch, webhook: Webhook) -> str:
    """The client's own id for the job or batch if it sent one, else ours."""
    return webhook.job_id or (owner.job_id if isinstance(owner, Job) else owner.batch_id)


def job_payload(job: Job, webhook: Webhook, *, archive: bytes | None = None) -> dict[str, Any]:
    phase = phase_of(job)
    client_job_id = client_id(job, webhook)
    results = job.public_results
    # The error of an attempt that will be retried is not the job's outcome.
    error = job.error if phase == "error" else None
    data: dict[str, Any] | None = {"progress": job.progress.percent}
    if ended := job.status in FINAL_STATUSES:
        outcome = event_payload(job)
        data = None if outcome is None else _selected_results(outcome, webhook)
        if data is not None and archive is not None:
            data["archive_data"] = base64.b64encode(archive).decode()
            data["archive_filename"] = (job.results or {}).get("archive_filename")
    return {
        "schema_version": SCHEMA_VERSION,
        "worker": WORKER,
        "phase": phase,
        "status": phase if ended else "processing",
        "message": error.message if error else job.progress.message or phase,
        "job_id": job.job_id,
        "job_type": job.job_type,
        "jobId": client_job_id,
        "job": {"id": client_job_id},
        "process": {
            "id": job.reported_id,
            "main_processor": job.job_type,
            "started": iso(job.processing_started_at or job.created_at),
            "is_from_cache": bool(results.get("is_from_cache")),
        },
        "progress": job.progress.model_dump(),
        "percent": job.progress.percent,
        "data": data,
        "results": _selected_results(results, webhook) if phase == "completed" else None,
        "error": error.model_dump(mode="json") if error else None,
    }


def _selected_results(results: dict[str, Any], webhook: Webhook) -> dict[str, Any]:
    """The results without the parts the webhook excludes."""
    excluded = set() if webhook.include_markdown else {"markdown_content", "markdown_file"}
    if not webhook.include_metadata:
        excluded.add("metadata")
    return {key: value for key, value in results.items() if key not in excluded}


def batch_payload(batch: Batch, webhook: Webhook) -> dict[str, Any]:
    phase = phase_of(batch)
    client_job_id = client_id(batch, webhook)
    document = {
        key: value for key, value in batch.document().items() if key not in INTERNAL_BATCH_FIELDS
    }
    message = f"{document['completed_jobs']} of {batch.total_jobs} jobs completed"
    error = {"code": "BATCH_FAILED", "message": "None of the jobs completed", "details": None}
    return {
        "schema_version": SCHEMA_VERSION,
        "worker": WORKER,
        "phase": phase,
        "status": phase,
        "message": message,
        "job_id": None,
        "batch_id": batch.batch_id,
        "job_type": "batch",
        "jobId": client_job_id,
        "job": {"id": client_job_id},
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
        "error": error if phase == "error" else None,
    }


MAX_ARCHIVE_BYTES = 5 * 1024 * 1024


async def read_archive(files: JobFiles, job: Job) -> bytes | None:
    """The job's result archive; None if there is none or it is too large to inline."""
    try:
        archive = await files.archive(job)
        return await files.read(archive) if archive.size < MAX_ARCHIVE_BYTES else None
    except NotFound:
        return None


#: Headers a client cannot override: that would break the request or forge its signature.
RESERVED_HEADERS = frozenset(
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
        if name.lower() not in RESERVED_HEADERS
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


def encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Encode the headers as UTF-8: clients may use any text in their own headers."""
    return [(name.encode(), value.strip().encode()) for name, value in headers.items()]


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    url: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


async def build_request(
    event: DueEvent, owner: Job | Batch, webhook: Webhook, files: JobFiles
) -> WebhookRequest:
    archive = None
    if isinstance(owner, Job):
        if webhook.include_archive:  # first: the stored results name the files to pack
            archive = await read_archive(files, owner)
        owner = await files.load_results(owner)
    # In threads: results can be tens of megabytes.
    content = await asyncio.to_thread(body, owner, webhook, archive=archive)
    message_id = event.delivery.delivery_id
    if event.delivery.event == "progress":  # only retries of a final event share one id
        message_id += f"-{event.delivery.tried + 1}"
    headers = await asyncio.to_thread(
        headers_for,
        webhook,
        message_id=message_id,
        at=utc_now(),
        body=content,
        traceparent=owner.traceparent if isinstance(owner, Job) else None,
    )
    url = webhook.url.replace("{jobId}", quote(client_id(owner, webhook), safe=""))
    return WebhookRequest(url, encode_headers(headers), content)


#: This much of the body is read: it may say that the receiver has processed the event.
MAX_RESPONSE_BYTES = 64 * 1024
RESPONSE_READ_TIMEOUT = 1.0

GONE = 410
#: Statuses whose `Retry-After` header is honoured.
THROTTLING_STATUSES = frozenset({429, 503})
NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout)
#: Errors before the receiver had the whole request.
NOT_SENT = (*NOT_CONNECTED, httpx.PoolTimeout, httpx.WriteError, httpx.WriteTimeout)


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    attempt: DeliveryAttempt
    retry_after: timedelta | None = None
    #: Whether a connection to the host was made.
    connected: bool = True
    #: Whether the receiver may have the whole request.
    sent: bool = False
    #: It has processed the event, but its own work failed: sending it again would not help.
    processed: bool = False


async def post(
    client: httpx.AsyncClient, network: Network, request: WebhookRequest, *, limit: timedelta
) -> DeliveryResult:
    """Send the request. Never raises; recorded errors are generic, because library errors may
    quote the request."""
    at, started = utc_now(), time.perf_counter()
    status = error = retry_after = None
    connected, sent, answer = True, True, b""
    try:
        network.check(request.url, https_only=True)
        async with asyncio.timeout(limit.total_seconds()):
            outgoing = client.build_request(
                "POST", request.url, headers=request.headers, content=request.body
            )
            response = await client.send(outgoing, stream=True, follow_redirects=False)
        status = response.status_code
        if status in THROTTLING_STATUSES:
            retry_after = read_retry_after(response.headers.get("retry-after"), at)
        answer = await _read(response)
    except (TimeoutError, httpx.TimeoutException) as problem:
        error, sent = "timed out", not isinstance(problem, NOT_SENT)
        connected = not isinstance(problem, NOT_CONNECTED)
    except AddressRefused:
        error, sent = "address not allowed", False
    except httpx.ConnectError:
        error, connected, sent = "connection failed", False, False
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        error = f"request failed ({type(problem).__name__})"
        sent = not isinstance(problem, (*NOT_SENT, httpx.InvalidURL))
    duration = round((time.perf_counter() - started) * 1000)
    processed = status is not None and status >= 400 and _says_processed(answer)
    if processed:
        error = "the receiver processed the event and failed"
    attempt = DeliveryAttempt(at=at, status=status, error=error, duration_ms=duration)
    return DeliveryResult(attempt, retry_after, connected, sent, processed)


async def _read(response: httpx.Response) -> bytes:
    """The beginning of the body, as far as it arrives at once."""
    content = b""
    try:
        with suppress(TimeoutError, httpx.HTTPError):
            async with asyncio.timeout(RESPONSE_READ_TIMEOUT):
                async for part in response.aiter_raw():
                    content += part
                    if len(content) > MAX_RESPONSE_BYTES:
                        break
    finally:
        await response.aclose()
    return content


def _says_processed(answer: bytes) -> bool:
    """Receivers that process an event before they respond to it return how that went as `kind`:
    `{"status": "error", "kind": "failed_ingestion"}`."""
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    kind = document.get("kind") if isinstance(document, dict) else None
    return isinstance(kind, str) and kind.startswith("failed")
