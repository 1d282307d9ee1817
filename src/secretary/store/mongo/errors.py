"""What MongoDB's driver says went wrong, in a sentence an operator can act on."""

from urllib.parse import urlsplit

from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    DocumentTooLarge,
    ExecutionTimeout,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    WTimeoutError,
)
from pymongo.uri_parser import parse_uri

from ...errors import StoreUnavailable

NOT_ALLOWED = (13, 18)  # Unauthorized, AuthenticationFailed
DISK_FULL = 14031


def address_of(url: str) -> str:
    """The hosts that a URL names, never its user or password."""
    if url.startswith("mongodb+srv:"):
        return urlsplit(url).hostname or "an unnamed host"
    nodes: list[tuple[str, int | None]] = parse_uri(url)["nodelist"]
    return ",".join(host if port is None else f"{host}:{port}" for host, port in nodes)


def unavailable_error(error: PyMongoError, address: str) -> StoreUnavailable:
    match error:
        case WTimeoutError() | ExecutionTimeout() | NetworkTimeout():
            text = "it did not answer in time"
        case NotPrimaryError():
            text = "it has no primary now"
        case ConnectionFailure():
            text = "it does not answer (does it run, is its address right, may we reach it?)"
        case OperationFailure(code=code) if code in NOT_ALLOWED:
            text = "it refuses the user or password, or the user may not do this"
        case OperationFailure(code=code) if code == DISK_FULL:
            text = "there is no space left on its disk"
        case BulkWriteError(details={"writeErrors": [{"errmsg": str(reason)}, *_]}):
            text = reason
        case BulkWriteError():
            text = "it did not confirm in time what was written"
        case OperationFailure(details={"errmsg": str(reason)}):
            text = reason
        case DocumentTooLarge():
            text = "a document is larger than it takes"
        case _:
            text = f"{type(error).__name__}: {error}"
    return StoreUnavailable(f"The MongoDB at {address} cannot be used: {text}")
