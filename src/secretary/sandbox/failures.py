"""What goes wrong with a call, as the errors its caller gets."""

import signal
from typing import Any

from ..errors import FileTooLarge, OutOfMemory, ProcessingTimeout, SecretaryError, WorkerCrashed
from .calls import Call
from .limits import MIB


class RemoteError(SecretaryError):
    """An error that could not leave the process it was raised in; the message is its type's name.

    Every error that comes out of a sandbox has a `remote_traceback`: for the log, not the client.
    """

    def __init__(self, kind: str, remote_traceback: str = "") -> None:
        super().__init__(kind)
        self.remote_traceback = remote_traceback


class SandboxInterrupted(SecretaryError):
    """The call was ended because this process had been stopped; it may be made again."""


class SandboxClosed(SecretaryError):
    """The sandbox was closed, or never opened, so the call did not end."""


def too_large(call: Call, size: int) -> FileTooLarge:
    limit = call.limits.output_bytes
    return FileTooLarge(
        f"The result is larger than the {_in_words(limit)} it may be.",
        limit_bytes=limit,
        size_bytes=size,
    )


def out_of_memory(call: Call) -> OutOfMemory:
    limit = call.limits.memory_bytes
    if limit is None:
        return OutOfMemory("The work needed more memory than there is.", peak_bytes=call.peak_bytes)
    return OutOfMemory(
        f"The work needed more than the {_in_words(limit)} of memory it may use.",
        limit_bytes=limit,
        peak_bytes=call.peak_bytes,
    )


def too_many_processes(call: Call) -> WorkerCrashed:
    limit = call.limits.processes
    return WorkerCrashed(f"The work started more than {limit} processes.", limit_processes=limit)


def out_of_time(seconds: float) -> ProcessingTimeout:
    message = f"The work took longer than the {seconds:g} seconds it may take."
    return ProcessingTimeout(message, limit_seconds=seconds)


def crashed(call: Call, code: int | None) -> WorkerCrashed:
    """For a process that ended with this code; None if nobody knows, or if it was killed by us."""
    evidence: dict[str, Any] = {"peak_bytes": call.peak_bytes}
    if code is None:
        message = "The process that ran the work stopped answering."
    elif code >= 0:
        message = f"The process that ran the work ended by itself with exit code {code}."
        evidence["exit_code"] = code
    else:
        evidence["signal"] = _signal_name(-code)
        message = f"The process that ran the work died of {evidence['signal']}."
        if code == -signal.SIGKILL:
            message += " The system may have run out of memory."
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
