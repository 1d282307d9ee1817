"""The headers of an event, its signature among them (Standard Webhooks 1.0)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime

from ..job import Webhook
from ..version import __version__

PREFIX = "whsec_"

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


def signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """One signature for each secret: while a client changes its secret, it may name both."""
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return " ".join(f"v1,{_mac(key, signed)}" for key in keys_of(secret))


def keys_of(secret: str) -> list[bytes]:
    """The keys of `whsec_…`, or of several, with spaces between them. Anything else is a key as
    it stands."""
    try:
        return [_decoded(part) for part in secret.split()]
    except ValueError:
        return [secret.encode()]


def _decoded(text: str) -> bytes:
    encoded = text.removeprefix(PREFIX)
    if encoded == text or not encoded:
        raise ValueError("It has not the form whsec_…")
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError("It is not base64") from error


def _mac(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def as_bytes(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as they go over the wire: a client may have put any text into its own."""
    return [(name.encode(), value.strip().encode()) for name, value in headers.items()]
