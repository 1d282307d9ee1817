"""A pool of warm child processes for work that may crash, hang or eat memory."""

import asyncio
import contextlib
import logging
import os
import pickle
import secrets
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast, overload

from . import processes, sandbox_child
from .errors import FileTooLarge, OutOfMemory, ProcessingTimeout, SecretaryError, WorkerCrashed
from .resources import ResourceCalculator
from .sandbox_child import ALLOWED, HEADER, USAGE

T = TypeVar("T")

logger = logging.getLogger(__name__)

_MIB = 1024 * 1024
_SAMPLE_SECONDS = 0.2
_COOPERATION_SECONDS = 0.3
_START_SECONDS = 120
_DEATH_SECONDS = 5
_TAIL_BYTES = 2048
_READ_BYTES = 65536
#: What a frame may hold beside a result: usage, or the name and the traceback of an error.
_FRAME_SLACK = _MIB


#: Who has shown life and then none for so long is taken for stopped. Less than a worker's lease,
#: so that its work has ended when another worker may take it.
PATIENCE_SECONDS = 4.0
#: Whoever comes back after so long must assume that the guard has acted.
SILENCE_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one call may use; the wait for a free process does not count."""

    wall_time: timedelta | None = None
    #: Resident memory of the process and everyone below it.
    memory_bytes: int | None = 2048 * _MIB
    #: Size of the pickled result, and of any one message.
    output_bytes: int = 64 * _MIB
    #: How many processes may live at a time: the end of a fork bomb.
    processes: int = 256


DEFAULT_LIMITS = Limits()


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


class Sandbox:
    def __init__(
        self,
        size: int,
        *,
        limits: Limits = DEFAULT_LIMITS,
        preload: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        max_calls: int = 200,
        max_growth_bytes: int = 256 * _MIB,
        grace: timedelta = timedelta(seconds=0.7),
    ) -> None:
        self._size = size
        self._limits = limits
        self._preload = preload
        self._environment = environment
        self._max_calls = max_calls
        self._max_growth_bytes = max_growth_bytes
        self._grace = grace.total_seconds()
        self._token = secrets.token_hex(8)
        self._started = 0
        self._is_open = False
        self._guard: _Guard | None = None
        self._alive_at: float | None = None
        self._came_back_at = -SILENCE_SECONDS
        self._children: set[_Child] = set()
        self._leaving: set[_Child] = set()
        self._idle: list[_Child] = []
        self._waiters: deque[asyncio.Future[_Child]] = deque()
        self._sampler: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._guard = _Guard(self._token)
        self._is_open = True
        self._fill()

    async def close(self) -> None:
        """Ends every process, and with SandboxClosed every call that still runs or waits."""
        self._is_open = False
        while waiter := self._next_waiter():
            waiter.set_exception(SandboxClosed("the sandbox was closed"))
        for child in self._children:
            child.abandon(SandboxClosed("the sandbox was closed"))
        await asyncio.gather(*(child.leave(self._grace) for child in self._idle))
        while self._background:
            await asyncio.wait(self._background)
        await asyncio.gather(*(child.kill() for child in self._children))
        self._children.clear()
        self._idle.clear()
        if self._sampler is not None:
            self._sampler.cancel()
            self._sampler = None
        if self._guard is not None:
            await self._guard.close()
            self._guard = None

    def show_life(self) -> None:
        """Call this every second or so once you have begun: who is silent for PATIENCE_SECONDS
        was stopped, and every call is ended as `SandboxInterrupted` though it did no wrong."""
        if self._is_silent:
            self._came_back_at = time.monotonic()
        self._alive_at = time.monotonic()
        if self._guard is not None:
            self._guard.show_life()

    @property
    def _is_silent(self) -> bool:
        return self._alive_at is not None and time.monotonic() - self._alive_at > SILENCE_SECONDS

    @property
    def _was_stopped(self) -> bool:
        """Whether a death that is noticed now may be the guard's doing."""
        return self._is_silent or time.monotonic() - self._came_back_at < SILENCE_SECONDS

    @property
    def processes(self) -> list[int]:
        """The pids of the children that live."""
        return [child.pid for child in self._children | self._leaving if child.is_alive]

    @overload
    async def run(
        self,
        function: Callable[..., Coroutine[Any, Any, T]],
        *args: Any,
        limits: Limits | None = None,
        on_message: Callable[[Any], None] | None = None,
        resources: ResourceCalculator | None = None,
    ) -> T: ...

    @overload
    async def run(
        self,
        function: Callable[..., T],
        *args: Any,
        limits: Limits | None = None,
        on_message: Callable[[Any], None] | None = None,
        resources: ResourceCalculator | None = None,
    ) -> T: ...

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        limits: Limits | None = None,
        on_message: Callable[[Any], None] | None = None,
        resources: ResourceCalculator | None = None,
    ) -> Any:
        """Calls an importable function in a child; it is over, with all it started, on return."""
        request = pickle.dumps((function, args), protocol=5)
        child = await self._take()
        call = child.begin(request, limits or self._limits, on_message)
        if not self._idle:
            self._fill()
        self._keep_sampling()
        outcome: _Outcome
        try:
            outcome = await call.outcome
        except asyncio.CancelledError as cancelled:
            outcome = _Breached(cancelled, at_once=False)
        try:
            return await self._conclude(child, call, outcome)
        finally:
            if resources is not None:
                resources.add("cpu_seconds", call.cpu_seconds)
                resources.add("peak_memory_bytes", call.peak_bytes)

    async def _conclude(self, child: "_Child", call: "_Call", outcome: "_Outcome") -> Any:
        match outcome:
            case _Ended(kind, payload):
                if child.is_clean:
                    self._release(child)
                else:
                    await _unhurried(self._end(child))
                return _result(call, kind, payload)
            case _Breached(error, at_once):
                await _unhurried(self._end(child) if at_once else self._stop(child))
                raise error
            case _Died():
                was_stopped = self._was_stopped
                await _unhurried(self._end(child))
                if was_stopped:
                    raise SandboxInterrupted("this process was stopped, and its calls with it")
                raise child.crash(call)

    async def _stop(self, child: "_Child") -> None:
        if await child.stop(self._grace):
            self._release(child)
        else:
            await self._end(child)

    async def _end(self, child: "_Child") -> None:
        await child.kill()
        self._children.discard(child)
        # A child that died before its first call would die again: wait until one is wanted.
        if child.calls or self._waiters:
            self._fill()

    async def _take(self) -> "_Child":
        while self._is_open:
            child = self._idle.pop() if self._idle else await self._wait_for_child()
            if not self._is_open:
                break
            if child.is_usable:
                return child
            self._in_background(self._end(child))
        raise SandboxClosed("the sandbox is not open")

    async def _wait_for_child(self) -> "_Child":
        waiter: asyncio.Future[_Child] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._fill()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and not waiter.exception():
                self._release(waiter.result())
            raise

    def _release(self, child: "_Child") -> None:
        is_worn = child.calls >= self._max_calls or child.has_grown_by(self._max_growth_bytes)
        if is_worn or not self._is_open:
            self._children.discard(child)
            self._leaving.add(child)
            self._in_background(self._retire(child))
            self._fill()
        else:
            self._offer(child)

    async def _retire(self, child: "_Child") -> None:
        await child.leave(self._grace)
        self._leaving.discard(child)

    def _offer(self, child: "_Child") -> None:
        waiter = self._next_waiter()
        if waiter:
            waiter.set_result(child)
        else:
            self._idle.append(child)

    def _next_waiter(self) -> "asyncio.Future[_Child] | None":
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def _fill(self) -> None:
        """Have a child for everyone who waits, and one more for the next to come."""
        while self._is_open and len(self._children) < self._size:
            free = sum(child.call is None for child in self._children)
            if free > len(self._waiters):
                return
            self._started += 1
            child = _Child(f"{self._token}.{self._started}")
            self._children.add(child)
            self._in_background(self._start(child))

    async def _start(self, child: "_Child") -> None:
        path = [entry for entry in sys.path if isinstance(entry, str)]
        program = (
            f"import sys; sys.path[:] = {path!r}; "
            f"from secretary.sandbox_child import main; main({tuple(self._preload)!r})"
        )
        environment = os.environ if self._environment is None else self._environment
        if await child.start(program, environment) and self._is_open:
            child.exit.add_done_callback(lambda _: self._notice_death(child))
            self._offer(child)
            return
        await child.kill()
        self._children.discard(child)
        if self._is_open:
            self._fail_to_start(child)

    def _fail_to_start(self, child: "_Child") -> None:
        if self._was_stopped:  # it is not the child's fault
            self._fill()
            return
        logger.error("a sandbox process could not be started: %s", child.tail)
        waiter = self._next_waiter()
        if waiter:
            waiter.set_exception(WorkerCrashed("The process for the work could not be started."))
        if self._waiters:
            self._fill()

    def _notice_death(self, child: "_Child") -> None:
        if child in self._idle:
            self._idle.remove(child)
            self._in_background(self._end(child))

    def _keep_sampling(self) -> None:
        if self._sampler is None:
            loop = asyncio.get_running_loop()
            self._sampler = loop.call_later(_SAMPLE_SECONDS, self._sample)

    def _sample(self) -> None:
        self._sampler = None
        busy = [child for child in self._children if child.call]
        for child in busy:
            child.sample()
        if busy:
            self._keep_sampling()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


