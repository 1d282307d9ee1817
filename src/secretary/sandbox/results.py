"""What came out of a call, read from the frame that ended it."""

import pickle
from typing import Any

from . import frames
from .calls import Call
from .failures import RemoteError, out_of_memory, too_large


def result(call: Call, kind: int, payload: bytes) -> Any:
    match kind:
        case frames.RETURNED:
            return pickle.loads(payload)  # nosec B301  # from a process of ours, on a socket of ours
        case frames.TOO_LARGE:
            raise too_large(call, pickle.loads(payload))  # nosec B301  # from a process of ours, on a socket of ours
        case frames.OUT_OF_MEMORY:
            raise out_of_memory(call)
        case _:
            raise _raised(payload)


def _raised(payload: bytes) -> Exception:
    kind, remote_traceback, pickled = pickle.loads(payload)  # nosec B301  # as above
    error = (pickled and _unpickled(pickled)) or RemoteError(kind)
    error.__dict__["remote_traceback"] = remote_traceback
    # Whoever logs the error logs its origin; a note is no part of its message.
    error.add_note(f"In the sandbox process:\n{remote_traceback}")
    return error


def _unpickled(pickled: bytes) -> Exception | None:
    try:
        error = pickle.loads(pickled)  # nosec B301  # as above
    except Exception:  # its type may exist in the child only, or do anything when it is made
        return None
    return error if isinstance(error, Exception) else None
