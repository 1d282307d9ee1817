"""How much a worker may write into a job's document, so that it stays below 16 kB however long and
often it does: what is longer is shortened or lies elsewhere (contents.py). What a client gives is
stored as it is."""

from typing import Any

import bson

from .schema import Document

#: Of texts and details, in bytes.
MAX_MESSAGE_BYTES = 500
MAX_DETAILS_BYTES = 1_500
#: The same for attempts and tries that are history.
MAX_PAST_BYTES = 100


def stored_bytes(value: Any) -> int:
    return len(bson.encode({"": value}))


def shortened(text: str, most: int) -> str:
    """The text, or as much of it as has so many bytes."""
    data = text.encode(errors="surrogatepass")
    if len(data) <= most:
        return text
    return data[: most - 3].decode(errors="ignore") + "…"


def bounded(details: Any, most: int) -> Any:
    """The details of an error, or how long they were."""
    if details is None or (size := stored_bytes(details)) <= most:
        return details
    return {"left_out_bytes": size}


def past_error(stored: Document | None) -> Document | None:
    """What is kept of the error of an attempt that is history."""
    if stored is None:
        return None
    kept = {"code": stored["code"], "message": shortened(stored["message"], MAX_PAST_BYTES)}
    details = bounded(stored.get("details"), MAX_PAST_BYTES)
    return kept if details is None else kept | {"details": details}
