"""The headers of an event, its signature among them."""

from collections.abc import Mapping
from datetime import datetime

from ..job import Webhook
from ..signatures import signature
from ..version import __version__

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
        headers["webhook-signature"] = signature(webhook.secret, message_id, timestamp, body)
    return headers


def as_bytes(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as they go over the wire: a client may have put any text into its own."""
    return [(name.encode(), value.strip().encode()) for name, value in headers.items()]
