"""Webhook events: verify the signature, then parse the event."""

import hmac
import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic import Field, ValidationError

from ..core.http_headers import webhook_signature
from .errors import WebhookRefused
from .models import ErrorDocument, Progress, Results, ServiceModel

#: Fields of an event that come from headers instead of the body.
HEADER_FIELDS = ("id", "sent_at")


class Headers(Protocol):
    """The request headers of any web framework."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class WebhookEvent(ServiceModel):
    #: The `webhook-id` header: the same for retries and replays. Use it to detect duplicates.
    id: str
    sent_at: datetime
    phase: str
    status: str
    message: str = ""
    job_id: str | None = None
    job_type: str = ""
    batch_id: str | None = None
    #: Your own id of the job if you set one, else the id of the job or batch.
    client_id: str | None = Field(default=None, alias="jobId")
    progress: Progress | None = None
    percent: int = 0
    data: dict[str, Any] | None = None
    results: Results | None = None
    error: ErrorDocument | None = None

    @property
    def raw(self) -> dict[str, Any]:
        return {name: value for name, value in super().raw.items() if name not in HEADER_FIELDS}


def verify_webhook(
    body: bytes, headers: Headers, secret: str, *, tolerance: float = 300.0
) -> WebhookEvent:
    """Verify a request and return its event. `body` must be the raw request body.

    Raise `WebhookRefused` unless it was signed with `secret` within the last `tolerance` seconds.
    Several secrets may be separated by spaces."""
    if not secret.strip():
        raise ValueError("The secret is empty")
    given = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp, signatures = (
        given.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
    )
    if not (message_id and timestamp and signatures):
        raise WebhookRefused("A webhook-id, -timestamp or -signature header is missing")
    if not (message_id + signatures).isascii():  # some frameworks decode bytes to surrogates
        raise WebhookRefused("The webhook-id or webhook-signature header is invalid")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 12):
        raise WebhookRefused("The webhook-timestamp header is invalid")
    if abs(time.time() - int(timestamp)) > tolerance:
        raise WebhookRefused("The timestamp is too old or in the future")
    # Compare all pairs, so that the time taken reveals nothing about them.
    matches = [
        hmac.compare_digest(expected.encode(), signature.encode())
        for expected in webhook_signature(secret, message_id, timestamp, body).split()
        for signature in signatures.split()
    ]
    if not any(matches):
        raise WebhookRefused("The signature does not match")
    try:
        document = json.loads(body)
        sent_at = datetime.fromtimestamp(int(timestamp), UTC)
        return WebhookEvent.model_validate({**document, "id": message_id, "sent_at": sent_at})
    except (ValueError, TypeError, RecursionError, ValidationError) as error:
        raise WebhookRefused("The body is not an event of the service") from error
