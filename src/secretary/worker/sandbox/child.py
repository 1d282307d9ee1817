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
from typing import Any, NamedTuple, cast

from ...core import errors, processes
from . import child_main, codec
from .child_main import ALLOWED, HEADER, USAGE

logger = logging.getLogger(__name__)

MIB = 1024 * 1024

#: How long a killed process may take to disappear.
KILL_TIMEOUT = 5
_CANCEL_GRACE = 0.3
_START_TIMEOUT = 120
_READ_BYTES = 65536
#: How much of what a process prints is kept, for the log.
_TAIL_BYTES = 2048
#: There is a process per core already: numeric libraries must not start threads in each of them,
#: unless the operator says so.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
#: Bounds of what a process says it has used: other values cannot be true.
_MAX_CPU_SECONDS, _MAX_PEAK_BYTES = 1e9, 1 << 50
_MAX_IMPORTED_BYTES = 64 * 1024
#: Room in a frame beside the result: resource usage, or an error's type and traceback.
_FRAME_SLACK = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one call. Waiting for a free process does not count."""

    wall_time: timedelta | None = None
    #: Resident memory of the process and its descendants.
    memory_bytes: int | None = 2048 * MIB
    #: Size of the encoded result, and of any one message.
    output_bytes: int = 64 * MIB
    #: How many processes may exist at a time; stops fork bombs.
    processes: int = 256


DEFAULT_LIMITS = Limits()


class SandboxInterrupted(errors.SecretaryError):
    """The call was ended because this process had been suspended; it may be retried."""


class SandboxClosed(errors.SecretaryError):
    """The sandbox was closed, or never opened, so the call did not finish."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The function returned or raised."""

    kind: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Breached:
    """The call exceeded a limit, was cancelled, or its caller failed."""

    error: BaseException
    immediately: bool


#: How a call ended; None if its process died.
Outcome = Ended | Breached | None


@dataclass(slots=True, eq=False)
class Call:
    limits: Limits
    on_message: Callable[[Any], None] | None
    returns: Any
    messages: Any
    outcome: asyncio.Future[Outcome]
    timer: asyncio.TimerHandle | None = None
    cpu_seconds: float = 0.0
    peak_bytes: int = 0

    def settle(self, outcome: Outcome) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def time_out(self, seconds: float) -> None:
        message = f"The work exceeded its time limit of {seconds:g} seconds."
        error = errors.ProcessingTimeout(message, limit_seconds=seconds)
        self.settle(Breached(error, immediately=False))

    def result(self, ended: Ended) -> Any:
        """What the function returned; raises what it raised."""
        if ended.kind == child_main.OUT_OF_MEMORY:
            raise self.out_of_memory()
        if ended.kind == child_main.RETURNED:
            return codec.decode(ended.payload, self.returns)
        if ended.kind == child_main.TOO_LARGE:
            raise self.too_large(codec.decode(ended.payload, int))
        raise codec.decode_error(ended.payload)

    def too_large(self, size: int) -> errors.FileTooLarge:
        limit = self.limits.output_bytes
        message = f"The result exceeds the limit of {_in_words(limit)}."
        return errors.FileTooLarge(message, limit_bytes=limit, size_bytes=size)

    def out_of_memory(self) -> errors.OutOfMemory:
        limit = self.limits.memory_bytes
        if limit is None:
            return errors.OutOfMemory("The work ran out of memory.", peak_bytes=self.peak_bytes)
        message = f"The work exceeded its memory limit of {_in_words(limit)}."
        return errors.OutOfMemory(message, limit_bytes=limit, peak_bytes=self.peak_bytes)


def _in_words(size: int) -> str:
    for unit, bytes_each in (("GiB", 1024 * MIB), ("MiB", MIB), ("KiB", 1024)):
        if size >= bytes_each:
            return f"{size / bytes_each:.4g} {unit}"
    return f"{size} bytes"


@dataclass(frozen=True, slots=True)
class Access:
    """What the calls of one job may do. Calls with the same access share a process."""

    #: Identifies the job.
    key: str
    reads: frozenset[str] = frozenset()
    #: Directories.
    writes: frozenset[str] = frozenset()
    #: For temporary files; one of those that can be written.
    scratch: str | None = None
    has_network: bool = False
    has_sockets: bool = False
    #: With the environment of the worker: for handlers of the operator.
    has_environment: bool = False
    #: Without a fence.
    is_trusted: bool = False


