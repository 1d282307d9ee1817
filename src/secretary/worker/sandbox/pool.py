"""A pool of warm child processes for work that may crash, hang or eat memory."""

import asyncio
import logging
import os
import pickle
import secrets
import signal
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, overload

from ...core.errors import (
    FileTooLarge,
    OutOfMemory,
    ProcessingTimeout,
    SecretaryError,
    WorkerCrashed,
)
from ...core.job import ResourceCalculator
from . import child_main

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one call may use; the wait for a free process does not count."""

    wall_time: timedelta | None = None
    #: Resident memory of the process and everyone below it.
    memory_bytes: int | None = 2048 * MIB
    #: Size of the pickled result, and of any one message.
    output_bytes: int = 64 * MIB
    #: How many processes may live at a time: the end of a fork bomb.
    processes: int = 256


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Ended:
    kind: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Breached:
    error: BaseException
    at_once: bool


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
    # Whoever logs the error logs its origin; a note is no part of its message.
    error.add_note(f"In the sandbox process:\n{remote_traceback}")
    return error


def _unpickled(pickled: bytes) -> Exception | None:
    try:
        error = pickle.loads(pickled)  # nosec B301  # as above
    except Exception:  # its type may exist in the child only, or do anything when it is made
        return None
    return error if isinstance(error, Exception) else None


from .child import Child  # noqa: E402  # needs what is defined above
from .watchdog import Heartbeat, Watchdog  # noqa: E402

T = TypeVar("T")

logger = logging.getLogger(__name__)

_SAMPLE_SECONDS = 0.2


class Sandbox:
    def __init__(
        self,
        size: int,
        *,
        limits: Limits = DEFAULT_LIMITS,
        preload: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        max_calls: int = 200,
        max_growth_bytes: int = 256 * MIB,
        grace: timedelta = timedelta(seconds=0.7),
    ) -> None:
        self.size = size
        self.limits = limits
        self._preload = preload
        self._environment = environment
        self._max_calls = max_calls
        self._max_growth_bytes = max_growth_bytes
        self._grace = grace.total_seconds()
        self._token = secrets.token_hex(8)
        self._started = 0
        self._is_open = False
        self._guard: Watchdog | None = None
        self._pulse = Heartbeat()
        self._children: set[Child] = set()
        self._leaving: set[Child] = set()
        self._idle: list[Child] = []
        self._waiters: deque[asyncio.Future[Child]] = deque()
        self._sampler: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        if self._is_open:
            return
        self._guard = Watchdog(self._token)
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
        self._pulse.beat()
        if self._guard is not None:
            self._guard.show_life()

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
        call = child.begin(request, limits or self.limits, on_message)
        if not self._idle:
            self._fill()
        self._keep_sampling()
        outcome: Outcome
        try:
            outcome = await call.outcome
        except asyncio.CancelledError as cancelled:
            outcome = Breached(cancelled, at_once=False)
        try:
            return await self._conclude(child, call, outcome)
        finally:
            if resources is not None:
                resources.add("cpu_seconds", call.cpu_seconds)
                resources.add("peak_memory_bytes", call.peak_bytes)

    async def _conclude(self, child: Child, call: Call, outcome: Outcome) -> Any:
        match outcome:
            case Ended(kind, payload):
                if child.is_clean:
                    self._release(child)
                else:
                    await _unhurried(self._end(child))
                return result(call, kind, payload)
            case Breached(error, at_once):
                await _unhurried(self._end(child) if at_once else self._stop(child))
                raise error
            case Died():
                was_stopped = self._pulse.was_stopped
                await _unhurried(self._end(child))
                if was_stopped:
                    raise SandboxInterrupted("this process was stopped, and its calls with it")
                raise child.crash(call)

    async def _stop(self, child: Child) -> None:
        if await child.stop(self._grace):
            self._release(child)
        else:
            await self._end(child)

    async def _end(self, child: Child) -> None:
        await child.kill()
        self._children.discard(child)
        # A child that died before its first call would die again: wait until one is wanted.
        if child.calls or self._waiters:
            self._fill()

    async def _take(self) -> Child:
        while self._is_open:
            child = self._idle.pop() if self._idle else await self._wait_for_child()
            if not self._is_open:
                break
            if child.is_usable:
                return child
            self._in_background(self._end(child))
        raise SandboxClosed("the sandbox is not open")

    async def _wait_for_child(self) -> Child:
        waiter: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._fill()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and not waiter.exception():
                self._release(waiter.result())
            raise

    def _release(self, child: Child) -> None:
        is_worn = child.calls >= self._max_calls or child.has_grown_by(self._max_growth_bytes)
        if is_worn or not self._is_open:
            self._children.discard(child)
            self._leaving.add(child)
            self._in_background(self._retire(child))
            self._fill()
        else:
            self._offer(child)

    async def _retire(self, child: Child) -> None:
        await child.leave(self._grace)
        self._leaving.discard(child)

    def _offer(self, child: Child) -> None:
        waiter = self._next_waiter()
        if waiter:
            waiter.set_result(child)
        else:
            self._idle.append(child)

    def _next_waiter(self) -> asyncio.Future[Child] | None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def _fill(self) -> None:
        """Have a child for everyone who waits, and one more for the next to come."""
        while self._is_open and len(self._children) < self.size:
            free = sum(child.call is None for child in self._children)
            if free > len(self._waiters):
                return
            self._started += 1
            child = Child(f"{self._token}.{self._started}")
            self._children.add(child)
            self._in_background(self._start(child))

    async def _start(self, child: Child) -> None:
        environment = os.environ if self._environment is None else self._environment
        if await child.start(self._preload, environment) and self._is_open:
            child.exit.add_done_callback(lambda _: self._notice_death(child))
            self._offer(child)
            return
        await child.kill()
        self._children.discard(child)
        if self._is_open:
            self._fail_to_start(child)

    def _fail_to_start(self, child: Child) -> None:
        if self._pulse.was_stopped:  # it is not the child's fault
            self._fill()
            return
        logger.error("a sandbox process could not be started: %s", child.tail)
        waiter = self._next_waiter()
        if waiter:
            waiter.set_exception(WorkerCrashed("The process for the work could not be started."))
        if self._waiters:
            self._fill()

    def _notice_death(self, child: Child) -> None:
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
