"""How long a server asks to be left alone: the header `Retry-After`."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 10**9


def read_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """RFC 9110: seconds, or the time when to come back. None for whatever else is there."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        # Not all of it: Python refuses to read a number of thousands of digits.
        return timedelta(seconds=min(int(text[:12]), LONGEST_SECONDS))
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max((at if at.tzinfo else at.replace(tzinfo=UTC)) - now, timedelta(0))