class Child:
    """Frames over a socket, output through a pipe, and the exit status.

    With a fence, the process is a fork server, and its fork runs the calls of one job.
    """

    exit: "asyncio.Task[Exit]"

    def __init__(self, token: str, *, system: Sequence[str] | None = None) -> None:
        """With `system`, the paths of a fence, the process is a fork server."""
        self.pid = 0
        #: Whose calls the fork runs; None if it is a spare one.
        self.access: Access | None = None
        self._system = system
        self._control: socket.socket | None = None
        self._fork_pid = 0
        self._server_cpu_seconds = 0.0
        self._prepared: set[bytes] = set()
        self._learned: set[str] = set()
        self._channel: Channel | None = None
        self.calls = 0
        self.call: Call | None = None
        self.is_clean = True
        self.output = Output()
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] | None = None
        self._death: asyncio.Task[None] | None = None
        self._was_killed = False
        self._cpu_seconds = 0.0
        self._warm_bytes = 0
        self._peak_bytes = 0
        self._seen: dict[int, int] = {}

    @property
    def is_alive(self) -> bool:
        return self.pid != 0 and not self.exit.done()

    @property
    def is_usable(self) -> bool:
        return self.is_alive and not self._is_closing

    @property
    def _is_closing(self) -> bool:
        return self._channel is not None and self._channel.is_closing

    @property
    def _calls_pid(self) -> int:
        """The process that runs the calls."""
        return self._fork_pid or self.pid

    async def start(self, preload: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Start the process; returns whether it came up and imported its modules."""
        path = [entry for entry in sys.path if isinstance(entry, str)]
        program = (
            f"import sys; sys.path[:] = {path!r}; "
            "from secretary.worker.sandbox.child_main import main; "
            f"main({tuple(preload)!r}, system={self._system!r})"
        )
        environment = {**_ONE_THREAD, **environment, processes.SANDBOX_VARIABLE: self._token}
        is_fork_server = self._system is not None
        kind = socket.SOCK_SEQPACKET if is_fork_server else socket.SOCK_STREAM
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
            with theirs:
                if is_fork_server:
                    ours.setblocking(False)
                    self._control = ours
                    self._loop.add_reader(ours, self._on_control)
                else:
                    self._channel = await Channel.open(self, ours)
                output = self.output.open()
                descriptors = [None, output, output, theirs.fileno()]
                try:
                    self.pid = processes.spawn(["-c", program], environment, descriptors)
                finally:
                    os.close(output)
        except OSError:
            logger.exception("Could not spawn a sandbox process")
            return False
        self.exit = asyncio.create_task(exit_of(self.pid))
        self.exit.add_done_callback(self._on_exit)
        events: list[asyncio.Future[Any]] = [self._ready, self.exit]
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(events, timeout=_START_TIMEOUT, return_when=first)
        return self._ready.done() and not self._ready.cancelled()

    def prepare(self, function: bytes) -> None:
        """Let the fork server import what this (pickled) function needs, for its next forks."""
        if self._control is not None and function not in self._prepared:
            self._prepared.add(function)
            self._tell(child_main.PREPARE, function)

    async def bind(self, access: Access, binding: child_main.Binding) -> None:
        """Get a fresh fork for the calls of a job."""
        previous = self._channel
        ours, theirs = socket.socketpair()
        with theirs:
            self._channel = await Channel.open(self, ours)
            self.access = access
            self._cpu_seconds = 0.0
            self._tell(child_main.BIND, pickle.dumps(binding), [theirs.fileno()])
        if previous is not None:
            previous.discard()

    def unbind(self) -> None:
        """Kill the fork with everything it has started."""
        self.access = None
        self._tell(child_main.UNBIND)
        if self._channel is not None:
            self._channel.discard()
            self._channel = None

    def _tell(self, kind: int, body: bytes = b"", descriptors: Sequence[int] = ()) -> None:
        assert self._control is not None
        try:
            socket.send_fds(self._control, [bytes([kind]) + body], descriptors)
        except OSError:  # it is dead, which its exit will show, or hangs
            if self._channel is not None:
                self._channel.abort()

    def _on_control(self) -> None:
        assert self._control is not None
        try:
            message = self._control.recv(child_main.FORKED.size)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._loop.remove_reader(self._control)
            return
        fork_pid, self._server_cpu_seconds, warm_bytes = child_main.FORKED.unpack(message)
        self._fork_pid, self._warm_bytes = fork_pid, warm_bytes
        if not self._ready.done():
            self._ready.set_result(None)

    def begin(
        self,
        request: bytes,
        limits: Limits,
        on_message: Callable[[Any], None] | None = None,
        *,
        returns: Any = Any,
        messages: Any = Any,
    ) -> Call:
        outcome = self._loop.create_future()
        call = self.call = Call(limits, on_message, returns, messages, outcome)
        self.calls += 1
        self._seen.clear()
        self.output.forget()
        if limits.wall_time is not None:
            seconds = limits.wall_time.total_seconds()
            call.timer = self._loop.call_later(seconds, call.time_out, seconds)
        body = ALLOWED.pack(limits.memory_bytes or 0, limits.output_bytes) + request
        self._write(child_main.CALL, body)
        return call

    def _write(self, kind: int, body: bytes = b"") -> None:
        assert self._channel is not None
        self._channel.write(HEADER.pack(kind, len(body)) + body)

    def abandon(self, error: BaseException) -> None:
        self._ready.cancel()
        if self.call is not None:
            self.call.settle(Breached(error, immediately=True))

    async def stop(self, grace: float) -> bool:
        """Cancel the call, then terminate it; true if it cooperated and the child can be reused."""
        if self.call is not None and self.is_usable:
            self._over = self._loop.create_future()
            self._write(child_main.CANCEL)
            await asyncio.wait([self._over], timeout=_CANCEL_GRACE)
            if self.call is not None and self.is_usable:
                processes.signal_tree(self.pid, signal.SIGTERM)
                await asyncio.wait([self._over], timeout=grace)
                return False
        return self.call is None and self.is_clean

    async def leave(self, grace: float) -> None:
        self._hang_up()
        await asyncio.wait([self.exit], timeout=grace)
        await self.kill()

    async def kill(self) -> None:
        """Returns once the child and its descendants are gone."""
        if self._death is None:
            self._death = asyncio.create_task(self._kill())
        await asyncio.shield(self._death)

    async def _kill(self) -> None:
        if self.is_alive and self._is_closing:
            # It is exiting already; killing it now would hide its exit status.
            await asyncio.wait([self.exit], timeout=0.2)
        killed: set[int] = set()
        if self.is_alive:
            self._was_killed = True
            killed = self._remember(processes.kill_tree(self.pid))
            await asyncio.wait([self.exit], timeout=KILL_TIMEOUT)
        await self._sweep(killed)
        if self._channel is not None:
            self._channel.abort()
        self._hang_up()
        self.output.close()

    def _hang_up(self) -> None:
        """Let the process exit: it has read everything when it sees the end of the stream."""
        if self._channel is not None:
            self._channel.close()
        if self._control is not None:
            self._loop.remove_reader(self._control)
            self._control.close()
            self._control = None

    async def _sweep(self, killed: set[int]) -> None:
        """Kill descendants that outlive the child, found by their token or by earlier samples."""
        deadline = self._loop.time() + KILL_TIMEOUT
        while survivors := {
            *(pid for pid, started in self._seen.items() if processes.is_alive(pid, started)),
            *(process.pid for process in processes.processes_with_token(self._token)),
        }:
            if self._loop.time() > deadline:
                logger.error("Could not kill processes %s of a sandbox", sorted(survivors))
                return
            for pid in survivors - killed:
                killed |= self._remember(processes.kill_tree(pid))
            await asyncio.sleep(0.01)
        for pid in self._seen:
            # Where the worker is a container's init, orphans become its children.
            reap(pid)

    def _remember(self, tree: list[processes.Process]) -> set[int]:
        self._seen.update((process.pid, process.started) for process in tree)
        return {process.pid for process in tree}

    def sample(self) -> None:
        """Enforce the limits on memory and processes."""
        call = self.call
        if call is None:
            return
        tree = processes.tree(self._calls_pid)
        self._remember(tree)
        call.peak_bytes = max(call.peak_bytes, sum(process.rss_bytes for process in tree))
        limits = call.limits
        # Killed at once: what grows this fast must not get a grace period.
        if len(tree) > limits.processes:
            message = f"The work started more than {limits.processes} processes."
            error = errors.WorkerCrashed(message, limit_processes=limits.processes)
            call.settle(Breached(error, immediately=True))
        elif limits.memory_bytes is not None and call.peak_bytes > limits.memory_bytes:
            call.settle(Breached(call.out_of_memory(), immediately=True))

    def has_grown_by(self, size: int) -> bool:
        # The peak of the last call is an upper bound that costs nothing to check.
        if self._peak_bytes - self._warm_bytes <= size:
            return False
        process = processes.find(self._calls_pid)
        return process is not None and process.rss_bytes - self._warm_bytes > size

    def crash(self, call: Call) -> errors.WorkerCrashed:
        """The error for a call whose process died."""
        evidence: dict[str, Any] = {"peak_bytes": call.peak_bytes}
        code = self.exit.result().code if self.exit.done() and not self._was_killed else None
        if code is None:
            message = "The worker process stopped responding."
        elif code >= 0:
            message = f"The worker process exited with code {code}."
            evidence["exit_code"] = code
        else:
            is_named = -code in signal.Signals.__members__.values()
            evidence["signal"] = signal.Signals(-code).name if is_named else f"signal {-code}"
            message = f"The worker process was killed by {evidence['signal']}."
            if code == -signal.SIGKILL:
                message += " The system may be out of memory."
        logger.warning("%s Pid %d, last output: %s", message, self.pid, self.output.tail)
        return errors.WorkerCrashed(message, **evidence)

    def frame_limit(self) -> int:
        return _FRAME_SLACK + (self.call.limits.output_bytes if self.call else 0)

    def refuse_frame(self, size: int) -> None:
        """Only a corrupted child gets here: it checks the size of what it sends."""
        if self.call is not None:
            self.call.settle(Breached(self.call.too_large(size), immediately=True))
        elif self._channel is not None:
            self._channel.abort()

    def take_frame(self, kind: int, body: bytes) -> None:
        call = self.call
        match kind:
            case child_main.READY:
                if not self._ready.done():
                    self._cpu_seconds, self._warm_bytes, _ = USAGE.unpack(body)
                    self._ready.set_result(None)
            case child_main.IMPORTED:
                self._learn(body)
            case child_main.MESSAGE:
                if call is None or call.on_message is None or call.outcome.done():
                    return
                try:
                    call.on_message(codec.decode(body, call.messages))
                except Exception as error:  # the caller's callback failed: raise that from `run`
                    call.settle(Breached(error, immediately=False))
            case _ if call is not None:
                cpu_seconds, peak_bytes, self.is_clean = USAGE.unpack_from(body)
                if not 0 <= cpu_seconds < _MAX_CPU_SECONDS:
                    cpu_seconds = self._cpu_seconds
                self._peak_bytes = min(peak_bytes, _MAX_PEAK_BYTES)
                call.cpu_seconds = cpu_seconds - self._cpu_seconds
                call.peak_bytes = max(call.peak_bytes, self._peak_bytes)
                self._cpu_seconds = cpu_seconds
                self.call = None
                call.settle(Ended(kind, body[USAGE.size :]))
                self._stopped()

    def _learn(self, body: bytes) -> None:
        """Let the fork server import what its fork has loaded, if that is harmless."""
        names = body[:_MAX_IMPORTED_BYTES].decode("ascii", "replace").split()
        wanted = [name for name in names if child_main.LEARNED_MODULES.fullmatch(name)]
        new = [name for name in wanted if name not in self._learned]
        if self._control is not None and new:
            self._learned.update(new)
            self._tell(child_main.IMPORT, " ".join(new).encode())

    def _on_exit(self, exit: "asyncio.Task[Exit]") -> None:
        if self.call is not None and not exit.cancelled():
            cpu_seconds = exit.result().cpu_seconds - self._server_cpu_seconds
            self.call.cpu_seconds = cpu_seconds - self._cpu_seconds
        self.disconnected()

    def disconnected(self) -> None:
        """Also called when the process has exited, whichever comes first."""
        if self.call is not None:
            self.call.settle(None)
        self._stopped()

    def _stopped(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


class Channel(asyncio.BufferedProtocol):
    """The frames of the process that runs the calls, which may be under a document's control."""

    _transport: asyncio.Transport

    def __init__(self, child: Child) -> None:
        self._child: Child | None = child
        self._buffer = bytearray()
        self._incoming = memoryview(bytearray(_READ_BYTES))

    @classmethod
    async def open(cls, child: Child, connection: socket.socket) -> "Channel":
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_unix_connection(lambda: cls(child), sock=connection)
        return channel

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def discard(self) -> None:
        """Close it without telling the child, which gets another one."""
        self._child = None
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        # Reused: asyncio would allocate 256 KiB for each read.
        return self._incoming

    def buffer_updated(self, nbytes: int) -> None:
        buffer = self._buffer
        buffer += self._incoming[:nbytes]
        start = 0
        while self._child is not None and len(buffer) - start >= HEADER.size:
            kind, size = HEADER.unpack_from(buffer, start)
            body = start + HEADER.size
            if size > self._child.frame_limit():
                self._transport.pause_reading()
                self._child.refuse_frame(size)
                return
            if len(buffer) < body + size:
                break
            start = body + size
            self._child.take_frame(kind, bytes(memoryview(buffer)[body:start]))
        del buffer[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        if self._child is not None:
            self._child.disconnected()


class Exit(NamedTuple):
    #: As in `subprocess`: negative for a signal; None if someone else has reaped the process.
    code: int | None
    cpu_seconds: float


async def exit_of(pid: int) -> Exit:
    """Wait for the process to exit."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        while (exit := reap(pid)) is None:
            await asyncio.sleep(0.02)
        return exit
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(descriptor, readable.set_result, None)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return reap(pid) or Exit(None, 0.0)


def reap(pid: int) -> Exit | None:
    try:
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return Exit(None, 0.0)
    if not reaped:
        return None
    return Exit(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)


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
