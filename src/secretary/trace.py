"""The W3C trace context of a request: which larger story it is a part of."""

import re
from collections.abc import Callable
from typing import Protocol

#: version, trace id, parent id, flags; a later version may have more behind it.
TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def read_traceparent(text: str | None) -> str | None:
    """The trace context as we pass it on; None for one that must be ignored."""
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
    """A request in a larger story that is told elsewhere; see `spans`."""

    #: Of this request itself: what it brings about is told as a part of it.
    traceparent: str

    def end(self, route: str, status: int) -> None: ...


#: Given the method and the trace context that came along.
StartSpan = Callable[[str, str | None], RequestSpan]
