"""HTTP headers: Retry-After, W3C trace context, webhook signatures."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Protocol

MAX_RETRY_AFTER_SECONDS = 10**9


def read_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """RFC 9110: seconds or a date. None for anything else."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        # Truncated: Python refuses to parse numbers of thousands of digits.
        return timedelta(seconds=min(int(text[:12]), MAX_RETRY_AFTER_SECONDS))
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max((at if at.tzinfo else at.replace(tzinfo=UTC)) - now, timedelta(0))


#: version, trace id, parent id, flags; later versions may append fields.
TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def read_traceparent(text: str | None) -> str | None:
    """The trace context to propagate; None for one that must be ignored."""
    found = TRACEPARENT.fullmatch(text.strip()) if text else None
    if found is None:
        return None
    version, trace, parent, flags, more = found.groups()
    if (
        version == "ff"
        or (version == "00" and more)
        or not (trace.strip("0") and parent.strip("0"))
    ):
        return None
    return f"00-{trace}-{parent}-{flags}"


def trace_id(traceparent: str | None) -> str | None:
    return traceparent.split("-")[1] if traceparent else None


class RequestSpan(Protocol):
    """The span of a request; see `observability.otel`."""

    #: Of this span: jobs that the request adds become its children.
    traceparent: str

    def end(self, route: str, status: int) -> None: ...


#: Called with the method and the `traceparent` header of the request.
StartSpan = Callable[[str, str | None], RequestSpan]


PREFIX = "whsec_"


def webhook_signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """One signature per secret, so that a client can rotate its secret."""
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return " ".join(f"v1,{_mac(key, signed)}" for key in signing_keys(secret))


def signing_keys(secret: str) -> list[bytes]:
    """The keys of one or several space-separated `whsec_…` secrets. Anything else is used as a key
    verbatim."""
    try:
        keys = [_decoded(part) for part in secret.split()]
    except ValueError:
        keys = []
    return keys or [secret.encode()]


def _decoded(text: str) -> bytes:
    encoded = text.removeprefix(PREFIX)
    if encoded == text or not encoded:
        raise ValueError("not of the form whsec_…")
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error


def _mac(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
