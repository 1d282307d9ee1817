"""A pool of warm child processes for work that may crash, hang or eat memory."""

import asyncio
import functools
import logging
import math
import os
import pickle
import secrets
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar, overload

from ...core import processes
from ...core.errors import WorkerCrashed
from ...core.fence import Fence
from ...core.job import ResourceCalculator
from ...core.processes import clean_environment
from . import codec
from .child import (
    DEFAULT_LIMITS,
    KILL_TIMEOUT,
    MIB,
    Access,
    Breached,
    Call,
    Child,
    Ended,
    Exit,
    Limits,
    Outcome,
    SandboxClosed,
    SandboxInterrupted,
    exit_of,
)
from .child_main import Binding

T = TypeVar("T")

#: For calls that need no files.
_NO_ACCESS = Access("")

logger = logging.getLogger(__name__)

_SAMPLE_SECONDS = 0.2
#: A worker without a heartbeat for this long counts as suspended. Shorter than its lease, so that
#: its work has ended before another worker may claim the job.
WATCHDOG_TIMEOUT = 4.0
#: After a gap this long, assume that the watchdog has acted.
HEARTBEAT_GAP = 3.0
#: A watchdog that dies this soon after another one is replaced only at the next heartbeat:
#: restarting it in a loop would not help.
RESTART_INTERVAL = 1.0


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
        fence: Fence | None = None,
    ) -> None:
        """With a `fence`, each call is confined to it and to its `Access`, and gets no variables of
        the environment that may be secret."""
        self.size = size
        self.limits = limits
        self._preload = preload
        self._environment = environment
        self._fence = fence
        self._max_calls = max_calls
        self._max_growth_bytes = max_growth_bytes
        self._grace = grace.total_seconds()
        self._token = secrets.token_hex(8)
        self._started = 0
        self._is_open = False
        self._watchdog: Watchdog | None = None
        self._children: set[Child] = set()
        self._leaving: set[Child] = set()
        self._idle: list[Child] = []
        self._waiters: deque[asyncio.Future[Child]] = deque()
        self._sampler: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        if not self._is_open:
            self._watchdog = Watchdog(self._token)
            self._is_open = True
            self._fill()

    async def close(self) -> None:
        """End every process; calls that run or wait fail with `SandboxClosed`."""
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
        if self._watchdog is not None:
            await self._watchdog.close()
            self._watchdog = None

    def heartbeat(self) -> None:
        """Call about once a second after the first call. Without a heartbeat for
        `WATCHDOG_TIMEOUT` this process counts as suspended, and every call ends as
        `SandboxInterrupted`."""
        if self._watchdog is not None:
            self._watchdog.heartbeat()

    @property
    def processes(self) -> list[int]:
        """The pids of the live children."""
        return [child.pid for child in self._children | self._leaving if child.is_alive]

    @overload
    async def run(
        self,
        function: Callable[..., Coroutine[Any, Any, T]],
        *args: Any,
        limits: Limits | None = None,
        on_message: Callable[[Any], None] | None = None,
        messages: Any = Any,
        access: Access | None = None,
        resources: ResourceCalculator | None = None,
    ) -> T: ...

    @overload
    async def run(
        self,
        function: Callable[..., T],
        *args: Any,
        limits: Limits | None = None,
        on_message: Callable[[Any], None] | None = None,
        messages: Any = Any,
        access: Access | None = None,
        resources: ResourceCalculator | None = None,
    ) -> T: ...

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        limits: Limits | None = None,
        on_message: Callable[[Any], None] | None = None,
        messages: Any = Any,
        access: Access | None = None,
        resources: ResourceCalculator | None = None,
    ) -> Any:
        """Call an importable function in a child process. On return, everything the call started
        has ended. The result must be of the type that the function declares, and have a form in
        JSON or be bytes; a message (see `child_main.send`) must be of the type `messages`."""
        request = pickle.dumps((function, args), protocol=5)
        access = access or _NO_ACCESS
        implementation = function
        while isinstance(implementation, functools.partial):
            implementation = implementation.func
        if getattr(implementation, "uses_network", False):
            access = replace(access, has_network=True)
        if getattr(implementation, "uses_sockets", False):
            access = replace(access, has_sockets=True)
        child = await self._take(access if self._fence else None)
        if self._fence is not None:
            try:
                await self._bind(child, access, implementation)
            except BaseException:
                await _uncancellable(self._end(child))
                raise
        call = child.begin(
            request,
            limits or self.limits,
            on_message,
            returns=codec.return_type(function),
            messages=messages,
        )
        if not self._idle:
            self._fill()
        self._keep_sampling()
        outcome: Outcome
        try:
            outcome = await call.outcome
        except asyncio.CancelledError as cancelled:
            outcome = Breached(cancelled, immediately=False)
        try:
            return await self._conclude(child, call, outcome)
        finally:
            if resources is not None:
                resources.add("cpu_seconds", call.cpu_seconds)
                resources.add("peak_memory_bytes", call.peak_bytes)

    async def _bind(self, child: Child, access: Access, function: Callable[..., Any]) -> None:
        """Make sure that the process of this child can do what the access allows, and no more."""
        assert self._fence is not None
        child.prepare(pickle.dumps(function, protocol=5))
        if child.access == access:
            return
        fence = replace(
            self._fence,
            system=(),  # known to the fork server
            reads=(*(self._fence.reads or ()), *sorted(access.reads)),
            writes=(*self._fence.writes, *sorted(access.writes)),
            network=access.has_network,
            sockets=access.has_sockets,
            protected=(os.getpid(), child.pid),
        )
        environment = dict(os.environ) if access.has_environment else {}
        await child.bind(
            access,
            Binding(None if access.is_trusted else fence, environment, access.scratch),
        )

    def end_access(self, key: str) -> None:
        """End the processes of a job that has ended."""
        for child in self._idle:
            if child.access is not None and child.access.key == key:
                child.unbind()

    async def _conclude(self, child: Child, call: Call, outcome: Outcome) -> Any:
        match outcome:
            case Ended():
                if child.is_clean:
                    self._release(child)
                else:
                    await _uncancellable(self._end(child))
                return call.result(outcome)
            case Breached(error, immediately):
                await _uncancellable(self._end(child) if immediately else self._stop(child))
                raise error
            case None:
                was_suspended = self._watchdog is not None and self._watchdog.was_suspended
                await _uncancellable(self._end(child))
                if was_suspended:
                    raise SandboxInterrupted("this process was suspended, and its calls were ended")
                raise child.crash(call)

    async def _stop(self, child: Child) -> None:
        if await child.stop(self._grace):
            self._release(child)
        else:
            await self._end(child)

    async def _end(self, child: Child) -> None:
        await child.kill()
        self._children.discard(child)
        # A child that died before its first call may die again: replace it only on demand.
        if child.calls or self._waiters:
            self._fill()

    async def _take(self, access: Access | None) -> Child:
        """An idle child; if there is none, wait for one."""
        while self._is_open:
            if self._idle:
                child = self._closest(access)
                self._idle.remove(child)
            else:
                waiter: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                self._fill()
                try:
                    child = await waiter
                except asyncio.CancelledError:
                    if waiter.done() and not waiter.cancelled() and not waiter.exception():
                        self._release(waiter.result())
                    raise
            if not self._is_open:
                break
            if child.is_usable:
                return child
            self._in_background(self._end(child))
        raise SandboxClosed("the sandbox is not open")

    def _closest(self, access: Access | None) -> Child:
        """The idle child that was last used, preferably by the same job, else by none."""
        newest_first = self._idle[::-1]
        for wanted in (access, None):
            for child in newest_first:
                if child.access == wanted:
                    return child
        return newest_first[0]

    def _release(self, child: Child) -> None:
        is_worn_out = child.calls >= self._max_calls or child.has_grown_by(self._max_growth_bytes)
        if is_worn_out or not self._is_open:
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
        if waiter := self._next_waiter():
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
        """Start a child for every waiter, and a spare one for the next call."""
        while self._is_open and len(self._children) < self.size:
            free = sum(child.call is None for child in self._children)
            if free > len(self._waiters):
                return
            self._started += 1
            token = f"{self._token}.{self._started}"
            child = Child(token, system=self._fence.system if self._fence else None)
            self._children.add(child)
            self._in_background(self._start(child))

    async def _start(self, child: Child) -> None:
        environment = self._environment
        if environment is None:
            environment = os.environ if self._fence is None else clean_environment(os.environ)
        if await child.start(self._preload, environment) and self._is_open:
            child.exit.add_done_callback(lambda _: self._on_child_death(child))
            self._offer(child)
            return
        await child.kill()
        self._children.discard(child)
        if not self._is_open:
            return
        if self._watchdog is not None and self._watchdog.was_suspended:  # not the child's fault
            self._fill()
            return
        logger.error("Could not start a sandbox process: %s", child.output.tail)
        if waiter := self._next_waiter():
            waiter.set_exception(WorkerCrashed("The worker process could not be started."))
        if self._waiters:
            self._fill()

    def _on_child_death(self, child: Child) -> None:
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


