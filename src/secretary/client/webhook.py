"""The events that the service sends to a webhook: verified, then read."""

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


class Headers(Protocol):
    """The headers of a request, as any framework has them."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class WebhookEvent(ServiceModel):
    #: `webhook-id`: the same for all tries and replays. Note it to notice what comes twice.
    id: str
    sent_at: datetime
    phase: str
    status: str
    message: str = ""
    job_id: str | None = None
    job_type: str = ""
    batch_id: str | None = None
    #: Your own id of the job if you gave one, else the job's or batch's.
    client_id: str | None = Field(default=None, alias="jobId")
    progress: Progress | None = None
    percent: int = 0
    data: dict[str, Any] | None = None
    results: Results | None = None
    error: ErrorDocument | None = None

    @property
    def raw(self) -> dict[str, Any]:
        told = super().raw
        return {name: value for name, value in told.items() if name not in ("id", "sent_at")}


def verify_webhook(
    body: bytes, headers: Headers, secret: str, *, tolerance: float = 300.0
) -> WebhookEvent:
    """The event in a request, whose body must be as it came. `WebhookRefused` unless it was signed
    with this secret (or one of several with spaces between them) within the last `tolerance`
    seconds."""
    if not secret.strip():
        raise ValueError("Without a secret nothing can be verified")
    given = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp, signatures = (
        given.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
    )
    if not (message_id and timestamp and signatures):
        raise WebhookRefused("The request has not all of webhook-id, -timestamp and -signature")
    if not (message_id + signatures).isascii():  # some frameworks give bytes as half characters
        raise WebhookRefused("The webhook-id or the webhook-signature is none of ours")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 12):
        raise WebhookRefused("The webhook-timestamp is no time")
    if abs(time.time() - int(timestamp)) > tolerance:
        raise WebhookRefused("The event is too old, or from the future")
    if not _is_among(webhook_signature(secret, message_id, timestamp, body), signatures):
        raise WebhookRefused("The signature is wrong")
    return _read(body, message_id, int(timestamp))


def _is_among(expected: str, signatures: str) -> bool:
    """All are compared with all, so that the time tells nothing about them."""
    pairs = [(right, each) for right in expected.split() for each in signatures.split()]
    found = [hmac.compare_digest(right.encode(), each.encode()) for right, each in pairs]
    return any(found)


def _read(body: bytes, message_id: str, timestamp: int) -> WebhookEvent:
    try:
        document = json.loads(body)
        sent_at = datetime.fromtimestamp(timestamp, UTC)
        return WebhookEvent.model_validate({**document, "id": message_id, "sent_at": sent_at})
    except (ValueError, TypeError, RecursionError, ValidationError) as error:
        raise WebhookRefused("The body is no event of the service") from error