@dataclass(frozen=True, slots=True)
class _Ended:
    kind: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class _Breached:
    error: BaseException
    at_once: bool


@dataclass(frozen=True, slots=True)
class _Died:
    pass


_Outcome = _Ended | _Breached | _Died


@dataclass(slots=True, eq=False)
class _Call:
    limits: Limits
    on_message: Callable[[Any], None] | None
    outcome: asyncio.Future[_Outcome]
    timer: asyncio.TimerHandle | None = None
    cpu_seconds: float = 0.0
    peak_bytes: int = 0

    def settle(self, outcome: _Outcome) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class _Child(asyncio.BufferedProtocol):
    """One child as its worker sees it: frames on a socket, output in a pipe, and an exit."""

    exit: asyncio.Task["_Exit"]
    _transport: asyncio.Transport

    def __init__(self, token: str) -> None:
        self.pid = 0
        self.calls = 0
        self.call: _Call | None = None
        self.is_clean = True
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] | None = None
        self._death: asyncio.Task[None] | None = None
        self._was_killed = False
        self._output = _Output()
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

    async def start(self, program: str, environment: Mapping[str, str]) -> bool:
        """Whether it came up and has imported what it should."""
        try:
            with await self._connect() as theirs:
                self._spawn(program, environment, theirs)
        except OSError:
            logger.exception("a sandbox process could not be spawned")
            return False
        events: list[asyncio.Future[Any]] = [self._ready, self.exit]
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(events, timeout=_START_SECONDS, return_when=first)
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
                {**environment, processes.MARK: self._token},
                [None, output, output, theirs.fileno()],
            )
        finally:
            os.close(output)
        self.exit = asyncio.create_task(_exit_of(self.pid))
        self.exit.add_done_callback(self._notice_exit)

    def begin(
        self, request: bytes, limits: Limits, on_message: Callable[[Any], None] | None
    ) -> _Call:
        call = self.call = _Call(limits, on_message, self._loop.create_future())
        self.calls += 1
        self._seen.clear()
        self._output.forget()
        if limits.wall_time is not None:
            seconds = limits.wall_time.total_seconds()
            call.timer = self._loop.call_later(seconds, self._run_out_of_time, seconds)
        allowed = ALLOWED.pack(limits.memory_bytes or 0, limits.output_bytes)
        self._send(sandbox_child.CALL, allowed + request)
        return call

    def breach(self, error: BaseException, *, at_once: bool) -> None:
        if self.call is not None:
            self.call.settle(_Breached(error, at_once))

    def abandon(self, error: BaseException) -> None:
        self._ready.cancel()
        self.breach(error, at_once=True)

    async def stop(self, grace: float) -> bool:
        """Asks, then insists; true if the call took the hint and the child is as good as new."""
        if self.call is None or not self.is_usable:
            return self.call is None and self.is_clean
        self._over = self._loop.create_future()
        self._send(sandbox_child.CANCEL, b"")
        await asyncio.wait([self._over], timeout=_COOPERATION_SECONDS)
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
        """Returns when the child and everyone below it are gone."""
        if self._death is None:
            self._death = asyncio.create_task(self._kill())
        await asyncio.shield(self._death)

    async def _kill(self) -> None:
        if self.is_alive and self._transport.is_closing():
            # It is about to exit; of what, we learn only if we do not kill it first.
            await asyncio.wait([self.exit], timeout=0.2)
        killed: set[int] = set()
        if self.is_alive:
            self._was_killed = True
            killed = self._remember(processes.kill_tree(self.pid))
            await asyncio.wait([self.exit], timeout=_DEATH_SECONDS)
        await self._sweep(killed)
        if self.pid:
            self._transport.abort()
        self._output.close()

    async def _sweep(self, killed: set[int]) -> None:
        """Ends what outlives its root: known by its mark, or by having been seen below it."""
        deadline = self._loop.time() + _DEATH_SECONDS
        while left := self._left():
            if self._loop.time() > deadline:
                logger.error("processes %s of a sandbox cannot be killed", sorted(left))
                return
            for pid in left - killed:
                killed |= self._remember(processes.kill_tree(pid))
            await asyncio.sleep(0.01)
        for pid in self._seen:
            # Where the worker is the init of a container, orphans become its children.
            _reap(pid)

    def _left(self) -> set[int]:
        seen = {pid for pid, started in self._seen.items() if processes.is_alive(pid, started)}
        return seen | {process.pid for process in processes.marked(self._token)}

    def sample(self) -> None:
        call = self.call
        if call is None:
            return
        tree = processes.tree(self.pid)
        self._remember(tree)
        call.peak_bytes = max(call.peak_bytes, sum(process.rss_bytes for process in tree))
        # What grows this fast is given no time to end by itself.
        if len(tree) > call.limits.processes:
            self.breach(_too_many_processes(call), at_once=True)
        elif call.limits.memory_bytes is not None and call.peak_bytes > call.limits.memory_bytes:
            self.breach(_out_of_memory(call), at_once=True)

    def has_grown_by(self, size: int) -> bool:
        # The peak of the last call is an upper bound, and at hand.
        if self._peak_bytes - self._warm_bytes <= size:
            return False
        process = processes.find(self.pid)
        return process is not None and process.rss_bytes - self._warm_bytes > size

    def crash(self, call: _Call) -> WorkerCrashed:
        code = self.exit.result().code if self.exit.done() else None
        evidence: dict[str, Any] = {"peak_bytes": call.peak_bytes}
        if self._was_killed or code is None:
            message = "The process that ran the work stopped answering."
        elif code >= 0:
            message = f"The process that ran the work ended by itself with exit code {code}."
            evidence["exit_code"] = code
        else:
            evidence["signal"] = _signal_name(-code)
            message = f"The process that ran the work died of {evidence['signal']}."
            if code == -signal.SIGKILL:
                message += " The system may have run out of memory."
        logger.warning("%s Pid %d, last output: %s", message, self.pid, self.tail)
        return WorkerCrashed(message, **evidence)

    @property
    def tail(self) -> str:
        return self._output.tail

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._die()

    def get_buffer(self, sizehint: int) -> memoryview:
        # Kept: asyncio would allocate 256 KiB for each read.
        return self._incoming

    def buffer_updated(self, nbytes: int) -> None:
        buffer = self._buffer
        buffer += self._incoming[:nbytes]
        start = 0
        while len(buffer) - start >= HEADER.size:
            kind, size = HEADER.unpack_from(buffer, start)
            body = start + HEADER.size
            if size > _FRAME_SLACK + (self.call.limits.output_bytes if self.call else 0):
                self._refuse(size)
                return
            if len(buffer) < body + size:
                break
            start = body + size
            self._take_frame(kind, bytes(memoryview(buffer)[body:start]))
        del buffer[:start]

    def _take_frame(self, kind: int, body: bytes) -> None:
        match kind:
            case sandbox_child.MESSAGE:
                self._take_message(body)
            case sandbox_child.READY:
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
            call.on_message(pickle.loads(body))
        except Exception as error:  # the caller's own: it ends the call and comes out of `run`
            self.breach(error, at_once=False)

    def _take_end(self, call: _Call, kind: int, body: bytes) -> None:
        cpu_seconds, self._peak_bytes, self.is_clean = USAGE.unpack_from(body)
        call.cpu_seconds = cpu_seconds - self._cpu_seconds
        call.peak_bytes = max(call.peak_bytes, self._peak_bytes)
        self._cpu_seconds = cpu_seconds
        self.call = None
        call.settle(_Ended(kind, body[USAGE.size :]))
        self._stopped()

    def _run_out_of_time(self, seconds: float) -> None:
        message = f"The work took longer than the {seconds:g} seconds it may take."
        self.breach(ProcessingTimeout(message, limit_seconds=seconds), at_once=False)

    def _refuse(self, size: int) -> None:
        # Only a child that has lost its mind gets here: it measures what it sends.
        self._transport.pause_reading()
        if self.call is not None:
            self.breach(_too_large(self.call, size), at_once=True)
        else:
            self._transport.abort()

    def _notice_exit(self, exit: "asyncio.Task[_Exit]") -> None:
        if self.call is not None and not exit.cancelled():
            self.call.cpu_seconds = exit.result().cpu_seconds - self._cpu_seconds
        self._die()

    def _die(self) -> None:
        if self.call is not None:
            self.call.settle(_Died())
        self._stopped()

    def _stopped(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _remember(self, tree: list[processes.Process]) -> set[int]:
        self._seen.update((process.pid, process.started) for process in tree)
        return {process.pid for process in tree}

    def _send(self, kind: int, body: bytes) -> None:
        self._transport.write(HEADER.pack(kind, len(body)) + body)


class _Output:
    """What a process prints: read so that it never blocks, and but for its last words forgotten."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._tail = b""

    def open(self) -> int:
        """The descriptor to write to."""
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
        """Whether there may be more to come."""
        if self._descriptor is None:
            return False
        try:
            data = os.read(self._descriptor, 65536)  # as much as a pipe holds
        except BlockingIOError:
            return True
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        return data != b""


class _Guard:
    """The process that ends a sandbox's children when their worker is killed."""

    def __init__(self, token: str) -> None:
        reading, self._lifeline = os.pipe()
        os.set_blocking(self._lifeline, False)
        try:
            # By path and without site: it needs nothing of the package and stays small.
            arguments = ["-I", "-S", processes.__file__, token, str(PATIENCE_SECONDS)]
            self._exit = asyncio.create_task(
                _exit_of(processes.spawn(arguments, os.environ, [reading, None, None]))
            )
        finally:
            os.close(reading)

    def show_life(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it has enough to read
            os.write(self._lifeline, b".")

    async def close(self) -> None:
        os.close(self._lifeline)
        await asyncio.wait([self._exit], timeout=_DEATH_SECONDS)


@dataclass(frozen=True, slots=True)
class _Exit:
    #: As subprocess has it: negative for a signal; None if somebody else has taken the news.
    code: int | None
    cpu_seconds: float


async def _exit_of(pid: int) -> _Exit:
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # no Linux, or an old one
        while (exit := _reap(pid)) is None:
            await asyncio.sleep(0.02)
        return exit
    await _readable(descriptor)
    return _reap(pid) or _Exit(None, 0.0)


def _reap(pid: int) -> _Exit | None:
    try:
        reaped, status, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return _Exit(None, 0.0)
    if not reaped:
        return None
    return _Exit(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(descriptor, readable.set_result, None)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _unhurried(work: Coroutine[Any, Any, None]) -> None:
    """Sees `work` through even if cancelled: whoever left earlier would leave processes behind."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


def _result(call: _Call, kind: int, payload: bytes) -> Any:
    match kind:
        case sandbox_child.RETURNED:
            return pickle.loads(payload)
        case sandbox_child.TOO_LARGE:
            raise _too_large(call, pickle.loads(payload))
        case sandbox_child.OUT_OF_MEMORY:
            raise _out_of_memory(call)
        case _:
            raise _raised(payload)


def _raised(payload: bytes) -> Exception:
    kind, remote_traceback, pickled = pickle.loads(payload)
    error = (pickled and _unpickled(pickled)) or RemoteError(kind)
    error.__dict__["remote_traceback"] = remote_traceback
    # Whoever logs the error logs its origin; a note is no part of its message.
    error.add_note(f"In the sandbox process:\n{remote_traceback}")
    return error


def _unpickled(pickled: bytes) -> Exception | None:
    try:
        error = pickle.loads(pickled)
    except Exception:  # its type may exist in the child only, or do anything when it is made
        return None
    return error if isinstance(error, Exception) else None


def _too_large(call: _Call, size: int) -> FileTooLarge:
    limit = call.limits.output_bytes
    return FileTooLarge(
        f"The result is larger than the {_in_words(limit)} it may be.",
        limit_bytes=limit,
        size_bytes=size,
    )


def _out_of_memory(call: _Call) -> OutOfMemory:
    limit = call.limits.memory_bytes
    if limit is None:
        return OutOfMemory("The work needed more memory than there is.", peak_bytes=call.peak_bytes)
    return OutOfMemory(
        f"The work needed more than the {_in_words(limit)} of memory it may use.",
        limit_bytes=limit,
        peak_bytes=call.peak_bytes,
    )


def _too_many_processes(call: _Call) -> WorkerCrashed:
    limit = call.limits.processes
    return WorkerCrashed(f"The work started more than {limit} processes.", limit_processes=limit)


def _in_words(size: int) -> str:
    for unit, bytes_each in (("GiB", 1024 * _MIB), ("MiB", _MIB), ("KiB", 1024)):
        if size >= bytes_each:
            return f"{size / bytes_each:.4g} {unit}"
    return f"{size} bytes"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
