"""A call in a sandbox process: its limits, and the ways in which it can end."""

import asyncio
import pickle
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ...core.errors import (
    FileTooLarge,
    OutOfMemory,
    ProcessingTimeout,
    SecretaryError,
    WorkerCrashed,
)
from . import child_main

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one call. Waiting for a free process does not count."""

    wall_time: timedelta | None = None
    #: Resident memory of the process and its descendants.
    memory_bytes: int | None = 2048 * MIB
    #: Size of the pickled result, and of any one message.
    output_bytes: int = 64 * MIB
    #: How many processes may exist at a time; stops fork bombs.
    processes: int = 256


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Ended:
    kind: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Breached:
    error: BaseException
    immediately: bool


@dataclass(frozen=True, slots=True)
class Died:
    pass


Outcome = Ended | Breached | Died


@dataclass(slots=True, eq=False)
class Call:
    limits: Limits
    on_message: Callable[[Any], None] | None
    outcome: asyncio.Future[Outcome]
    timer: asyncio.TimerHandle | None = None
    cpu_seconds: float = 0.0
    peak_bytes: int = 0

    def settle(self, outcome: Outcome) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class RemoteError(SecretaryError):
    """An exception that could not be pickled; the message is the name of its type.

    Every exception from a sandbox has a `remote_traceback`: for the log, not for clients.
    """

    def __init__(self, kind: str, remote_traceback: str = "") -> None:
        super().__init__(kind)
        self.remote_traceback = remote_traceback


class SandboxInterrupted(SecretaryError):
    """The call was ended because this process had been suspended; it may be retried."""


class SandboxClosed(SecretaryError):
    """The sandbox was closed, or never opened, so the call did not finish."""


def too_large(call: Call, size: int) -> FileTooLarge:
    limit = call.limits.output_bytes
    return FileTooLarge(
        f"The result exceeds the limit of {_in_words(limit)}.",
        limit_bytes=limit,
        size_bytes=size,
    )


def out_of_memory(call: Call) -> OutOfMemory:
    limit = call.limits.memory_bytes
    if limit is None:
        return OutOfMemory("The work ran out of memory.", peak_bytes=call.peak_bytes)
    return OutOfMemory(
        f"The work exceeded its memory limit of {_in_words(limit)}.",
        limit_bytes=limit,
        peak_bytes=call.peak_bytes,
    )


def too_many_processes(call: Call) -> WorkerCrashed:
    limit = call.limits.processes
    return WorkerCrashed(f"The work started more than {limit} processes.", limit_processes=limit)


def out_of_time(seconds: float) -> ProcessingTimeout:
    message = f"The work exceeded its time limit of {seconds:g} seconds."
    return ProcessingTimeout(message, limit_seconds=seconds)


def crashed(call: Call, code: int | None) -> WorkerCrashed:
    """The error for a process with this exit code; None if unknown, or if we killed it."""
    evidence: dict[str, Any] = {"peak_bytes": call.peak_bytes}
    if code is None:
        message = "The worker process stopped responding."
    elif code >= 0:
        message = f"The worker process exited with code {code}."
        evidence["exit_code"] = code
    else:
        evidence["signal"] = _signal_name(-code)
        message = f"The worker process was killed by {evidence['signal']}."
        if code == -signal.SIGKILL:
            message += " The system may be out of memory."
    return WorkerCrashed(message, **evidence)


def _in_words(size: int) -> str:
    for unit, bytes_each in (("GiB", 1024 * MIB), ("MiB", MIB), ("KiB", 1024)):
        if size >= bytes_each:
            return f"{size / bytes_each:.4g} {unit}"
    return f"{size} bytes"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def result(call: Call, kind: int, payload: bytes) -> Any:
    match kind:
        case child_main.RETURNED:
            return pickle.loads(payload)  # nosec B301  # from a process of ours, on a socket of ours
        case child_main.TOO_LARGE:
            raise too_large(call, pickle.loads(payload))  # nosec B301  # from a process of ours, on a socket of ours
        case child_main.OUT_OF_MEMORY:
            raise out_of_memory(call)
        case _:
            raise _raised(payload)


def _raised(payload: bytes) -> Exception:
    kind, remote_traceback, pickled = pickle.loads(payload)  # nosec B301  # as above
    error = (pickled and _unpickled(pickled)) or RemoteError(kind)
    error.__dict__["remote_traceback"] = remote_traceback
    # A note is shown when the error is logged, but is not part of its message.
    error.add_note(f"In the sandbox process:\n{remote_traceback}")
    return error


def _unpickled(pickled: bytes) -> Exception | None:
    try:
        error = pickle.loads(pickled)  # nosec B301  # as above
    except Exception:  # its type may exist only in the child, or fail to unpickle
        return None
    return error if isinstance(error, Exception) else None
