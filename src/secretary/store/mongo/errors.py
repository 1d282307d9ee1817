"""What MongoDB's driver says went wrong, in a sentence an operator can act on."""

from collections.abc import Iterator
from contextlib import contextmanager

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

from ...errors import StoreUnavailable
from .calls import cancellable

NOT_ALLOWED = (13, 18)  # Unauthorized, AuthenticationFailed
DISK_FULL = 14031


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Every error of the driver becomes one of ours, and none tells a password."""
    try:
        with cancellable():
            yield
    except PyMongoError as error:
        # An error of many writes carries all they wrote, which no log should show.
        cause = None if isinstance(error, BulkWriteError) else error
        raise _unavailable(error, address) from cause


def _unavailable(error: PyMongoError, address: str) -> StoreUnavailable:
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
