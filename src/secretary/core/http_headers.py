"""HTTP headers: Retry-After, W3C trace context, webhook signatures."""

import base64
import hashlib
import hmac
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

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
    is_valid = version != "ff" and not (version == "00" and more)
    has_ids = trace.strip("0") and parent.strip("0")
    return f"00-{trace}-{parent}-{flags}" if is_valid and has_ids else None


def trace_id(traceparent: str | None) -> str | None:
    return traceparent.split("-")[1] if traceparent else None


PREFIX = "whsec_"


def webhook_signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """One signature per secret, so that a client can rotate its secret."""
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    digests = (hmac.digest(key, signed, hashlib.sha256) for key in signing_keys(secret))
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def signing_keys(secret: str) -> list[bytes]:
    """The keys of one or several space-separated `whsec_…` secrets. Anything else is used as a key
    verbatim."""
    encoded = [part.removeprefix(PREFIX) for part in secret.split() if part.startswith(PREFIX)]
    if encoded and all(encoded) and len(encoded) == len(secret.split()):
        with suppress(ValueError):  # not base64
            return [base64.b64decode(key + "=" * (-len(key) % 4), validate=True) for key in encoded]
    return [secret.encode()]
