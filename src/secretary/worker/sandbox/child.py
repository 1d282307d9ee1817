"""One sandbox process, as the worker sees it: its calls, their limits, and how they can end."""

import asyncio
import logging
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from ...core import processes
from ...core.errors import (
    FileTooLarge,
    OutOfMemory,
    ProcessingTimeout,
    SecretaryError,
    WorkerCrashed,
)
from . import child_main
from .child_main import ALLOWED, HEADER, USAGE

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


#: How long a killed process may take to disappear.
KILL_TIMEOUT = 5


@dataclass(frozen=True, slots=True)
class Exit:
    #: As in `subprocess`: negative for a signal; None if someone else has reaped the process.
    code: int | None
    cpu_seconds: float


async def exit_of(pid: int) -> Exit:
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        while (exit := reap(pid)) is None:
            await asyncio.sleep(0.02)
        return exit
    await _readable(descriptor)
    return reap(pid) or Exit(None, 0.0)


def reap(pid: int) -> Exit | None:
    try:
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return Exit(None, 0.0)
    if not reaped:
        return None
    return Exit(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(descriptor, readable.set_result, None)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


_TAIL_BYTES = 2048


class Output:
    """Drains what a process prints, so that it never blocks, and keeps only the end of it."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._tail = b""

    def open(self) -> int:
        """Returns the descriptor for the process to write to."""
        self._descriptor, writing = os.pipe()
        os.set_blocking(self._descriptor, False)
        asyncio.get_running_loop().add_reader(self._descriptor, self._follow)
        return writing

    @property
    def tail(self) -> str:
        return self._tail.decode(errors="replace")

    def forget(self) -> None:
        self._read()
        self._tail = b""

    def close(self) -> None:
        self._read()
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _follow(self) -> None:
        if not self._read():
            self.close()

    def _read(self) -> bool:
        """Returns whether more may follow."""
        if self._descriptor is None:
            return False
        try:
            data = os.read(self._descriptor, 65536)  # as much as a pipe holds
        except BlockingIOError:
            return True
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        return data != b""


logger = logging.getLogger(__name__)

_CANCEL_GRACE = 0.3
_START_TIMEOUT = 120
_READ_BYTES = 65536
#: There is a process per core already: numeric libraries must not start threads in each of them,
#: unless the operator says so.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
#: Room in a frame beside the result: resource usage, or an error's type and traceback.
_FRAME_SLACK = MIB


class Child(asyncio.BufferedProtocol):
    """Frames over a socket, output through a pipe, and the exit status."""

    exit: asyncio.Task[Exit]
    _transport: asyncio.Transport

    def __init__(self, token: str) -> None:
        self.pid = 0
        self.calls = 0
        self.call: Call | None = None
        self.is_clean = True
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] | None = None
        self._death: asyncio.Task[None] | None = None
        self._was_killed = False
        self._output = Output()
        self._buffer = bytearray()
        self._incoming = memoryview(bytearray(_READ_BYTES))
        self._cpu_seconds = 0.0
        self._warm_bytes = 0
        self._peak_bytes = 0
        self._seen: dict[int, int] = {}

    @property
    def is_alive(self) -> bool:
        return self.pid != 0 and not self.exit.done()

    @property
    def is_usable(self) -> bool:
        return self.is_alive and not self._transport.is_closing()

    async def start(self, preload: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Start the process; returns whether it came up and imported its modules."""
        try:
            with await self._connect() as theirs:
                self._spawn(_program(preload), environment, theirs)
        except OSError:
            logger.exception("Could not spawn a sandbox process")
            return False
        events: list[asyncio.Future[Any]] = [self._ready, self.exit]
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(events, timeout=_START_TIMEOUT, return_when=first)
        return self._ready.done() and not self._ready.cancelled()

    async def _connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        await self._loop.create_unix_connection(lambda: self, sock=ours)
        return theirs

    def _spawn(self, program: str, environment: Mapping[str, str], theirs: socket.socket) -> None:
        output = self._output.open()
        try:
            self.pid = processes.spawn(
                ["-c", program],
                {**_ONE_THREAD, **environment, processes.SANDBOX_VARIABLE: self._token},
                [None, output, output, theirs.fileno()],
            )
        finally:
            os.close(output)
        self.exit = asyncio.create_task(exit_of(self.pid))
        self.exit.add_done_callback(self._on_exit)

    def begin(
        self, request: bytes, limits: Limits, on_message: Callable[[Any], None] | None
    ) -> Call:
        call = self.call = Call(limits, on_message, self._loop.create_future())
        self.calls += 1
        self._seen.clear()
        self._output.forget()
        if limits.wall_time is not None:
            seconds = limits.wall_time.total_seconds()
            call.timer = self._loop.call_later(seconds, self._time_out, seconds)
        allowed = ALLOWED.pack(limits.memory_bytes or 0, limits.output_bytes)
        self._send(child_main.CALL, allowed + request)
        return call

    def breach(self, error: BaseException, *, immediately: bool) -> None:
        if self.call is not None:
            self.call.settle(Breached(error, immediately))

    def abandon(self, error: BaseException) -> None:
        self._ready.cancel()
        self.breach(error, immediately=True)

    async def stop(self, grace: float) -> bool:
        """Cancel the call, then terminate it; true if it cooperated and the child can be reused."""
        if self.call is None or not self.is_usable:
            return self.call is None and self.is_clean
        self._over = self._loop.create_future()
        self._send(child_main.CANCEL, b"")
        await asyncio.wait([self._over], timeout=_CANCEL_GRACE)
        if self.call is not None and self.is_usable:
            processes.signal_tree(self.pid, signal.SIGTERM)
            await asyncio.wait([self._over], timeout=grace)
            return False
        return self.call is None and self.is_clean

    async def leave(self, grace: float) -> None:
        self._transport.close()
        await asyncio.wait([self.exit], timeout=grace)
        await self.kill()

    async def kill(self) -> None:
        """Returns once the child and its descendants are gone."""
        if self._death is None:
            self._death = asyncio.create_task(self._kill())
        await asyncio.shield(self._death)

    async def _kill(self) -> None:
        if self.is_alive and self._transport.is_closing():
            # It is exiting already; killing it now would hide its exit status.
            await asyncio.wait([self.exit], timeout=0.2)
        killed: set[int] = set()
        if self.is_alive:
            self._was_killed = True
            killed = self._remember(processes.kill_tree(self.pid))
            await asyncio.wait([self.exit], timeout=KILL_TIMEOUT)
        await self._sweep(killed)
        if self.pid:
            self._transport.abort()
        self._output.close()

    async def _sweep(self, killed: set[int]) -> None:
        """Kill descendants that outlive the child, found by their token or by earlier samples."""
        deadline = self._loop.time() + KILL_TIMEOUT
        while survivors := self._survivors():
            if self._loop.time() > deadline:
                logger.error("Could not kill processes %s of a sandbox", sorted(survivors))
                return
            for pid in survivors - killed:
                killed |= self._remember(processes.kill_tree(pid))
            await asyncio.sleep(0.01)
        for pid in self._seen:
            # Where the worker is a container's init, orphans become its children.
            reap(pid)

    def _survivors(self) -> set[int]:
        seen = {pid for pid, started in self._seen.items() if processes.is_alive(pid, started)}
        return seen | {process.pid for process in processes.processes_with_token(self._token)}

    def sample(self) -> None:
        call = self.call
        if call is None:
            return
        tree = processes.tree(self.pid)
        self._remember(tree)
        call.peak_bytes = max(call.peak_bytes, sum(process.rss_bytes for process in tree))
        # Killed at once: what grows this fast must not get a grace period.
        if len(tree) > call.limits.processes:
            self.breach(too_many_processes(call), immediately=True)
        elif call.limits.memory_bytes is not None and call.peak_bytes > call.limits.memory_bytes:
            self.breach(out_of_memory(call), immediately=True)

    def has_grown_by(self, size: int) -> bool:
        # The peak of the last call is an upper bound that costs nothing to check.
        if self._peak_bytes - self._warm_bytes <= size:
            return False
        process = processes.find(self.pid)
        return process is not None and process.rss_bytes - self._warm_bytes > size

    def crash(self, call: Call) -> WorkerCrashed:
        is_known = self.exit.done() and not self._was_killed
        error = crashed(call, self.exit.result().code if is_known else None)
        logger.warning("%s Pid %d, last output: %s", error.message, self.pid, self.tail)
        return error

    @property
    def tail(self) -> str:
        return self._output.tail

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._die()

    def get_buffer(self, sizehint: int) -> memoryview:
        # Reused: asyncio would allocate 256 KiB for each read.
        return self._incoming

    def buffer_updated(self, nbytes: int) -> None:
        buffer = self._buffer
        buffer += self._incoming[:nbytes]
        start = 0
        while len(buffer) - start >= HEADER.size:
            kind, size = HEADER.unpack_from(buffer, start)
            body = start + HEADER.size
            if size > _FRAME_SLACK + (self.call.limits.output_bytes if self.call else 0):
                self._reject_frame(size)
                return
            if len(buffer) < body + size:
                break
            start = body + size
            self._take_frame(kind, bytes(memoryview(buffer)[body:start]))
        del buffer[:start]

    def _take_frame(self, kind: int, body: bytes) -> None:
        match kind:
            case child_main.MESSAGE:
                self._take_message(body)
            case child_main.READY:
                self._cpu_seconds, self._warm_bytes, _ = USAGE.unpack(body)
                if not self._ready.done():
                    self._ready.set_result(None)
            case _ if self.call is not None:
                self._take_end(self.call, kind, body)

    def _take_message(self, body: bytes) -> None:
        call = self.call
        if call is None or call.on_message is None or call.outcome.done():
            return
        try:
            call.on_message(pickle.loads(body))  # nosec B301  # from a process of ours, on a socket of ours
        except Exception as error:  # the caller's callback failed: raise that from `run`
            self.breach(error, immediately=False)

    def _take_end(self, call: Call, kind: int, body: bytes) -> None:
        cpu_seconds, self._peak_bytes, self.is_clean = USAGE.unpack_from(body)
        call.cpu_seconds = cpu_seconds - self._cpu_seconds
        call.peak_bytes = max(call.peak_bytes, self._peak_bytes)
        self._cpu_seconds = cpu_seconds
        self.call = None
        call.settle(Ended(kind, body[USAGE.size :]))
        self._stopped()

    def _time_out(self, seconds: float) -> None:
        self.breach(out_of_time(seconds), immediately=False)

    def _reject_frame(self, size: int) -> None:
        # Only a corrupted child gets here: it checks the size of what it sends.
        self._transport.pause_reading()
        if self.call is not None:
            self.breach(too_large(self.call, size), immediately=True)
        else:
            self._transport.abort()

    def _on_exit(self, exit: asyncio.Task[Exit]) -> None:
        if self.call is not None and not exit.cancelled():
            self.call.cpu_seconds = exit.result().cpu_seconds - self._cpu_seconds
        self._die()

    def _die(self) -> None:
        if self.call is not None:
            self.call.settle(Died())
        self._stopped()

    def _stopped(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _remember(self, tree: list[processes.Process]) -> set[int]:
        self._seen.update((process.pid, process.started) for process in tree)
        return {process.pid for process in tree}

    def _send(self, kind: int, body: bytes) -> None:
        self._transport.write(HEADER.pack(kind, len(body)) + body)


def _program(preload: Sequence[str]) -> str:
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return (
        f"import sys; sys.path[:] = {path!r}; "
        f"from secretary.worker.sandbox.child_main import main; main({tuple(preload)!r})"
    )