async def _uncancellable(work: Coroutine[Any, Any, None]) -> None:
    """Finish `work` even if cancelled, so that no process is left behind; then cancel."""
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


class Watchdog:
    """The process that kills the sandbox's children when their worker dies or is suspended."""

    def __init__(self, token: str, *, timeout: float = WATCHDOG_TIMEOUT) -> None:
        self._token = token
        self._timeout = timeout
        self._last_beat = math.inf
        self._resumed_at = -HEARTBEAT_GAP
        self._died_at = -RESTART_INTERVAL
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        reading, self._lifeline = os.pipe()
        os.set_blocking(self._lifeline, False)
        if self._last_beat < math.inf:  # arm the new one at once: we may be suspended any time
            os.write(self._lifeline, b".")
        try:
            # Run by path and without site: it needs nothing of the package and stays small.
            arguments = ["-I", "-S", processes.__file__, self._token, str(self._timeout)]
            self._exit = asyncio.create_task(
                exit_of(processes.spawn(arguments, os.environ, [reading, None, None]))
            )
        finally:
            os.close(reading)
        self._exit.add_done_callback(self._died)

    def _died(self, exit: asyncio.Task[Exit]) -> None:
        """Replace a watchdog that was killed, say by a signal to our process group."""
        is_short = time.monotonic() - self._died_at < RESTART_INTERVAL
        self._died_at = time.monotonic()
        if exit is self._exit and not exit.cancelled() and not self._is_closed and not is_short:
            self._replace()

    def _replace(self) -> None:
        os.close(self._lifeline)
        self._start()

    def heartbeat(self) -> None:
        if self._is_overdue:
            self._resumed_at = time.monotonic()
        self._last_beat = time.monotonic()
        try:
            os.write(self._lifeline, b".")
        except BlockingIOError:  # its pipe is full, which is enough
            pass
        except BrokenPipeError:
            self._replace()

    async def close(self) -> None:
        self._is_closed = True
        os.close(self._lifeline)
        await asyncio.wait([self._exit], timeout=KILL_TIMEOUT)

    @property
    def was_suspended(self) -> bool:
        """Whether it may have killed a child whose death is noticed now: gaps between heartbeats
        show that this process was suspended."""
        return self._is_overdue or time.monotonic() - self._resumed_at < HEARTBEAT_GAP

    @property
    def _is_overdue(self) -> bool:
        return time.monotonic() - self._last_beat > HEARTBEAT_GAP
